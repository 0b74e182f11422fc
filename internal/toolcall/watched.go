package toolcall

import (
	"context"
	"errors"
	"sync/atomic"
	"time"

	"github.com/sandpiper-mcp/sandpiper/internal/audit"
	"github.com/sandpiper-mcp/sandpiper/internal/journal"
	"github.com/sandpiper-mcp/sandpiper/internal/tenants"
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

// watched has a line in the audit log for each call, whatever becomes of it.
type watched struct {
	next     tool.Caller
	home     *tenants.Home
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
	res, err := w.next.Call(context.WithValue(ctx, fateKey{}, f), c)
	switch {
	case f.outcome != "":
	case err != nil:
		f.outcome = refused
	default:
		f.outcome = replayed
	}
	w.record(c, f)
	return res, err
}

// record has a line, with no name but those that are in the catalog: code may call
// a tool whatever it likes.
func (w watched) record(c tool.Call, f *fate) {
	now := w.stack.cfg.Catalog.Now()
	ref := now.Resolve(c.Ref)
	t, known := now.Find(ref)
	made := f.outcome != refused && f.outcome != replayed && f.outcome != noted
	if (!made || t.Believed.Reads()) && w.harmless.Add(1) > mostHarmless {
		return
	}
	line := audit.Line{Kind: audit.ToolCall, Tenant: w.home.ID(), Execution: c.Execution, Session: c.Session, Outcome: f.outcome, Duration: f.took}
	if v, ok := now.Server(ref.Server); ok {
		line.Server = v.Name
	}
	if known {
		line.Tool = ref.Tool
	}
	w.stack.cfg.Audit(line)
}

// sent notes that a call went to its server, and what came of that.
type sent struct{ next tool.Caller }

func (s sent) Call(ctx context.Context, c tool.Call) (tool.Result, error) {
	f := fateOf(ctx)
	f.outcome = string(journal.Unknown) // as long as it is under way
	began := time.Now()
	res, err := s.next.Call(ctx, c)
	f.took, f.outcome = time.Since(began), string(outcomeOf(err))
	return res, err
}

// outcomeOf is what is known of a call that ended with err.
func outcomeOf(err error) journal.Outcome {
	if err == nil {
		return journal.Answered
	}
	if _, own := errors.AsType[*tool.Failure](err); own {
		return journal.Failed
	}
	return journal.Unknown
}
