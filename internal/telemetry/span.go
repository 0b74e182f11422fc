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

// Step is what a span is about, and its name.
type Step string

const (
	Request   Step = "mcp.request"        // of a client, until its answer
	Execution Step = "sandpiper.execute"  // one piece of code, from the queue to its end
	Queue     Step = "sandpiper.queue"    // until there is a place
	Call      Step = "sandpiper.call"     // one call of a tool, with all that surrounds it
	Decision  Step = "sandpiper.decide"   // policy, and who is asked
	Approval  Step = "sandpiper.approval" // the wait for a person
	Send      Step = "sandpiper.send"     // to the server, until its answer
)

// kinds are of the spans that are no inner steps.
var kinds = map[Step]trace.SpanKind{Request: trace.SpanKindServer, Send: trace.SpanKindClient}

// Facts are all that can be told of a step; empty ones are not told. Names are those of the
// operator's catalog, a session's is the client's. What is too long is cut.
type Facts struct {
	Tenant    string
	Session   string
	Execution string
	Server    string
	Tool      string
	Rule      string // of a Decision
	BytesIn   int    // of a Call: the arguments
	BytesOut  int    // of a Call: the answer
	Calls     int64  // of an Execution: of tools
}

const longest = 128 // bytes of a name

// bad outcomes make a span one that failed.
var bad = []string{"failed", "unknown", "raised", "timed_out", "over_limit", "crashed", "not_run", "error"}

// Span is one step that is under way. A nil Span is not recorded.
type Span struct {
	of    *Recorder
	step  Step
	began time.Time
	facts Facts
	span  trace.Span
}

// Start begins a step, within the one that ctx is of.
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

// Tell changes what is known of the step.
func (s *Span) Tell(change func(*Facts)) {
	if s != nil {
		change(&s.facts)
	}
}

// End ends the step with one word about it, such as completed. It is called once.
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
	if len(name) <= longest {
		return name
	}
	n := longest
	for n > 0 && !utf8.RuneStart(name[n]) {
		n--
	}
	return name[:n] + "…"
}

var w3c = propagation.TraceContext{}

// Continue makes what is started in ctx a part of the trace that a client named, as W3C says:
// traceparent and tracestate. What is not of that form is ignored.
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

// Outgoing names the trace of ctx for a server, nil if it is not to be told.
func (r *Recorder) Outgoing(ctx context.Context) map[string]string {
	if r == nil || !r.propagate {
		return nil
	}
	to := propagation.MapCarrier{}
	w3c.Inject(ctx, to)
	return to
}

// count has a step in the metrics.
func (r *Recorder) count(step Step, f Facts, outcome string, took time.Duration) {
	ctx, seconds := context.Background(), took.Seconds()
	word := func(key, value string) attribute.KeyValue { return attribute.String(key, value) }
	switch step {
	case Request:
		r.requests.Record(ctx, seconds, metric.WithAttributes(word("tool", f.Tool), word("outcome", outcome)))
	case Execution:
		r.executions.Record(ctx, seconds, metric.WithAttributes(word("status", outcome)))
	case Queue:
		r.queued.Record(ctx, seconds)
	case Call:
		r.calls.Add(ctx, 1, metric.WithAttributes(word("server", f.Server), word("tool", f.Tool), word("outcome", outcome)))
	case Send:
		r.sent.Record(ctx, seconds, metric.WithAttributes(word("server", f.Server), word("outcome", outcome)))
	case Decision:
		r.decisions.Add(ctx, 1, metric.WithAttributes(word("verdict", outcome)))
	case Approval:
		r.waiting.Add(ctx, -1)
		r.approvals.Record(ctx, seconds, metric.WithAttributes(word("outcome", outcome)))
	}
}
