package execution

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"strings"
	"time"

	"github.com/sandpiper-mcp/sandpiper/internal/audit"
	"github.com/sandpiper-mcp/sandpiper/internal/execution/live"
	"github.com/sandpiper-mcp/sandpiper/internal/execution/reply"
	"github.com/sandpiper-mcp/sandpiper/internal/fault"
	"github.com/sandpiper-mcp/sandpiper/internal/home/journal"
	"github.com/sandpiper-mcp/sandpiper/internal/home/recent"
	"github.com/sandpiper-mcp/sandpiper/internal/sandbox"
	"github.com/sandpiper-mcp/sandpiper/internal/telemetry"
)

// finish ends the execution with its outcome and unblocks its handles.
func (e *executor) finish(ctx context.Context, span *telemetry.Span, res reply.Result, err error) {
	x := e.run
	res.ExecutionID = x.id
	x.AddTo(&res)
	x.result, x.err = res, err
	e.explainWait()
	e.home.Quotas.AddCPU(res.Usage.CPU)
	x.endPromotion()
	endRun(ctx, e)
	auditEnd(e)
	span.Update(func(f *telemetry.Facts) { f.Calls = x.calls.Load() })
	span.End(statusOf(x))
	e.r.registry.markEnded(x)
	close(x.ended)
	keepCode(e)
	countSkills(ctx, e)
}

// endRun gives up the run of an execution that has ended: its state, its result and what is left of its
// record change in one commit.
func endRun(ctx context.Context, e *executor) {
	x := e.run
	b := x.background.Load()
	end, err := x.end(context.Cause(ctx))
	x.resumable = !end.Forget && end.State != "" && x.record.Stored()
	if err == nil {
		err = storeEnd(context.WithoutCancel(ctx), e, end)
	}
	if b != nil && end.Forget && end.Outcome == journal.Cancelled {
		err = errors.Join(err, withdrawApprovals(ctx, e.home, x.id))
	}
	if err != nil {
		e.r.cfg.Log.Error("store the end of an execution", "execution", x.id, "error", err)
	}
	undecided, _ := errors.AsType[*journal.Undecided](context.Cause(ctx))
	if x.resumable && x.err == nil && b == nil && x.result.ErrorType != TypeSuspended && x.result.ErrorType != reply.TypeDivergence &&
		undecided == nil {
		x.result.Hint = strings.TrimPrefix(x.result.Hint+"; "+resumeHint(e, x), "; ")
	}
}

func storeEnd(ctx context.Context, e *executor, end journal.End) error {
	x := e.run
	switch b := x.background.Load(); {
	case b != nil && b.attempt && end.State == journal.Ended && end.Outcome == journal.Unsuccessful:
		return journal.EndProgram(ctx, e.home.Journal, x.id, x.record, end.Result)
	case x.record == nil && b == nil && end.Result == nil:
		return nil
	case x.record == nil:
		return e.home.Journal.End(ctx, x.id, end)
	}
	return x.record.End(ctx, end)
}

// end returns what becomes of the run.
func (x *run) end(cause error) (end journal.End, err error) {
	b := x.background.Load()
	undecided, _ := errors.AsType[*journal.Undecided](cause)
	switch {
	case x.wait.until():
		return x.wait.end(), nil
	case b != nil && errors.Is(cause, reply.ErrStopping):
		return journal.End{State: journal.Running}, nil
	case b != nil && x.err != nil && (fault.KindOf(x.err) == fault.Exhausted || fault.KindOf(x.err) == fault.Unavailable):
		return RunLater(), nil
	}
	completed := x.err == nil && x.result.Status.Reusable()
	end = journal.End{State: journal.Ended, Outcome: x.outcome(cause), Reason: journal.Reason(statusOf(x))}
	end.Forget = completed || undecided != nil && undecided.Stopped || b != nil && errors.Is(cause, live.ErrCancelled)
	switch {
	case end.Forget:
		end.Reason = ""
	case undecided != nil || b == nil && x.suspended():
		end.Reason = journal.Suspended
	}
	switch {
	case b == nil && end.Reason == journal.Suspended:
		end = journal.End{State: journal.Waiting, Reason: journal.Suspended}
	case b != nil || keepsRun(x.Request) || completed && x.outlived.Load():
		end.Result, err = x.outcomeJSON()
	case end.Forget:
		end = journal.End{}
	}
	return end, err
}

// resumeHint returns the hint for an execution that can be resumed, with twice the limit that it
// reached.
func resumeHint(e *executor, x *run) string {
	l := e.settings.Limits
	flag, more := "", ""
	switch r := x.result; {
	case r.Status == sandbox.TimedOut && e.run.Request.Timeout < l.MaxTimeout:
		flag = fmt.Sprintf(" --timeout %gs", math.Ceil(min(2*e.run.Request.Timeout, l.MaxTimeout).Seconds()))
	case r.Limit == sandbox.LimitMemory && e.run.Request.MemoryMB < l.MaxMemoryMB:
		flag = fmt.Sprintf(" --memory %d", min(2*e.run.Request.MemoryMB, l.MaxMemoryMB))
	}
	if flag != "" {
		more = " and with more than this limit"
	}
	return fmt.Sprintf("resume_execution, or `sandpiper executions resume %s%s`, reruns the code from its first line%s; answered calls "+
		"return their recorded answers and are not repeated", x.id, flag, more)
}

// RunLater returns the end of an attempt to run a background execution that failed for a reason that passes.
func RunLater() journal.End {
	const retryAfter = 10 * time.Second
	return journal.End{State: journal.Queued, Wait: journal.Wait{Until: time.Now().Add(retryAfter)}}
}

// outcome returns how a run that has ended is reported.
func (x *run) outcome(cause error) journal.RunOutcome {
	switch {
	case x.err == nil && x.result.Success():
		return journal.Succeeded
	case errors.Is(cause, live.ErrCancelled), x.background.Load() == nil && x.err == nil && x.result.ErrorType == reply.TypeCancelled:
		return journal.Cancelled
	}
	return journal.Unsuccessful
}

// outcomeJSON returns the result in JSON, without images if they are too large.
func (x *run) outcomeJSON() ([]byte, error) {
	res := x.result
	if x.err != nil {
		res = reply.Result{Status: sandbox.Cancelled, Failure: reply.Failure{ErrorType: "not_run", Error: fault.Message(x.err),
			Hint: fault.Hint(x.err)}, Details: reply.Details{Output: []string{}, ExecutionID: x.id}}
	}
	const most = 4 << 20
	size := 0
	for _, m := range res.Images {
		size += len(m.Data)
	}
	if size > most {
		res.Images = nil
		res.Warnings = append(res.Warnings[:len(res.Warnings):len(res.Warnings)],
			"the images were dropped: results of background executions are kept with at most 4 MiB of images")
	}
	return json.Marshal(res)
}

// countSkills adds the execution to the counters of the skills that it used.
func countSkills(ctx context.Context, e *executor) {
	x := e.run
	names := x.skills.List()
	if len(names) == 0 || x.wait.until() || e.run.Request.DryRun || e.run.Request.Replay != nil {
		return
	}
	if err := e.home.Skills.AddUses(context.WithoutCancel(ctx), names, x.err == nil && x.result.Success()); err != nil {
		e.r.cfg.Log.Warn("count the use of skills", "tenant", e.home.ID().String(), "error", err)
	}
}

// keepCode stores the code of a successful execution for a day.
func keepCode(e *executor) {
	if x := e.run; !x.internal && x.err == nil && x.result.Success() && !e.run.Request.DryRun && e.run.Request.Replay == nil &&
		e.run.Request.Tape == nil {
		e.home.Recent.Add(recent.Code{Execution: x.id, Session: e.run.Request.SessionID, Code: e.run.Request.Code})
	}
}

// auditEnd records that the execution has ended.
func auditEnd(e *executor) {
	x := e.run
	if x.internal || e.r.cfg.Audit == nil {
		return
	}
	line := auditLine(e, audit.Execution)
	line.Outcome, line.Count, line.Duration = statusOf(x), x.calls.Load(), x.result.Elapsed
	e.r.cfg.Audit(line)
}
