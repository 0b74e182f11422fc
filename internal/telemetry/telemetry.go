// Package telemetry tells the operator's own tools how the daemon does: as traces,
// of which each is one request with its execution and the calls of tools that it made, and as
// metrics. It is the only room that knows of OpenTelemetry and Prometheus.
//
// What is told has ids, names, words and numbers. A room gives Facts, which have no
// field that could hold code, arguments, answers or the text of an error; so nothing
// of these can leave here.
//
// A Recorder is safe for concurrent use, and nil records nothing at no cost. It
// never makes a caller wait: what a collector does not take in time is dropped. The
// package decides nothing and keeps nothing: what has to be remembered is audit's.
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

// Config says what is told, and to whom. Its zero value tells nobody anything.
type Config struct {
	Version string
	Traces  Traces
	Metrics Metrics
	Console io.Writer    // takes traces and metrics whose endpoint is Console; nil discards
	Log     *slog.Logger // nil discards
}

// Console is the endpoint that prints.
const Console = "console"

// Traces say where traces go.
type Traces struct {
	Endpoint  string            // URL of a collector that speaks OTLP over HTTP, or Console; "" means nowhere
	Headers   map[string]string // for the collector
	Propagate bool              // tell servers which trace a call is part of
}

// String hides the headers.
func (t Traces) String() string { return "traces to " + t.Endpoint }

// GoString hides the headers.
func (t Traces) GoString() string { return t.String() }

// Metrics say where metrics go.
type Metrics struct {
	Endpoint   string            // as that of Traces, except that there is no Console
	Headers    map[string]string // for the collector
	Prometheus string            // host:port that is listened on; "" means none
	Token      string            // that Prometheus has to show; "" means none
}

// String hides headers and token.
func (m Metrics) String() string { return "metrics to " + m.Endpoint + " " + m.Prometheus }

// GoString hides headers and token.
func (m Metrics) GoString() string { return m.String() }

// off reports whether nobody is told anything.
func (c Config) off() bool {
	return c.Traces.Endpoint == "" && c.Metrics.Endpoint == "" && c.Metrics.Prometheus == ""
}

const (
	// closeWait is how long what is left may take to be sent.
	closeWait = time.Second
	// mostSeries of one metric have names of their own; more are counted together.
	mostSeries = 2000
)

// Recorder takes what is told.
type Recorder struct {
	tracer    trace.Tracer
	propagate bool
	traces    *sdktrace.TracerProvider
	meters    *sdkmetric.MeterProvider
	registry  *prometheus.Registry // nil if nobody scrapes
	instruments
}

// Open returns the Recorder of cfg, nil if it is to record nothing. It connects to
// nobody. The caller closes it.
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
	about, err := resource.New(ctx, resource.WithAttributes(attribute.String("service.name", "sandpiper"), attribute.String("service.version", cfg.Version)),
		resource.WithTelemetrySDK(), resource.WithFromEnv())
	if err != nil && !errors.Is(err, resource.ErrPartialResource) {
		return nil, err
	}
	r := &Recorder{propagate: cfg.Traces.Propagate}
	if err := r.openTraces(ctx, cfg, about); err != nil {
		return nil, err
	}
	return r, r.openMetrics(ctx, cfg, about)
}

func (r *Recorder) openTraces(ctx context.Context, cfg Config, about *resource.Resource) error {
	options := []sdktrace.TracerProviderOption{sdktrace.WithResource(about)}
	if cfg.Traces.Endpoint == "" { // no trace is made
		options = append(options, sdktrace.WithSampler(sdktrace.NeverSample()))
	} else {
		to, err := traceExporter(ctx, cfg)
		if err != nil {
			return err
		}
		options = append(options, sdktrace.WithBatcher(&patientTraces{SpanExporter: to, log: complaints{log: cfg.Log, what: "traces"}}))
	}
	r.traces = sdktrace.NewTracerProvider(options...)
	r.tracer = r.traces.Tracer("sandpiper", trace.WithInstrumentationVersion(cfg.Version))
	return nil
}

func (r *Recorder) openMetrics(ctx context.Context, cfg Config, about *resource.Resource) error {
	options := []sdkmetric.Option{sdkmetric.WithResource(about), sdkmetric.WithCardinalityLimit(mostSeries)}
	if cfg.Metrics.Endpoint != "" {
		to, err := metricExporter(ctx, cfg)
		if err != nil {
			return err
		}
		options = append(options, sdkmetric.WithReader(sdkmetric.NewPeriodicReader(&patientMetrics{Exporter: to, log: complaints{log: cfg.Log, what: "metrics"}})))
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

// Close sends what was not sent yet, for bounded time, and records nothing more. It
// is idempotent.
func (r *Recorder) Close() {
	if r == nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), closeWait)
	defer cancel()
	done := make(chan struct{})
	go func() {
		defer close(done)
		// What goes wrong was said by the exporters.
		_ = r.traces.Shutdown(ctx)
		_ = r.meters.Shutdown(ctx)
	}()
	select {
	case <-done:
	case <-time.After(closeWait + closeWait/2): // an exporter that heeds no context
	}
}
