package telemetry

import (
	"context"
	"log/slog"
	"net/url"
	"sync"

	"go.opentelemetry.io/otel/exporters/otlp/otlpmetric/otlpmetrichttp"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracehttp"
	"go.opentelemetry.io/otel/exporters/stdout/stdouttrace"
	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"

	"github.com/sandpiper-mcp/sandpiper/internal/fault"
)

// traceExporter returns the exporter of traces. Settings without a field in Config,
// such as timeouts, come from the standard OTEL_ variables.
func traceExporter(ctx context.Context, cfg Config) (sdktrace.SpanExporter, error) {
	if cfg.Traces.Endpoint == Console {
		return stdouttrace.New(stdouttrace.WithWriter(cfg.Console))
	}
	at, err := endpoint(cfg.Traces.Endpoint, "/v1/traces")
	if err != nil {
		return nil, err
	}
	options := []otlptracehttp.Option{otlptracehttp.WithEndpointURL(at)}
	if len(cfg.Traces.Headers) > 0 {
		options = append(options, otlptracehttp.WithHeaders(cfg.Traces.Headers))
	}
	return otlptracehttp.New(ctx, options...)
}

func metricExporter(ctx context.Context, cfg Config) (sdkmetric.Exporter, error) {
	at, err := endpoint(cfg.Metrics.Endpoint, "/v1/metrics")
	if err != nil {
		return nil, err
	}
	options := []otlpmetrichttp.Option{otlpmetrichttp.WithEndpointURL(at)}
	if len(cfg.Metrics.Headers) > 0 {
		options = append(options, otlpmetrichttp.WithHeaders(cfg.Metrics.Headers))
	}
	return otlpmetrichttp.New(ctx, options...)
}

// endpoint returns the URL of a collector, with the default path if it has none.
func endpoint(text, path string) (string, error) {
	u, err := url.Parse(text)
	if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
		return "", fault.New(fault.Invalid, "the telemetry endpoint is not a URL such as http://127.0.0.1:4318")
	}
	if u.Path == "" || u.Path == "/" {
		u.Path = path
	}
	return u.String(), nil
}

// exportLog logs when exporting starts to fail and when it recovers: two lines per
// outage.
type exportLog struct {
	log  *slog.Logger
	what string

	mu      sync.Mutex
	failing bool
}

func (c *exportLog) note(err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case err != nil && !c.failing:
		c.log.Warn("the collector does not accept "+c.what+"; they are dropped", "error", err)
	case err == nil && c.failing:
		c.log.Info("the collector accepts " + c.what + " again")
	}
	c.failing = err != nil
}

// loggedTraces logs errors itself, because the SDK has one error handler per process.
type loggedTraces struct {
	sdktrace.SpanExporter
	log exportLog
}

// ExportSpans implements sdktrace.SpanExporter.
func (p *loggedTraces) ExportSpans(ctx context.Context, spans []sdktrace.ReadOnlySpan) error {
	p.log.note(p.SpanExporter.ExportSpans(ctx, spans))
	return nil
}

// loggedMetrics does the same for metrics.
type loggedMetrics struct {
	sdkmetric.Exporter
	log exportLog
}

// Export implements sdkmetric.Exporter.
func (p *loggedMetrics) Export(ctx context.Context, m *metricdata.ResourceMetrics) error {
	p.log.note(p.Exporter.Export(ctx, m))
	return nil
}
