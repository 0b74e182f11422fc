package daemon

import (
	"context"
	"log/slog"
	"net/http"
	"sync"
	"time"

	"github.com/sandpiper-mcp/sandpiper/internal/fault"
	"github.com/sandpiper-mcp/sandpiper/internal/httpserver"
	"github.com/sandpiper-mcp/sandpiper/internal/telemetry"
)

// metrics exports telemetry, and serves metrics to Prometheus.
type metrics struct {
	*telemetry.Recorder // nil if nothing is exported

	cfg        telemetry.Config
	log        *slog.Logger
	stopScrape func() // nil if there is no listener
}

func openMetrics(cfg Config, tierOf func(tenant string) string, log *slog.Logger) (*metrics, error) {
	m := &metrics{cfg: cfg.Telemetry, log: log}
	m.cfg.TierOf = tierOf
	m.cfg.Version, m.cfg.Console, m.cfg.Log = cfg.Version, cfg.Console, log
	var err error
	m.Recorder, err = telemetry.Open(context.Background(), m.cfg)
	return m, err
}

// closeScrape stops the listener of startScrape.
func (m *metrics) closeScrape() error {
	if m.stopScrape != nil {
		m.stopScrape()
	}
	return nil
}

// maxScrapers limits the connections of the metrics listener.
const maxScrapers = 32

// startScrape serves metrics to Prometheus on a separate address, with a separate token.
// If several daemons share a configuration, only the first gets the address; the others
// log that.
func (m *metrics) startScrape() {
	at := m.cfg.Metrics
	if at.Prometheus == "" || m.Recorder == nil || m.stopScrape != nil {
		return
	}
	ln, err := httpserver.Listen(context.Background(), at.Prometheus, at.Token != "")
	if err != nil {
		why := fault.Message(err)
		if fault.KindOf(err) == fault.Denied {
			why += "; set telemetry.metrics.token, or use an address of 127.0.0.1"
		}
		m.log.Warn("the metrics of this daemon cannot be scraped", "error", why)
		return
	}
	srv := &http.Server{Handler: httpserver.CheckHost(m.Handler(at.Token)), ReadHeaderTimeout: 10 * time.Second,
		WriteTimeout: 30 * time.Second, IdleTimeout: 2 * time.Minute, MaxHeaderBytes: 16 << 10}
	bounded := httpserver.Limit(srv, ln, maxScrapers)
	m.log.Info("metrics can be scraped", "address", ln.Addr().String())
	var serving sync.WaitGroup
	serving.Go(func() { _ = srv.Serve(bounded) })
	m.stopScrape = func() { _ = srv.Close(); serving.Wait() }
}
