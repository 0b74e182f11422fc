package daemon

import (
	"errors"

	"github.com/sandpiper-mcp/sandpiper/internal/sandbox/admit"
	"github.com/sandpiper-mcp/sandpiper/internal/telemetry"
)

// addGauges adds the gauges of the daemon.
func (d builder) addGauges(queue *admit.Queue) error {
	one := func(read func() int) func(func(string, int64)) {
		return func(part func(string, int64)) { part("", int64(read())) }
	}
	var errs []error
	for _, l := range []telemetry.Gauge{
		{Name: "sandpiper.executions.running", Unit: "{execution}", About: "Running executions", Label: "tier",
			Read: d.byTier(queue, func(l admit.Load) int { return l.Running })},
		{Name: "sandpiper.executions.waiting", Unit: "{execution}", About: "Executions waiting in the queue", Label: "tier",
			Read: d.byTier(queue, func(l admit.Load) int { return l.Waiting })},
		{Name: "sandpiper.sessions.live", Unit: "{session}", About: "Sessions with a live interpreter",
			Read: one(func() int { return d.Runner.Stats().Live })},
		{Name: "sandpiper.audit.lost", Unit: "{line}", About: "Audit lines dropped because the queue was full", Total: true,
			Read: one(func() int { return int(d.data.audit.Lost()) })},
		{Name: "sandpiper.upstream.servers", Unit: "{server}", About: "Configured servers by their state", Label: "state",
			Read: d.countStates},
	} {
		errs = append(errs, d.metrics.AddGauge(l))
	}
	return errors.Join(errs...)
}

// countStates reports the number of servers in each state.
func (d builder) countStates(part func(string, int64)) {
	states := map[string]int64{}
	for _, s := range d.Servers.Set.States() {
		states[s.State.String()]++
	}
	for state, n := range states {
		part(state, n)
	}
}

// byTier sums a number of the queue over the tenants of each tier.
func (d builder) byTier(queue *admit.Queue, number func(admit.Load) int) func(part func(string, int64)) {
	return func(part func(string, int64)) {
		sums := map[string]int64{"": 0}
		for _, tier := range d.Tiers.names() {
			sums[tier] = 0
		}
		for owner, l := range queue.Loads() {
			sums[limits(d).tierOfCaller(owner)] += int64(number(l))
		}
		for tier, n := range sums {
			part(tier, n)
		}
	}
}
