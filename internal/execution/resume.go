package execution

import (
	"cmp"
	"context"
	"encoding/json"
	"regexp"
	"slices"
	"time"

	"github.com/sandpiper-mcp/sandpiper/internal/audit"
	"github.com/sandpiper-mcp/sandpiper/internal/execution/live"
	"github.com/sandpiper-mcp/sandpiper/internal/execution/plan"
	"github.com/sandpiper-mcp/sandpiper/internal/execution/pycode"
	"github.com/sandpiper-mcp/sandpiper/internal/fault"
	"github.com/sandpiper-mcp/sandpiper/internal/home"
	"github.com/sandpiper-mcp/sandpiper/internal/home/approval"
	"github.com/sandpiper-mcp/sandpiper/internal/home/journal"
	"github.com/sandpiper-mcp/sandpiper/internal/home/quota"
	"github.com/sandpiper-mcp/sandpiper/internal/sandbox"
)

// Resume returns a handle on an execution of the tenant that is running or has
// recently ended, like Attach. An execution that was interrupted, or suspended when its
// process ended, is run again under its id from the first line: calls and questions
// that have recorded answers receive those, and are not repeated. The error is NotFound
// without a record, Unavailable if another live process has it, and Exhausted if the
// record was too large to be stored. Code that runs again has the limits that are given, else the
// recorded ones; if it had ended at one, it has the largest that the tenant may choose, because it
// would end there again.
func (r *Runner) Resume(ctx context.Context, home *home.Home, id string, limits ...ResumeLimits) (*Execution, error) {
	x, err := resume(ctx, r, home, id, limits)
	if fault.KindOf(err) == fault.NotFound && idForm.MatchString(id) {
		r.Audit(audit.Line{Kind: audit.Access, Tenant: home.ID(), Execution: id, Outcome: "unknown_execution"})
	}
	return x, err
}

// idForm matches ids of executions and plans. Other text is not written to the audit log.
var idForm = regexp.MustCompile(`^(exec|plan)_[a-z2-7]{26}$`)

// ResumeLimits replace limits of an execution; zero keeps one.
type ResumeLimits struct {
	Timeout  time.Duration
	MemoryMB int
}

// moreThan returns the limits for code that had ended in a state.
func moreThan(ended journal.Reason, l Limits) (more ResumeLimits) {
	switch ended {
	case journal.Reason(sandbox.TimedOut):
		more.Timeout = l.MaxTimeout
	case journal.Reason(sandbox.OverLimit):
		more.MemoryMB = l.MaxMemoryMB
	}
	return more
}

func resume(ctx context.Context, r *Runner, home *home.Home, id string, limits []ResumeLimits) (*Execution, error) {
	if x := r.registry.find(home.ID(), id); x != nil && !x.interrupted() {
		x.bindTo(ctx)
		return r.handle(x), nil
	}
	if err := CheckNotBackground(ctx, home, id); err != nil {
		return nil, err
	}
	if x, err := kept(ctx, r, home, id); x != nil || err != nil {
		return x, err
	}
	if err := quota.TakeExecution(ctx, home.Quotas); err != nil {
		return nil, err
	}
	switch {
	case !plan.IsID(id):
		return replay(ctx, r, home, id, nil, limits...)
	case slices.ContainsFunc(limits, func(l ResumeLimits) bool { return l != ResumeLimits{} }):
		return nil, fault.New(fault.Invalid, "a plan has no limits").WithHint("omit timeout_seconds and memory_mb")
	}
	return applyPlan(ctx, r, home, id)
}

// CheckNotBackground rejects an attempt to resume a background execution that has not ended: the
// daemon does that.
func CheckNotBackground(ctx context.Context, h *home.Home, id string) error {
	e, err := h.Runs.Find(ctx, id)
	if fault.KindOf(err) == fault.NotFound || err == nil && e.State == journal.Ended {
		return nil
	}
	if err != nil {
		return err
	}
	why := "runs in another process"
	switch {
	case e.State == journal.Waiting && len(live.QuestionsOf(e)) > 0:
		why = "waits for an answer"
	case e.State == journal.Waiting && e.Due.IsZero():
		why = "waits for a signal"
	case e.State == journal.Waiting:
		why = "waits until " + e.Due.Format(time.RFC3339)
	case e.State == journal.Queued || !e.Alive:
		why = "has not been started"
	}
	return fault.New(fault.Unavailable, "background execution %.60s %s", id, why).
		WithHint("get_background_task_status, or `sandpiper executions watch %s`, returns its state; a daemon continues it by itself", id)
}

// replay runs an execution again from its record.
func replay(ctx context.Context, r *Runner, h *home.Home, id string, b *background, limits ...ResumeLimits) (*Execution, error) {
	if b != nil && h.Approvals != nil { // nobody has asked since its process ended
		if err := approval.ExpireWaiting(ctx, h.Approvals, id); err != nil {
			return nil, err
		}
	}
	record, request, err := h.Journal.OpenRecord(ctx, id, mayBeConcurrent)
	if err != nil {
		return nil, err
	}
	x := newRun(id, StoredRequest{}, b)
	x.outlived.Store(true)
	last, waited := record.Questions()
	x.record, x.pendingQuestions = record, len(waited)
	x.questions.StartNames(last, waited)
	if err := json.Unmarshal(request, &x.StoredRequest); err != nil {
		return nil, x.giveUp(ctx, err)
	}
	req := x.Request
	for _, l := range append([]ResumeLimits{moreThan(journal.Before(record).Reason, limitsOf(r, h.ID(), req))}, limits...) {
		req.Timeout, req.MemoryMB = cmp.Or(l.Timeout, req.Timeout), cmp.Or(l.MemoryMB, req.MemoryMB)
	}
	if x.Request, err = r.Check(h.ID(), req); err != nil {
		return nil, x.giveUp(ctx, err)
	}
	return start(ctx, r, h, x)
}

// Interrupt cancels an execution that runs in this process and waits for its end. It reports whether there
// is one, also if that has ended.
func (r *Runner) Interrupt(ctx context.Context, h *home.Home, id string) (bool, error) {
	x := r.registry.find(h.ID(), id)
	if x == nil {
		return false, nil
	}
	x.cancel(context.Canceled)
	select {
	case <-x.ended:
		return true, nil
	case <-ctx.Done():
		return true, context.Cause(ctx)
	}
}

// Stopped returns the end of a run that a person has stopped for good.
func Stopped(request []byte) journal.End {
	var k StoredRequest
	if json.Unmarshal(request, &k) == nil && keepsRun(k.Request) {
		return journal.End{State: journal.Ended, Outcome: journal.Cancelled, Forget: true}
	}
	return journal.End{}
}

// mayBeConcurrent reports whether the code of a recorded request may be concurrent.
func mayBeConcurrent(request []byte) bool {
	var k StoredRequest
	return json.Unmarshal(request, &k) != nil || pycode.MayBeConcurrent(k.Request.Code)
}
