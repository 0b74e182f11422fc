package telemetry

import (
	"context"
	"crypto/subtle"
	"errors"
	"net/http"
	"strings"

	"github.com/prometheus/common/expfmt"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"
)

// instruments are the metrics derived from spans.
type instruments struct {
	meter      metric.Meter
	requests   metric.Float64Histogram
	executions metric.Float64Histogram
	queued     metric.Float64Histogram
	sent       metric.Float64Histogram
	approvals  metric.Float64Histogram
	calls      metric.Int64Counter
	decisions  metric.Int64Counter
	tokens     metric.Int64Counter
	minted     metric.Int64Counter
	refusals   metric.Int64Counter
	waiting    metric.Int64UpDownCounter
}

// seconds are histogram bounds: from an in-memory call to a person's answer.
var seconds = metric.WithExplicitBucketBoundaries(.001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30, 60, 300, 3600)

func (i *instruments) make(m metric.Meter) error {
	i.meter = m
	var errs []error
	span := func(name, about string) metric.Float64Histogram {
		h, err := m.Float64Histogram(name, metric.WithUnit("s"), metric.WithDescription(about), seconds)
		errs = append(errs, err)
		return h
	}
	count := func(name, unit, about string) metric.Int64Counter {
		c, err := m.Int64Counter(name, metric.WithUnit(unit), metric.WithDescription(about))
		errs = append(errs, err)
		return c
	}
	i.requests = span("sandpiper.request.duration", "Client requests for a Sandpiper tool, until the answer")
	i.executions = span("sandpiper.execution.duration", "Executions, including time in the queue")
	i.queued = span("sandpiper.queue.duration", "Time that executions waited in the queue")
	i.sent = span("sandpiper.upstream.duration", "Calls to upstream servers")
	i.approvals = span("sandpiper.approval.duration", "Time until a person answered an approval")
	var err error
	i.waiting, err = m.Int64UpDownCounter("sandpiper.approvals.waiting", metric.WithUnit("{call}"),
		metric.WithDescription("Calls waiting for approval"))
	errs = append(errs, err)
	i.calls = count("sandpiper.tool.calls", "{call}", "Tool calls, including refused ones")
	i.decisions = count("sandpiper.policy.decisions", "{decision}", "Policy decisions on calls")
	i.tokens = count("sandpiper.tokens", "{token}", "Model tokens kept in the sandbox (inside), and read or written by models (spent)")
	i.minted = count("sandpiper.pii.tokens", "{token}", "Privacy tokens created")
	i.refusals = count("sandpiper.quota.refusals", "{refusal}",
		"Requests, calls, writes and values refused because a quota of a tenant was used up")
	return errors.Join(errs...)
}

// Tokens counts model tokens kept in the sandbox, or read and written by a model.
func (r *Recorder) Tokens(inside bool, n int64) {
	if r == nil {
		return
	}
	side := "spent"
	if inside {
		side = "inside"
	}
	r.tokens.Add(context.Background(), n, metric.WithAttributes(attribute.String("side", side)))
}

// Minted counts privacy tokens created.
func (r *Recorder) Minted(n int) {
	if r != nil {
		r.minted.Add(context.Background(), int64(n))
	}
}

// Refused counts what a quota of a tenant refused. quota is one of a small set of names.
func (r *Recorder) Refused(tenant, quota string) {
	if r == nil {
		return
	}
	labels := []attribute.KeyValue{attribute.String("quota", quota)}
	if tier := r.tier(Facts{Tenant: tenant}); tier != "" {
		labels = append(labels, attribute.String("tier", tier))
	}
	r.refusals.Add(context.Background(), 1, metric.WithAttributes(labels...))
}

// Gauge is a number that is read at collection.
type Gauge struct {
	Name, Unit, About string
	Total             bool                                   // monotonic: a counter
	Label             string                                 // name of the label of its parts; "" means none
	Read              func(part func(label string, n int64)) // label "" is a part without the label
}

// AddGauge adds a gauge to the metrics.
func (r *Recorder) AddGauge(l Gauge) error {
	if r == nil {
		return nil
	}
	read := metric.WithInt64Callback(func(_ context.Context, o metric.Int64Observer) error {
		l.Read(func(label string, n int64) {
			if l.Label == "" || label == "" {
				o.Observe(n)
			} else {
				o.Observe(n, metric.WithAttributes(attribute.String(l.Label, label)))
			}
		})
		return nil
	})
	var err error
	if l.Total {
		_, err = r.meter.Int64ObservableCounter(l.Name, metric.WithUnit(l.Unit), metric.WithDescription(l.About), read)
	} else {
		_, err = r.meter.Int64ObservableGauge(l.Name, metric.WithUnit(l.Unit), metric.WithDescription(l.About), read)
	}
	return err
}

// Handler serves /metrics to Prometheus. It requires token unless that is empty.
func (r *Recorder) Handler(token string) http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /metrics", func(w http.ResponseWriter, req *http.Request) {
		shown, _ := strings.CutPrefix(req.Header.Get("Authorization"), "Bearer ")
		if token != "" && subtle.ConstantTimeCompare([]byte(shown), []byte(token)) != 1 {
			w.Header().Set("WWW-Authenticate", "Bearer")
			http.Error(w, "telemetry.metrics.token is required as a bearer token", http.StatusUnauthorized)
			return
		}
		r.write(w)
	})
	return mux
}

func (r *Recorder) write(w http.ResponseWriter) {
	families, err := r.registry.Gather()
	if err != nil && len(families) == 0 {
		http.Error(w, "metrics cannot be gathered", http.StatusInternalServerError)
		return
	}
	format := expfmt.NewFormat(expfmt.TypeTextPlain)
	w.Header().Set("Content-Type", string(format))
	out := expfmt.NewEncoder(w, format)
	for _, f := range families {
		if out.Encode(f) != nil { // the client disconnected
			return
		}
	}
}
