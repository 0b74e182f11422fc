package execution

import (
	"context"
	"crypto/rand"
	"errors"
	"strings"
	"time"

	"github.com/sandpiper-mcp/sandpiper/internal/audit"
	"github.com/sandpiper-mcp/sandpiper/internal/fault"
	"github.com/sandpiper-mcp/sandpiper/internal/home"
	"github.com/sandpiper-mcp/sandpiper/internal/sandbox"
	"github.com/sandpiper-mcp/sandpiper/internal/telemetry"
)

// Start starts an execution and returns a handle on it at once; use Next to wait. The
// execution ends when its code ends or, unless it is suspended, when ctx does. The error
// is Invalid for an invalid request and Unavailable once the runner is closed.
func (r *Runner) Start(ctx context.Context, home *home.Home, req Request) (*Execution, error) {
	req, err := r.cfg.Limits.check(req)
	if err != nil {
		return nil, err
	}
	x := newRun(newID())
	x.session = req.SessionID
	x.startRecord(home, req)
	again, err := r.begin(ctx, home, x, req)
	if err != nil {
		_ = x.record.End(ctx, "") // nothing of it is on disk
	}
	return again, err
}

// begin starts an execution whose request is valid.
func (r *Runner) begin(ctx context.Context, h *home.Home, x *run, req Request) (*Execution, error) {
	return r.launch(ctx, h, x, func(ctx context.Context, h *home.Home) { r.execute(ctx, h, x, req) })
}

// launch runs do as the execution x; do must end x.
func (r *Runner) launch(ctx context.Context, home *home.Home, x *run, do func(context.Context, *home.Home)) (*Execution, error) {
	if !r.registry.register(home.ID(), x, &r.busy) {
		return nil, fault.New(fault.Unavailable, "Sandpiper is stopping; no new execution can start").
			WithHint("try again in a moment")
	}
	home = home.Retain() // a suspended execution outlives the caller
	running, cancel := context.WithCancelCause(context.WithoutCancel(ctx))
	x.cancel = cancel
	x.bindTo(ctx)
	go func() {
		defer r.busy.Done()
		defer cancel(nil)
		do(running, home)
		x.release()
		if err := home.Release(running); err != nil {
			r.cfg.Log.Error("release a home", "execution", x.id, "error", err)
		}
	}()
	return r.handle(x), nil
}

func (r *Runner) handle(x *run) *Execution {
	return &Execution{run: x, minInterval: r.cfg.ProgressEvery}
}

// newID returns an unguessable id: 130 random bits.
func newID() string { return "exec_" + strings.ToLower(rand.Text()) }

// Attach returns a handle on an execution of the same tenant that is running or has
// recently ended, and delivers answers to it; NotFound for any other. A suspended one is
// bound to ctx from now on. An invalid answer is an Invalid error and changes nothing.
func (r *Runner) Attach(ctx context.Context, home *home.Home, id string, a Answer) (*Execution, error) {
	x, err := r.find(home, id)
	if err != nil {
		return nil, err
	}
	if err := x.questions.answer(ctx, a); err != nil {
		return nil, err
	}
	if err := x.closeAnswered(ctx, home); err != nil {
		return nil, err
	}
	x.bindTo(ctx)
	return r.handle(x), nil
}

func (r *Runner) find(home *home.Home, id string) (*run, error) {
	if x := r.registry.find(home.ID(), id); x != nil {
		return x, nil
	}
	return nil, fault.New(fault.NotFound, "there is no execution %.60q that is running or has recently ended", id).
		WithHint("run the code again with execute_code")
}

// execute runs one execution from the queue to its end. The answer does not wait until
// the sandbox is closed.
func (r *Runner) execute(ctx context.Context, home *home.Home, x *run, req Request) {
	defer context.AfterFunc(r.life, func() { x.cancel(context.Cause(r.life)) })()
	ctx, span := r.startSpan(ctx, home, x)
	var st *step
	finish := func(res Result, err error) {
		res.ExecutionID = x.id
		x.addTo(&res)
		x.result, x.err = res, err
		r.endRecord(ctx, x)
		r.audit(home, x, st)
		span.Update(func(f *telemetry.Facts) { f.Calls = x.calls.Load() })
		span.End(statusOf(x))
		r.registry.markEnded(x)
		close(x.ended)
	}
	if res := r.guardBefore(ctx, r.cfg.Guard, home, x, req); res != nil {
		finish(*res, nil)
		return
	}
	if req.SessionID != "" {
		var err error
		if st, err = r.enter(ctx, home, req); err != nil {
			finish(r.notRun(ctx, err))
			return
		}
		defer st.leave()
	}
	place := &queueSlot{queue: r.cfg.Queue, owner: home.ID().String(), report: x.reportQueued}
	_, waited := r.telemetry(x).Start(ctx, telemetry.Queue, telemetry.Facts{})
	err := place.enter(ctx)
	waited.End("")
	if err != nil {
		finish(r.notRun(ctx, err))
		return
	}
	defer place.release()
	box, err := r.sandbox(ctx, home, st, &req)
	if err != nil {
		finish(r.notRun(ctx, err))
		return
	}
	if st != nil {
		finish(st.end(r.run(ctx, home, x, st, req, box, place)))
		return
	}
	defer r.closeSandbox(box)
	finish(r.run(ctx, home, x, nil, req, box, place))
	if r.cfg.Queue.Load().Waiting == 0 && ctx.Err() == nil {
		time.Sleep(closeDelay)
	}
}

// telemetry returns the recorder for x; nil for an internal execution.
func (r *Runner) telemetry(x *run) *telemetry.Recorder {
	if x.internal {
		return nil
	}
	return r.cfg.Telemetry
}

// startSpan starts the telemetry span of x.
func (r *Runner) startSpan(ctx context.Context, home *home.Home, x *run) (context.Context, *telemetry.Span) {
	return r.telemetry(x).Start(ctx, telemetry.Execution, telemetry.Facts{Tenant: home.ID().String(), Session: x.session, Execution: x.id})
}

// audit records that x has ended. The session is included only if the step was entered.
func (r *Runner) audit(home *home.Home, x *run, st *step) {
	if x.internal || r.cfg.Audit == nil {
		return
	}
	line := audit.Line{Kind: audit.Execution, Tenant: home.ID(), Execution: x.id, Outcome: statusOf(x), Count: x.calls.Load(), Duration: x.result.Elapsed}
	if st != nil {
		line.Session = st.req.SessionID
	}
	r.cfg.Audit(line)
}

// sandbox returns the session's interpreter, or a new sandbox for this execution. It
// sets the request's memory to that of the sandbox.
func (r *Runner) sandbox(ctx context.Context, home *home.Home, st *step, req *Request) (sandbox.Sandbox, error) {
	if st != nil {
		return st.sandbox(ctx, req)
	}
	return r.open(ctx, home, *req)
}

func (r *Runner) closeSandbox(box sandbox.Sandbox) {
	if err := box.Close(); err != nil {
		r.cfg.Log.Error("close a sandbox", "error", err)
	}
}

// closeDelay delays closing a sandbox so that the answer reaches the caller first,
// unless others wait for the slot. The kernel destroys a process in one step, which
// keeps a processor busy for a millisecond or two.
const closeDelay = 3 * time.Millisecond

// notRun returns the outcome of an execution whose code never ran: cancelled if ctx has
// ended, else err.
func (r *Runner) notRun(ctx context.Context, err error) (Result, error) {
	cause := contextCause(ctx)
	if cause == nil {
		return Result{}, err
	}
	res := Result{Output: []string{}}
	grantedLimits{}.explain(&res, sandbox.Outcome{Status: sandbox.Cancelled}, cause)
	return res, nil
}

// open opens the sandbox of one execution.
func (r *Runner) open(ctx context.Context, home *home.Home, req Request) (sandbox.Sandbox, error) {
	wait, cancel := context.WithTimeout(ctx, r.cfg.OpenWait)
	defer cancel()
	box, err := r.cfg.Backend.Open(wait, sandbox.Spec{
		Owner:  home.ID().String(),
		UID:    home.UID(),
		Mounts: mounts(wait, home, req.DryRun),
		Limits: r.limits(req),
	})
	switch {
	case err == nil:
		return box, nil
	case ctx.Err() != nil: // the caller has gone
		return nil, err
	}
	return nil, r.publicError(err, "no sandbox could be opened")
}

// publicError converts err into an error without internal details, which are logged
// here: front ends do not log errors of this kind.
func (r *Runner) publicError(err error, what string) error {
	if fe, ok := errors.AsType[*fault.Error](err); ok {
		return fe
	}
	r.cfg.Log.Error(what, "error", err)
	return fault.Wrap(fault.Unavailable, err, "%s", what).
		WithHint("`sandpiper doctor` reports what is missing on this machine")
}

func (r *Runner) limits(req Request) sandbox.Limits {
	l := r.cfg.Sandbox
	l.MemoryBytes = int64(req.MemoryMB) << 20
	return l
}

func (r *Runner) granted(req Request) grantedLimits {
	return grantedLimits{
		timeout: req.Timeout, maxTimeout: r.cfg.Limits.MaxTimeout,
		limits: r.limits(req), maxMemoryMB: r.cfg.Limits.MaxMemoryMB, output: r.cfg.OutputBytes,
	}
}
