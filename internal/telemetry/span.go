package telemetry

import (
	"context"
	"slices"
	"time"
	"unicode/utf8"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"
)

// Step is the kind of a span, and its name.
type Step string

const (
	Request   Step = "mcp.request"        // a client request, until its answer
	Execution Step = "sandpiper.execute"  // one execution, including the queue
	Queue     Step = "sandpiper.queue"    // the wait in the queue
	Call      Step = "sandpiper.call"     // one tool call through the whole stack
	Decision  Step = "sandpiper.decide"   // the decision of the policy, before guardrails and hooks
	Approval  Step = "sandpiper.approval" // the wait for a person
	Send      Step = "sandpiper.send"     // to the server, until its answer
)

// kinds are the span kinds other than internal.
var kinds = map[Step]trace.SpanKind{Request: trace.SpanKindServer, Send: trace.SpanKindClient}

// Facts are the attributes of a span; empty ones are omitted. Long names are truncated.
type Facts struct {
	Tenant    string
	Session   string
	Execution string
	Server    string
	Tool      string
	Rule      string // of a Decision
	BytesIn   int    // of a Call: the arguments
	BytesOut  int    // of a Call: the answer
	Calls     int64  // of an Execution: tool calls
}

const maxName = 128 // bytes

// bad are the outcomes that set the status of a span to error.
var bad = []string{"failed", "unknown", "raised", "timed_out", "over_limit", "crashed", "not_run", "error"}

// Span is a running step. A nil Span records nothing.
type Span struct {
	of    *Recorder
	step  Step
	began time.Time
	facts Facts
	span  trace.Span
}

// Start starts a span as a child of the span in ctx.
func (r *Recorder) Start(ctx context.Context, step Step, f Facts) (context.Context, *Span) {
	if r == nil {
		return ctx, nil
	}
	kind, ok := kinds[step]
	if !ok {
		kind = trace.SpanKindInternal
	}
	if step == Approval {
		r.waiting.Add(ctx, 1)
	}
	ctx, span := r.tracer.Start(ctx, string(step), trace.WithSpanKind(kind))
	return ctx, &Span{of: r, step: step, began: time.Now(), facts: f, span: span}
}

// Update changes the facts of the span.
func (s *Span) Update(change func(*Facts)) {
	if s != nil {
		change(&s.facts)
	}
}

// End ends the span with an outcome, such as completed. Call it once.
func (s *Span) End(outcome string) {
	if s == nil {
		return
	}
	s.of.count(s.step, s.facts, outcome, time.Since(s.began))
	if s.span.IsRecording() {
		s.span.SetAttributes(s.facts.attributes(outcome)...)
		if slices.Contains(bad, outcome) {
			s.span.SetStatus(codes.Error, "")
		}
	}
	s.span.End()
}

func (f Facts) attributes(outcome string) (all []attribute.KeyValue) {
	for _, a := range [...]struct{ key, value string }{
		{"tenant", f.Tenant}, {"session", f.Session}, {"execution", f.Execution},
		{"server", f.Server}, {"tool", f.Tool}, {"rule", f.Rule}, {"outcome", outcome},
	} {
		if a.value != "" {
			all = append(all, attribute.String("sandpiper."+a.key, shorten(a.value)))
		}
	}
	for _, a := range [...]struct {
		key   string
		value int64
	}{{"bytes_in", int64(f.BytesIn)}, {"bytes_out", int64(f.BytesOut)}, {"calls", f.Calls}} {
		if a.value != 0 {
			all = append(all, attribute.Int64("sandpiper."+a.key, a.value))
		}
	}
	return all
}

func shorten(name string) string {
	if len(name) <= maxName {
		return name
	}
	n := maxName
	for n > 0 && !utf8.RuneStart(name[n]) {
		n--
	}
	return name[:n] + "…"
}

var w3c = propagation.TraceContext{}

// Continue continues the trace that a client sent in W3C traceparent and tracestate.
// Malformed values are ignored.
func (r *Recorder) Continue(ctx context.Context, named func(key string) string) context.Context {
	if r == nil || named == nil {
		return ctx
	}
	from := propagation.MapCarrier{}
	for _, key := range w3c.Fields() {
		from[key] = named(key)
	}
	return w3c.Extract(ctx, from)
}

// Outgoing returns the trace context of ctx for a server, or nil unless Propagate is set.
func (r *Recorder) Outgoing(ctx context.Context) map[string]string {
	if r == nil || !r.propagate {
		return nil
	}
	to := propagation.MapCarrier{}
	w3c.Inject(ctx, to)
	return to
}

// tier returns the tier of the span's tenant, "" if there is none.
func (r *Recorder) tier(f Facts) string {
	if r.tierOf == nil || f.Tenant == "" {
		return ""
	}
	return r.tierOf(f.Tenant)
}

// count adds an ended span to the metrics.
func (r *Recorder) count(step Step, f Facts, outcome string, took time.Duration) {
	ctx, seconds := context.Background(), took.Seconds()
	word := func(key, value string) attribute.KeyValue { return attribute.String(key, value) }
	// labels appends the tier to labels. Calls of tools have none: with all servers and tools their
	// series would soon exceed maxSeries.
	labels := func(all ...attribute.KeyValue) metric.MeasurementOption {
		if tier := r.tier(f); tier != "" {
			all = append(all, word("tier", tier))
		}
		return metric.WithAttributes(all...)
	}
	switch step {
	case Request:
		r.requests.Record(ctx, seconds, labels(word("tool", f.Tool), word("outcome", outcome)))
	case Execution:
		r.executions.Record(ctx, seconds, labels(word("status", outcome)))
	case Queue:
		r.queued.Record(ctx, seconds, labels())
	case Call:
		r.calls.Add(ctx, 1, metric.WithAttributes(word("server", f.Server), word("tool", f.Tool), word("outcome", outcome)))
	case Send:
		r.sent.Record(ctx, seconds, labels(word("server", f.Server), word("outcome", outcome)))
	case Decision:
		r.decisions.Add(ctx, 1, metric.WithAttributes(word("verdict", outcome)))
	case Approval:
		r.waiting.Add(ctx, -1)
		r.approvals.Record(ctx, seconds, metric.WithAttributes(word("outcome", outcome)))
	}
}
