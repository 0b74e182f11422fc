package toolcall

import (
	"context"
	"errors"
	"sync/atomic"
	"time"

	"github.com/sandpiper-mcp/sandpiper/internal/audit"
	"github.com/sandpiper-mcp/sandpiper/internal/home"
	"github.com/sandpiper-mcp/sandpiper/internal/home/journal"
	"github.com/sandpiper-mcp/sandpiper/internal/policy"
	"github.com/sandpiper-mcp/sandpiper/internal/telemetry"
	"github.com/sandpiper-mcp/sandpiper/internal/tool"
)

// Outcomes of a call in addition to those of the journal.
const (
	outcomeRefused  = "refused"  // not made
	outcomeReplayed = "replayed" // not made: answered from the record
	outcomePlanned  = "planned"  // not made: part of a dry run
)

// maxHarmlessLines limits the audit lines of one owner for calls that change nothing,
// so that code in a loop cannot fill the disk. The execution's own line has the total.
const maxHarmlessLines = 1000

// auditor writes each call to the audit log and to telemetry, whatever its outcome.
type auditor struct {
	next     tool.Caller
	home     *home.Home
	stack    *Stack
	harmless *atomic.Int64 // calls that changed nothing
}

// callFate collects what happens to one call. The inner callers fill it.
type callFate struct {
	outcome  string        // "" until known
	duration time.Duration // of the server's part
}

type fateKey struct{}

// fateFrom returns the callFate of the current call.
func fateFrom(ctx context.Context) *callFate { return ctx.Value(fateKey{}).(*callFate) }

func (w auditor) Call(ctx context.Context, c tool.Call) (tool.Result, error) {
	f := &callFate{}
	ctx, span := w.stack.cfg.Telemetry.Start(ctx, telemetry.Call, telemetry.Facts{
		Tenant: w.home.ID().String(), Session: c.Session, Execution: c.Execution, BytesIn: len(c.Args),
	})
	res, err := w.next.Call(context.WithValue(ctx, fateKey{}, f), c)
	switch {
	case f.outcome != "":
	case err != nil:
		f.outcome = outcomeRefused
	default:
		f.outcome = outcomeReplayed
	}
	ref, reads := w.catalogRef(c.Ref)
	span.Update(func(f *telemetry.Facts) { f.Server, f.Tool, f.BytesOut = ref.Server, ref.Tool, size(res) })
	span.End(f.outcome)
	w.record(c, ref, reads, f)
	return res, err
}

// catalogRef returns ref as the catalog names it, without parts that the catalog does
// not contain: the names that code passes are arbitrary and must not reach the log.
func (w auditor) catalogRef(ref tool.Ref) (known tool.Ref, reads bool) {
	now := w.stack.cfg.Catalog.Now()
	ref = now.Resolve(ref)
	if v, ok := now.Server(ref.Server); ok {
		known.Server = v.Name
	}
	t, ok := now.Find(ref)
	if ok {
		known.Tool = ref.Tool
	}
	return known, t.TrustedHints.Reads()
}

func size(res tool.Result) int {
	n := len(res.Structured)
	for _, p := range res.Parts {
		n += len(p.Text) + len(p.Data)
	}
	return n
}

func (w auditor) record(c tool.Call, ref tool.Ref, reads bool, f *callFate) {
	made := f.outcome != outcomeRefused && f.outcome != outcomeReplayed && f.outcome != outcomePlanned
	if (!made || reads) && w.harmless.Add(1) > maxHarmlessLines {
		return
	}
	w.stack.cfg.Audit(audit.Line{
		Kind: audit.ToolCall, Tenant: w.home.ID(), Execution: c.Execution, Session: c.Session,
		Server: ref.Server, Tool: ref.Tool, Outcome: f.outcome, Duration: f.duration,
	})
}

// sender marks the call as sent and notes the outcome.
type sender struct {
	next  tool.Caller
	stack *Stack
}

func (s sender) Call(ctx context.Context, c tool.Call) (tool.Result, error) {
	f := fateFrom(ctx)
	f.outcome = string(journal.Unknown) // until it is answered
	to := s.stack.cfg.Telemetry
	ctx, span := to.Start(ctx, telemetry.Send, telemetry.Facts{Server: c.Server, Tool: c.Tool})
	c.Trace = to.Outgoing(ctx)
	began := time.Now()
	res, err := s.next.Call(ctx, c)
	f.duration, f.outcome = time.Since(began), string(outcomeOf(err))
	span.End(f.outcome)
	return res, err
}

// decide evaluates the policy in a telemetry span.
func (s *Stack) decide(ctx context.Context, c policy.Call) (policy.Decision, error) {
	_, span := s.cfg.Telemetry.Start(ctx, telemetry.Decision, telemetry.Facts{})
	d, err := s.cfg.Policy.Decide(ctx, c)
	outcome := string(d.Verdict)
	if err != nil {
		outcome = "error"
	}
	span.Update(func(f *telemetry.Facts) { f.Rule = d.Rule })
	span.End(outcome)
	return d, err
}

// outcomeOf returns the outcome of a call that ended with err.
func outcomeOf(err error) journal.Outcome {
	if err == nil || errors.Is(err, errAnswerBlocked) {
		return journal.Answered
	}
	if _, own := errors.AsType[*tool.Failure](err); own {
		return journal.Failed
	}
	return journal.Unknown
}
