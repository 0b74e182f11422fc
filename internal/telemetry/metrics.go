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

// instruments are the metrics that steps are counted in.
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
	waiting    metric.Int64UpDownCounter
}

// seconds are the bounds of histograms: from a call in memory to a person's answer.
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
	i.requests = span("sandpiper.request.duration", "Requests of clients for a tool of Sandpiper, until the answer")
	i.executions = span("sandpiper.execution.duration", "Executions, from the queue to their end")
	i.queued = span("sandpiper.queue.duration", "Time that executions waited for a place")
	i.sent = span("sandpiper.upstream.duration", "Calls as a server took them")
	i.approvals = span("sandpiper.approval.duration", "Time until a person answered whether a call may be made")
	var err error
	i.waiting, err = m.Int64UpDownCounter("sandpiper.approvals.waiting", metric.WithUnit("{call}"), metric.WithDescription("Calls that wait for a person's answer"))
	errs = append(errs, err)
	i.calls = count("sandpiper.tool.calls", "{call}", "Calls of tools, with those that were not made")
	i.decisions = count("sandpiper.policy.decisions", "{decision}", "Decisions of policy about calls")
	i.tokens = count("sandpiper.tokens", "{token}", "Tokens that stayed in the sandbox (inside), and that models read and wrote (spent)")
	i.minted = count("sandpiper.pii.tokens", "{token}", "Tokens that were made for values")
	return errors.Join(errs...)
}

// Tokens counts tokens of a model that stayed in the sandbox, or that it read and wrote.
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

// Minted counts tokens that were made for private values.
func (r *Recorder) Minted(n int) {
	if r != nil {
		r.minted.Add(context.Background(), int64(n))
	}
}

// Level is a number that is read when somebody asks.
type Level struct {
	Name, Unit, About string
	Total             bool   // it only grows
	Label             string // what tells its parts apart; "" if it has none
	Read              func(part func(label string, n int64))
}

// Watch has a level among the metrics.
func (r *Recorder) Watch(l Level) error {
	if r == nil {
		return nil
	}
	read := metric.WithInt64Callback(func(_ context.Context, o metric.Int64Observer) error {
		l.Read(func(label string, n int64) {
			if l.Label == "" {
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

// Handler answers Prometheus at /metrics, who has to show the token if there is one.
func (r *Recorder) Handler(token string) http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /metrics", func(w http.ResponseWriter, req *http.Request) {
		shown, _ := strings.CutPrefix(req.Header.Get("Authorization"), "Bearer ")
		if token != "" && subtle.ConstantTimeCompare([]byte(shown), []byte(token)) != 1 {
			w.Header().Set("WWW-Authenticate", "Bearer")
			http.Error(w, "the token of telemetry.metrics.token is asked for", http.StatusUnauthorized)
			return
		}
		r.write(w)
	})
	return mux
}

func (r *Recorder) write(w http.ResponseWriter) {
	families, err := r.registry.Gather()
	if err != nil && len(families) == 0 {
		http.Error(w, "the metrics could not be read", http.StatusInternalServerError)
		return
	}
	format := expfmt.NewFormat(expfmt.TypeTextPlain)
	w.Header().Set("Content-Type", string(format))
	out := expfmt.NewEncoder(w, format)
	for _, f := range families {
		if out.Encode(f) != nil { // whoever asked has left
			return
		}
	}
}
