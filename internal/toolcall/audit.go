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

// Outcomes of a call beside those of the journal.
const (
	refused  = "refused"  // it was not made
	replayed = "replayed" // it was not made, since it had been made before
	noted    = "planned"  // it was not made, in a dry run
)

// mostHarmless calls of one owner have a line in the audit log that changed nothing:
// code that makes very many is not to fill the disk. That of the execution says how
// many there were.
const mostHarmless = 1000

// watched tells the audit log and telemetry of each call, whatever becomes of it.
type watched struct {
	next     tool.Caller
	home     *home.Home
	stack    *Stack
	harmless *atomic.Int64 // calls that changed nothing
}

// fate is what becomes of one call, which who acts on it notes on the way.
type fate struct {
	outcome string        // "" until somebody knows
	took    time.Duration // of the server
}

type fateKey struct{}

// fateOf is that of the call which is being made.
func fateOf(ctx context.Context) *fate { return ctx.Value(fateKey{}).(*fate) }

func (w watched) Call(ctx context.Context, c tool.Call) (tool.Result, error) {
	f := &fate{}
	ctx, span := w.stack.cfg.Telemetry.Start(ctx, telemetry.Call, telemetry.Facts{
		Tenant: w.home.ID().String(), Session: c.Session, Execution: c.Execution, BytesIn: len(c.Args),
	})
	res, err := w.next.Call(context.WithValue(ctx, fateKey{}, f), c)
	switch {
	case f.outcome != "":
	case err != nil:
		f.outcome = refused
	default:
		f.outcome = replayed
	}
	ref, reads := w.named(c.Ref)
	span.Update(func(f *telemetry.Facts) { f.Server, f.Tool, f.BytesOut = ref.Server, ref.Tool, size(res) })
	span.End(f.outcome)
	w.record(c, ref, reads, f)
	return res, err
}

// named is a tool as the catalog has it, without what is not in it: code may call a
// tool whatever it likes.
func (w watched) named(ref tool.Ref) (known tool.Ref, reads bool) {
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

func (w watched) record(c tool.Call, ref tool.Ref, reads bool, f *fate) {
	made := f.outcome != refused && f.outcome != replayed && f.outcome != noted
	if (!made || reads) && w.harmless.Add(1) > mostHarmless {
		return
	}
	w.stack.cfg.Audit(audit.Line{
		Kind: audit.ToolCall, Tenant: w.home.ID(), Execution: c.Execution, Session: c.Session,
		Server: ref.Server, Tool: ref.Tool, Outcome: f.outcome, Duration: f.took,
	})
}

// sent notes that a call went to its server, and what came of that.
type sent struct {
	next  tool.Caller
	stack *Stack
}

func (s sent) Call(ctx context.Context, c tool.Call) (tool.Result, error) {
	f := fateOf(ctx)
	f.outcome = string(journal.Unknown) // as long as it is under way
	to := s.stack.cfg.Telemetry
	ctx, span := to.Start(ctx, telemetry.Send, telemetry.Facts{Server: c.Server, Tool: c.Tool})
	c.Trace = to.Outgoing(ctx)
	began := time.Now()
	res, err := s.next.Call(ctx, c)
	f.took, f.outcome = time.Since(began), string(outcomeOf(err))
	span.End(f.outcome)
	return res, err
}

// decide asks policy, and tells telemetry what it says.
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

// outcomeOf is what is known of a call that ended with err.
func outcomeOf(err error) journal.Outcome {
	if err == nil || errors.Is(err, errKept) {
		return journal.Answered
	}
	if _, own := errors.AsType[*tool.Failure](err); own {
		return journal.Failed
	}
	return journal.Unknown
}
