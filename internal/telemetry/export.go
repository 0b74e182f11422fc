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

// traceExporter sends traces where they are to go. What Config does not say, as a
// timeout, the SDK takes from the standard variables.
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

// endpoint is the URL of a collector; one without a path has the usual one.
func endpoint(text, path string) (string, error) {
	u, err := url.Parse(text)
	if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
		return "", fault.New(fault.Invalid, "the endpoint for telemetry is no URL such as http://127.0.0.1:4318")
	}
	if u.Path == "" || u.Path == "/" {
		u.Path = path
	}
	return u.String(), nil
}

// complaints say when sending begins to fail, and when it works again: a collector
// that is down for a night is worth two lines.
type complaints struct {
	log  *slog.Logger
	what string

	mu      sync.Mutex
	failing bool
}

func (c *complaints) about(err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case err != nil && !c.failing:
		c.log.Warn("the collector takes no "+c.what+"; they are dropped until it does", "error", err)
	case err == nil && c.failing:
		c.log.Info("the collector takes " + c.what + " again")
	}
	c.failing = err != nil
}

// patientTraces says what goes wrong to our log, and not to the SDK, which has one
// for the whole process.
type patientTraces struct {
	sdktrace.SpanExporter
	log complaints
}

// ExportSpans implements sdktrace.SpanExporter.
func (p *patientTraces) ExportSpans(ctx context.Context, spans []sdktrace.ReadOnlySpan) error {
	p.log.about(p.SpanExporter.ExportSpans(ctx, spans))
	return nil
}

// patientMetrics is the same for metrics.
type patientMetrics struct {
	sdkmetric.Exporter
	log complaints
}

// Export implements sdkmetric.Exporter.
func (p *patientMetrics) Export(ctx context.Context, m *metricdata.ResourceMetrics) error {
	p.log.about(p.Exporter.Export(ctx, m))
	return nil
}
