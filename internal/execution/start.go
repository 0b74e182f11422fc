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

// Start begins an execution and returns a handle on it at once. It runs until
// its code ends or, unless it is parked, ctx does; what waits for it is Next. The
// error is Invalid for a wrong argument and Unavailable
// once the runner closes.
func (r *Runner) Start(ctx context.Context, home *home.Home, req Request) (*Execution, error) {
	req, err := r.cfg.Limits.check(req)
	if err != nil {
		return nil, err
	}
	x := newRun(newID())
	x.session = req.SessionID
	x.remember(home, req)
	again, err := r.begin(ctx, home, x, req)
	if err != nil {
		_ = x.record.End(ctx, "") // nothing of it is on disk
	}
	return again, err
}

// begin starts an execution whose request was checked.
func (r *Runner) begin(ctx context.Context, h *home.Home, x *run, req Request) (*Execution, error) {
	return r.launch(ctx, h, x, func(ctx context.Context, h *home.Home) { r.execute(ctx, h, x, req) })
}

// launch has do run as x, which it ends.
func (r *Runner) launch(ctx context.Context, home *home.Home, x *run, do func(context.Context, *home.Home)) (*Execution, error) {
	if !r.book.begin(home.ID(), x, &r.busy) {
		return nil, fault.New(fault.Unavailable, "Sandpiper is stopping and starts no more executions").
			WithHint("try again in a moment")
	}
	home = home.Retain() // a parked execution outlives the caller
	running, cancel := context.WithCancelCause(context.WithoutCancel(ctx))
	x.cancel = cancel
	x.heldBy(ctx)
	go func() {
		defer r.busy.Done()
		defer cancel(nil)
		do(running, home)
		x.free()
		if err := home.Release(running); err != nil {
			r.cfg.Log.Error("releasing a home", "execution", x.id, "error", err)
		}
	}()
	return r.handle(x), nil
}

func (r *Runner) handle(x *run) *Execution { return &Execution{run: x, every: r.cfg.ProgressEvery} }

// newID returns an id that nobody can guess: 130 random bits.
func newID() string { return "exec_" + strings.ToLower(rand.Text()) }

// Attach returns a handle on an execution of the same tenant that runs or has
// ended a short time ago, and gives it answers; NotFound for any other. A parked
// one ends with ctx from now on. An answer that does not fit is Invalid and
// leaves everything as it was.
func (r *Runner) Attach(ctx context.Context, home *home.Home, id string, a Answer) (*Execution, error) {
	x, err := r.find(home, id)
	if err != nil {
		return nil, err
	}
	if err := x.questions.answer(ctx, a); err != nil {
		return nil, err
	}
	if err := x.notice(ctx, home); err != nil {
		return nil, err
	}
	x.heldBy(ctx)
	return r.handle(x), nil
}

func (r *Runner) find(home *home.Home, id string) (*run, error) {
	if x := r.book.find(home.ID(), id); x != nil {
		return x, nil
	}
	return nil, fault.New(fault.NotFound, "there is no execution %.60q that runs or has just ended", id).
		WithHint("run the code again with execute_code")
}

// execute takes one execution from the queue to its end. The reply does not
// wait for the sandbox to be taken down.
func (r *Runner) execute(ctx context.Context, home *home.Home, x *run, req Request) {
	defer context.AfterFunc(r.life, func() { x.cancel(context.Cause(r.life)) })()
	ctx, span := r.watch(ctx, home, x)
	var st *step
	finish := func(res Result, err error) {
		res.ExecutionID = x.id
		x.fill(&res)
		x.result, x.err = res, err
		r.forget(ctx, x)
		r.audit(home, x, st)
		span.Update(func(f *telemetry.Facts) { f.Calls = x.calls.Load() })
		span.End(status(x))
		r.book.end(x)
		close(x.ended)
	}
	if res := r.refusedBy(ctx, r.cfg.Guard, home, x, req); res != nil {
		finish(*res, nil)
		return
	}
	if req.SessionID != "" {
		var err error
		if st, err = r.enter(ctx, home, req); err != nil {
			finish(r.unrun(ctx, err))
			return
		}
		defer st.leave()
	}
	place := &place{queue: r.cfg.Queue, owner: home.ID().String(), told: x.queued}
	_, waited := r.telemetry(x).Start(ctx, telemetry.Queue, telemetry.Facts{})
	err := place.enter(ctx)
	waited.End("")
	if err != nil {
		finish(r.unrun(ctx, err))
		return
	}
	defer place.quit()
	box, err := r.sandbox(ctx, home, st, &req)
	if err != nil {
		finish(r.unrun(ctx, err))
		return
	}
	if st != nil {
		finish(st.end(r.run(ctx, home, x, st, req, box, place)))
		return
	}
	defer r.closeBox(box)
	finish(r.run(ctx, home, x, nil, req, box, place))
	if r.cfg.Queue.Load().Waiting == 0 && ctx.Err() == nil {
		time.Sleep(answerFirst)
	}
}

// telemetry is who is told of x: nobody of what is ours.
func (r *Runner) telemetry(x *run) *telemetry.Recorder {
	if x.unlisted {
		return nil
	}
	return r.cfg.Telemetry
}

// watch begins to tell of x.
func (r *Runner) watch(ctx context.Context, home *home.Home, x *run) (context.Context, *telemetry.Span) {
	return r.telemetry(x).Start(ctx, telemetry.Execution, telemetry.Facts{Tenant: home.ID().String(), Session: x.session, Execution: x.id})
}

// audit records that x ended. A session is named only if there is such a one.
func (r *Runner) audit(home *home.Home, x *run, st *step) {
	if x.unlisted || r.cfg.Audit == nil {
		return
	}
	line := audit.Line{Kind: audit.Execution, Tenant: home.ID(), Execution: x.id, Outcome: status(x), Count: x.calls.Load(), Duration: x.result.Elapsed}
	if st != nil {
		line.Session = st.req.SessionID
	}
	r.cfg.Audit(line)
}

// sandbox returns where to run: the session's interpreter, or a sandbox for this
// execution alone. The request's memory becomes what that has.
func (r *Runner) sandbox(ctx context.Context, home *home.Home, st *step, req *Request) (sandbox.Sandbox, error) {
	if st != nil {
		return st.sandbox(ctx, req)
	}
	return r.open(ctx, home, *req)
}

func (r *Runner) closeBox(box sandbox.Sandbox) {
	if err := box.Close(); err != nil {
		r.cfg.Log.Error("close a sandbox", "error", err)
	}
}

// answerFirst is how long the end of a sandbox waits for the answer to reach
// whoever asked, unless others wait for its place. The kernel ends a process in
// one go and keeps a processor for a millisecond or two meanwhile.
const answerFirst = 3 * time.Millisecond

// unrun is the end of an execution whose code never ran: cancelled if that is
// why, else the error.
func (r *Runner) unrun(ctx context.Context, err error) (Result, error) {
	cause := causeOf(ctx)
	if cause == nil {
		return Result{}, err
	}
	res := Result{Output: []string{}}
	granted{}.explain(&res, sandbox.Outcome{Status: sandbox.Cancelled}, cause)
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
	case ctx.Err() != nil: // nobody waits for it any more
		return nil, err
	}
	return nil, r.shown(err, "no sandbox could be opened")
}

// shown makes err one that may be shown. A cause that is not goes to the log
// here: to a face this is a fault of the machine, which it has no reason to log.
func (r *Runner) shown(err error, what string) error {
	if fe, ok := errors.AsType[*fault.Error](err); ok {
		return fe
	}
	r.cfg.Log.Error(what, "error", err)
	return fault.Wrap(fault.Unavailable, err, "%s", what).
		WithHint("`sandpiper doctor` says what is missing on this machine")
}

func (r *Runner) limits(req Request) sandbox.Limits {
	l := r.cfg.Sandbox
	l.MemoryBytes = int64(req.MemoryMB) << 20
	return l
}

func (r *Runner) granted(req Request) granted {
	return granted{
		timeout: req.Timeout, most: r.cfg.Limits.MaxTimeout,
		limits: r.limits(req), mostMB: r.cfg.Limits.MaxMemoryMB, output: r.cfg.OutputBytes,
	}
}
