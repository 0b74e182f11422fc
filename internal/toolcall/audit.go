package toolcall

import (
	"cmp"
	"context"
	"errors"
	"sync/atomic"
	"time"

	"github.com/sandpiper-mcp/sandpiper/internal/audit"
	"github.com/sandpiper-mcp/sandpiper/internal/home/journal"
	"github.com/sandpiper-mcp/sandpiper/internal/policy"
	"github.com/sandpiper-mcp/sandpiper/internal/store/tenant"
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
	next     layer
	owner    Owner
	stack    *Stack
	harmless *atomic.Int64 // calls that changed nothing
}

// Call implements tool.Caller.
func (w auditor) Call(ctx context.Context, c tool.Call) (tool.Result, error) {
	ctx, span := w.stack.cfg.Telemetry.Start(ctx, telemetry.Call, telemetry.Facts{
		Tenant: w.owner.Home.ID().String(), Session: c.Session, Execution: c.Execution, BytesIn: len(c.Args),
	})
	resolved, known, err := w.stack.resolve(ctx, w.owner.viewer(), c)
	var a answer
	if err == nil {
		a, err = w.next.handle(ctx, resolved)
	}
	a.outcome = cmp.Or(a.outcome, outcomeRefused)
	err = asFailure(resolved.Ref, a.outcome, err)
	span.Update(func(f *telemetry.Facts) { f.Server, f.Tool, f.BytesOut = known.Server, known.Tool, size(a.Result) })
	span.End(a.outcome)
	w.record(resolved, known, a, err)
	return a.Result, err
}

func size(res tool.Result) int {
	n := len(res.Structured)
	for _, p := range res.Parts {
		n += len(p.Text) + len(p.Data)
	}
	return n
}

// record writes the call to the audit log, with the parts of its name that the catalog
// contains: the names that code passes are arbitrary and must not reach the log.
func (w auditor) record(c call, known tool.Ref, a answer, err error) {
	made := a.outcome != string(journal.NotMade) && a.outcome != outcomeRefused && a.outcome != outcomeReplayed &&
		a.outcome != outcomePlanned
	if (!made || c.tool.TrustedHints.Reads()) && w.harmless.Add(1) > maxHarmlessLines {
		return
	}
	line := audit.Line{Tenant: w.owner.Home.ID(), Execution: c.Execution, Session: c.Session, Server: known.Server, Tool: known.Tool}
	if failed, ok := errors.AsType[*tool.Failure](err); ok && failed.Refused != "" {
		block := line
		block.Kind, block.Decision, block.Rule = audit.Decision, string(policy.Block), failed.Refused
		w.stack.cfg.Audit(block)
	}
	line.Kind, line.Destination, line.Outcome, line.Duration = audit.ToolCall, a.destination, a.outcome, a.duration
	w.stack.cfg.Audit(line)
}

// sender sends the call to the server.
type sender struct {
	next    tool.Caller
	forward bool
	tenant  tenant.ID
	stack   *Stack
}

func (s sender) handle(ctx context.Context, c call) (answer, error) {
	to := s.stack.cfg.Telemetry
	ctx, span := to.Start(ctx, telemetry.Send, telemetry.Facts{Tenant: s.tenant.String(), Server: c.Server, Tool: c.Tool})
	c.Trace = to.Outgoing(ctx)
	c.Repeatable = c.tool.TrustedHints.Repeatable()
	began := time.Now()
	res, err := s.next.Call(ctx, c.Call)
	if err == nil { // servers that do not know the size before they read have not waited
		if err = c.HoldResult(ctx, int64(size(res))); err != nil {
			err = &tool.NotKept{Err: err}
		}
	}
	if !s.forward { // later steps must not copy or scan an unused value
		for i := range res.Parts {
			res.Parts[i].Raw = nil
		}
	}
	if err = markCancelled(ctx, unanswered(c, err)); err != nil {
		res = tool.Result{}
	}
	a := answer{Result: res, outcome: string(outcomeOf(err)), duration: time.Since(began)}
	a.outcome = cmp.Or(res.Outcome, a.outcome)
	span.End(a.outcome)
	return a, err
}

// decide evaluates the policy in a telemetry span. A policy that replaced it counts if it is
// stricter.
func (s rules) decide(ctx context.Context, c policy.Call) (policy.Decision, error) {
	_, span := s.cfg.Telemetry.Start(ctx, telemetry.Decision, telemetry.Facts{})
	d, err := s.policy.Decide(ctx, c)
	if now := s.cfg.Policy(); err == nil && now != s.policy {
		var other policy.Decision
		other, err = now.Decide(ctx, c)
		d = d.Stricter(other)
	}
	outcome := string(d.Verdict)
	if err != nil {
		outcome = "error"
	}
	span.Update(func(f *telemetry.Facts) { f.Rule = d.Rule })
	span.End(outcome)
	return d, err
}
