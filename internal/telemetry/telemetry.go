// Package telemetry exports traces and metrics to the operator's tools. A trace is one
// request with its execution and tool calls. Only this package imports OpenTelemetry
// and Prometheus.
//
// Exported data are ids, names, outcomes and numbers: Facts has no field for code,
// arguments, answers or error texts.
//
// A Recorder is safe for concurrent use; a nil Recorder records nothing. It never
// blocks a caller: data that a collector does not accept in time are dropped. The
// audit log, not telemetry, is the durable record.
package telemetry

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"go.opentelemetry.io/otel/attribute"
	exporter "go.opentelemetry.io/otel/exporters/prometheus"
	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/resource"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"
)

// Config of a Recorder. The zero value exports nothing.
type Config struct {
	Version string
	Traces  Traces `key:"traces"`
	Metrics Metrics
	Console io.Writer // receives traces whose endpoint is Console; nil means discard
	// TierOf returns the tier of a tenant, "" if it has none, for a label of metrics; nil means that no
	// metric has that label.
	TierOf func(tenant string) string
	Log    *slog.Logger // nil means discard
}

// Console is the endpoint that prints to Config.Console.
const Console = "console"

// Traces configures the export of traces.
type Traces struct {
	Endpoint  string            // URL of an OTLP/HTTP collector, or Console; "" means none
	Headers   map[string]string // for the collector
	Propagate bool              `key:"propagate"` // send the trace context to upstream servers
}

// String hides the headers.
func (t Traces) String() string { return "traces to " + t.Endpoint }

// GoString hides the headers.
func (t Traces) GoString() string { return t.String() }

// Metrics configures the export of metrics.
type Metrics struct {
	Endpoint   string            // URL of an OTLP/HTTP collector; "" means none
	Headers    map[string]string // for the collector
	Prometheus string            // host:port to listen on; "" means none
	Token      string            // required from Prometheus; "" means none
}

// String hides headers and token.
func (m Metrics) String() string { return "metrics to " + m.Endpoint + " " + m.Prometheus }

// GoString hides headers and token.
func (m Metrics) GoString() string { return m.String() }

// off reports whether nothing is exported.
func (c Config) off() bool {
	return c.Traces.Endpoint == "" && c.Metrics.Endpoint == "" && c.Metrics.Prometheus == ""
}

const (
	// closeWait limits the final export.
	closeWait = time.Second
	// maxSeries limits the series of one metric; the rest are counted together.
	maxSeries = 2000
)

// Recorder records spans and metrics.
type Recorder struct {
	tracer    trace.Tracer
	propagate bool
	traces    *sdktrace.TracerProvider
	meters    *sdkmetric.MeterProvider
	registry  *prometheus.Registry // nil without a Prometheus endpoint
	tierOf    func(tenant string) string
	instruments
}

// Open returns a Recorder, or nil if cfg exports nothing. It opens no connection. The
// caller closes it.
func Open(ctx context.Context, cfg Config) (*Recorder, error) {
	if cfg.off() {
		return nil, nil
	}
	if cfg.Log == nil {
		cfg.Log = slog.New(slog.DiscardHandler)
	}
	if cfg.Console == nil {
		cfg.Console = io.Discard
	}
	about, err := resource.New(ctx, resource.WithAttributes(attribute.String("service.name", "sandpiper"),
		attribute.String("service.version", cfg.Version)),
		resource.WithTelemetrySDK(), resource.WithFromEnv())
	if err != nil && !errors.Is(err, resource.ErrPartialResource) {
		return nil, err
	}
	r := &Recorder{propagate: cfg.Traces.Propagate, tierOf: cfg.TierOf}
	if err := r.openTraces(ctx, cfg, about); err != nil {
		return nil, err
	}
	return r, r.openMetrics(ctx, cfg, about)
}

func (r *Recorder) openTraces(ctx context.Context, cfg Config, about *resource.Resource) error {
	options := []sdktrace.TracerProviderOption{sdktrace.WithResource(about)}
	if cfg.Traces.Endpoint == "" { // no spans are recorded
		options = append(options, sdktrace.WithSampler(sdktrace.NeverSample()))
	} else {
		to, err := traceExporter(ctx, cfg)
		if err != nil {
			return err
		}
		options = append(options, sdktrace.WithBatcher(&loggedTraces{SpanExporter: to, log: exportLog{log: cfg.Log, what: "traces"}}))
	}
	r.traces = sdktrace.NewTracerProvider(options...)
	r.tracer = r.traces.Tracer("sandpiper", trace.WithInstrumentationVersion(cfg.Version))
	return nil
}

func (r *Recorder) openMetrics(ctx context.Context, cfg Config, about *resource.Resource) error {
	options := []sdkmetric.Option{sdkmetric.WithResource(about), sdkmetric.WithCardinalityLimit(maxSeries)}
	if cfg.Metrics.Endpoint != "" {
		to, err := metricExporter(ctx, cfg)
		if err != nil {
			return err
		}
		options = append(options, sdkmetric.WithReader(sdkmetric.NewPeriodicReader(&loggedMetrics{Exporter: to,
			log: exportLog{log: cfg.Log, what: "metrics"}})))
	}
	if cfg.Metrics.Prometheus != "" {
		r.registry = prometheus.NewRegistry()
		r.registry.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
		reader, err := exporter.New(exporter.WithRegisterer(r.registry), exporter.WithoutScopeInfo())
		if err != nil {
			return err
		}
		options = append(options, sdkmetric.WithReader(reader))
	}
	r.meters = sdkmetric.NewMeterProvider(options...)
	return r.instruments.make(r.meters.Meter("sandpiper"))
}

// Close exports the remaining data for a limited time. It is idempotent.
func (r *Recorder) Close() {
	if r == nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), closeWait)
	defer cancel()
	done := make(chan struct{})
	go func() {
		defer close(done)
		// The exporters log their errors.
		_ = r.traces.Shutdown(ctx)
		_ = r.meters.Shutdown(ctx)
	}()
	select {
	case <-done:
	case <-time.After(closeWait + closeWait/2): // an exporter that ignores its context
	}
}
