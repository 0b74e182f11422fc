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

// levels are what can be read of the daemon at any time.
func (d *Daemon) levels(queue *admit.Queue) error {
	one := func(read func() int) func(func(string, int64)) {
		return func(part func(string, int64)) { part("", int64(read())) }
	}
	var errs []error
	for _, l := range []telemetry.Gauge{
		{Name: "sandpiper.executions.running", Unit: "{execution}", About: "Executions that run", Read: one(func() int { return queue.Load().Running })},
		{Name: "sandpiper.executions.waiting", Unit: "{execution}", About: "Executions that wait for a place", Read: one(func() int { return queue.Load().Waiting })},
		{Name: "sandpiper.sessions.living", Unit: "{session}", About: "Sessions with a living interpreter", Read: one(d.Runner.LiveInterpreters)},
		{Name: "sandpiper.audit.lost", Unit: "{line}", About: "Lines of the audit log that found no room", Total: true, Read: one(func() int { return int(d.Audit.Lost()) })},
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

// scrapers is how many connections may read metrics at a time.
const scrapers = 32

// startScrape lets Prometheus read the metrics, at an address of their own: those
// who have a token for MCP have none for this. Of several daemons with one
// configuration the first has the address, and the others say so.
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
		d.log.Warn("nobody can scrape the metrics of this daemon", "error", why)
		return
	}
	srv := &http.Server{Handler: d.Telemetry.Handler(m.Token), ReadHeaderTimeout: 10 * time.Second, WriteTimeout: 30 * time.Second, IdleTimeout: 2 * time.Minute, MaxHeaderBytes: 16 << 10}
	bounded := httpserver.Limit(srv, ln, scrapers)
	d.log.Info("metrics can be scraped", "address", ln.Addr().String())
	var serving sync.WaitGroup
	serving.Go(func() { _ = srv.Serve(bounded) })
	d.scrape = func() { _ = srv.Close(); serving.Wait() }
}
