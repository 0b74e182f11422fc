package daemon

import (
	"context"
	"errors"
	"net/http"
	"sync"
	"time"

	"github.com/sandpiper-mcp/sandpiper/internal/fault"
	"github.com/sandpiper-mcp/sandpiper/internal/httpserver"
	"github.com/sandpiper-mcp/sandpiper/internal/sandbox/admit"
	"github.com/sandpiper-mcp/sandpiper/internal/telemetry"
)

func (d *Daemon) openTelemetry() (err error) {
	cfg := d.cfg.Telemetry
	cfg.Version, cfg.Console, cfg.Log = d.cfg.Version, d.cfg.Console, d.log
	d.Telemetry, err = telemetry.Open(context.Background(), cfg)
	return err
}

// addGauges adds the gauges of the daemon.
func (d *Daemon) addGauges(queue *admit.Queue) error {
	one := func(read func() int) func(func(string, int64)) {
		return func(part func(string, int64)) { part("", int64(read())) }
	}
	var errs []error
	for _, l := range []telemetry.Gauge{
		{Name: "sandpiper.executions.running", Unit: "{execution}", About: "Running executions", Read: one(func() int { return queue.Load().Running })},
		{Name: "sandpiper.executions.waiting", Unit: "{execution}", About: "Executions waiting in the queue", Read: one(func() int { return queue.Load().Waiting })},
		{Name: "sandpiper.sessions.living", Unit: "{session}", About: "Sessions with a live interpreter", Read: one(d.Runner.LiveInterpreters)},
		{Name: "sandpiper.audit.lost", Unit: "{line}", About: "Audit lines dropped because the queue was full", Total: true, Read: one(func() int { return int(d.Audit.Lost()) })},
		{Name: "sandpiper.upstream.servers", Unit: "{server}", About: "Configured servers by their state", Label: "state", Read: d.serverStates},
	} {
		errs = append(errs, d.Telemetry.AddGauge(l))
	}
	return errors.Join(errs...)
}

func (d *Daemon) serverStates(part func(string, int64)) {
	states := map[string]int64{}
	for _, s := range d.Servers.Set.States() {
		states[s.State.String()]++
	}
	for state, n := range states {
		part(state, n)
	}
}

// maxScrapers limits the connections of the metrics listener.
const maxScrapers = 32

// startScrape serves metrics to Prometheus on a separate address, with a separate token.
// If several daemons share a configuration, only the first gets the address; the others
// log that.
func (d *Daemon) startScrape() {
	m := d.cfg.Telemetry.Metrics
	if m.Prometheus == "" || d.Telemetry == nil || d.scrape != nil {
		return
	}
	ln, err := httpserver.Listen(context.Background(), m.Prometheus, m.Token != "")
	if err != nil {
		why := fault.Message(err)
		if fault.KindOf(err) == fault.Denied {
			why += "; set telemetry.metrics.token, or use an address of 127.0.0.1"
		}
		d.log.Warn("the metrics of this daemon cannot be scraped", "error", why)
		return
	}
	srv := &http.Server{Handler: d.Telemetry.Handler(m.Token), ReadHeaderTimeout: 10 * time.Second, WriteTimeout: 30 * time.Second, IdleTimeout: 2 * time.Minute, MaxHeaderBytes: 16 << 10}
	bounded := httpserver.Limit(srv, ln, maxScrapers)
	d.log.Info("metrics can be scraped", "address", ln.Addr().String())
	var serving sync.WaitGroup
	serving.Go(func() { _ = srv.Serve(bounded) })
	d.scrape = func() { _ = srv.Close(); serving.Wait() }
}
