package execution

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"sync"
	"time"

	"github.com/sandpiper-mcp/sandpiper/internal/execution/question"
	"github.com/sandpiper-mcp/sandpiper/internal/execution/reply"
	"github.com/sandpiper-mcp/sandpiper/internal/fault"
	"github.com/sandpiper-mcp/sandpiper/internal/home"
	"github.com/sandpiper-mcp/sandpiper/internal/home/journal"
	"github.com/sandpiper-mcp/sandpiper/internal/sandbox"
	"github.com/sandpiper-mcp/sandpiper/internal/store/tenant"
)

// Live is the state of a background execution that is running, as far as it is known to other
// processes.
type Live struct {
	Progress  *Progress           `json:"progress,omitempty"`
	Output    []string            `json:"output,omitempty"` // the last items
	Questions []question.Question `json:"questions,omitempty"`
}

// background is the state of a run that no caller waits for. The lock of the run guards it.
type background struct {
	attempt  bool   // a failure does not end it: another program may follow
	task     string // in words, that its code is written for
	schedule string // that it is a run of

	mu   sync.Mutex
	tail []string // the end of the output
	size int
	news bool
}

const tailBytes = 4 << 10

// add adds an item of output.
func (b *background) add(p []byte) {
	if b == nil {
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	s := strings.ToValidUTF8(string(p[max(0, len(p)-tailBytes):]), "\ufffd")
	b.tail, b.size, b.news = append(b.tail, s), b.size+len(s), true
	for b.size > tailBytes && len(b.tail) > 1 {
		b.size -= len(b.tail[0])
		b.tail = b.tail[1:]
	}
}

// take returns the end of the output, and whether it has changed since the last call.
func (b *background) take() ([]string, bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	news := b.news
	b.news = false
	return append([]string(nil), b.tail...), news
}

// limitsOf returns the limits of a request.
func (r *Runner) limitsOf(id tenant.ID, req Request) Limits {
	l := r.Limits(id)
	if req.Background {
		l.MaxTimeout = max(l.MaxTimeout, r.cfg.BackgroundTimeout)
		l.Timeout = l.MaxTimeout
	}
	return l
}

// Dispatch adds a background execution and returns its id. It is on disk, and some daemon on this
// data directory will run it.
func (r *Runner) Dispatch(ctx context.Context, h *home.Home, b StoredRequest, o journal.OnRestart) (string, error) {
	b.Request.Background = true
	checked := b.Request
	if b.Task != "" {
		if b.Request.Code != "" {
			return "", fault.New(fault.Invalid, "both code and task_description are given; a background execution has one of them")
		}
		checked.Code = "pass"
	}
	switch checked, err := r.limitsOf(h.ID(), b.Request).check(checked); {
	case err != nil:
		return "", err
	case checked.SessionID != "":
		return "", fault.New(fault.Invalid, "session_id %.60q cannot be combined with a background execution, which has an interpreter of its own", checked.SessionID)
	case checked.DryRun:
		return "", fault.New(fault.Invalid, "dry_run cannot be combined with a background execution")
	}
	if err := takeExecution(ctx, h); err != nil {
		return "", err
	}
	text, err := json.Marshal(b)
	if err != nil {
		return "", err
	}
	id := newID()
	return id, h.Runs.Add(ctx, journal.Run{Execution: id, State: journal.Queued, OnRestart: o, Request: text})
}

// errByPerson is the cause of the cancellation of a background execution.
var errByPerson = errors.New("the execution was cancelled")

// CancelBackground cancels a background execution. If this process runs it, its tool calls are
// cancelled at once; another process does so soon.
func (r *Runner) CancelBackground(ctx context.Context, h *home.Home, id string) error {
	if err := h.Runs.Cancel(ctx, id); err != nil {
		return err
	}
	if x := r.registry.find(h.ID(), id); x != nil && x.background.Load() != nil {
		x.cancel(errByPerson)
	}
	return nil
}

// Signal sends a signal to an execution of the tenant.
func (r *Runner) Signal(ctx context.Context, h *home.Home, id, event string, value json.RawMessage) error {
	if len(value) == 0 {
		value = json.RawMessage("null")
	}
	switch {
	case strings.HasPrefix(event, reservedEvent):
		return fault.New(fault.Invalid, "the name of the event begins with a zero byte")
	case event == "" || len(event) > 800:
		return fault.New(fault.Invalid, "the name of the event has %d bytes; 1 to 800 are allowed", len(event))
	case !json.Valid(value):
		return fault.New(fault.Invalid, "the value of the signal is not JSON: %.60q", value).WithHint(`quote texts: '"yes"'`)
	case len(value) > journal.MaxSignalBytes:
		return fault.New(fault.Exhausted, "the value of the signal has %d bytes of JSON; at most %d are allowed", len(value), journal.MaxSignalBytes).
			WithHint("write large data to a file in /workspace, and send its name")
	}
	if x := r.registry.find(h.ID(), id); x != nil && x.record != nil && !x.hasEnded() {
		if err := x.record.Flush(ctx); err != nil { // so that other processes know it
			return err
		}
	}
	return h.Runs.Signal(ctx, id, event, value)
}

func (x *run) hasEnded() bool {
	select {
	case <-x.ended:
		return true
	default:
		return false
	}
}

// checkNotBackground rejects an attempt to resume a background execution that has not ended: the
// daemon does that.
func checkNotBackground(ctx context.Context, h *home.Home, id string) error {
	e, err := h.Runs.Find(ctx, id)
	if fault.KindOf(err) == fault.NotFound || err == nil && e.State == journal.Ended {
		return nil
	}
	if err != nil {
		return err
	}
	why := "runs in another process"
	switch {
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

// RunBackground runs an execution that was claimed, until it ends or waits without a worker. What
// it returns is for the log.
func (r *Runner) RunBackground(ctx context.Context, h *home.Home, e *journal.Run, w Writers) error {
	var b StoredRequest
	if err := json.Unmarshal(e.Request, &b); err != nil {
		return errors.Join(err, r.endBackground(ctx, h, e.Execution, journal.Unsuccessful, "the request of the execution cannot be read"))
	}
	if e.State == journal.Running { // its process has ended
		switch {
		case e.Result != nil:
			return h.Journal.End(ctx, e.Execution, journal.End{State: journal.Ended, Outcome: journal.Unsuccessful, Forget: true})
		case e.OnRestart == journal.ReportOnRestart:
			return r.endBackground(ctx, h, e.Execution, journal.Interrupted, "Sandpiper stopped while it was running")
		}
	}
	if b.Schedule != "" && e.State == journal.Queued { // Dispatch counts others
		if err := takeExecution(ctx, h); err != nil {
			return r.endBackground(ctx, h, e.Execution, journal.Unsuccessful, fault.Message(err))
		}
	}
	switch {
	case b.Request.Code != "":
	case b.Task != "":
		return r.solveBackground(ctx, h, e.Execution, b, w.Solve)
	case b.Request.Workflow.Name != "":
		if err := r.compileBackground(ctx, h, e.Execution, &b, w.Compile); err != nil {
			return r.notCompiled(ctx, h, e.Execution, err)
		}
	}
	_, err := r.launchBackground(ctx, h, e, b.Request, &background{schedule: b.Schedule})
	return err
}

// launchBackground runs code as a background execution, from its record if it has one, and waits
// for it.
func (r *Runner) launchBackground(ctx context.Context, h *home.Home, e *journal.Run, req Request, b *background) (*Execution, error) {
	x, err := r.replay(ctx, h, e.Execution, b)
	if fault.KindOf(err) == fault.NotFound && e.State != journal.Waiting { // nothing of it can have had an effect
		x, err = r.startAs(ctx, h, e.Execution, req, b)
	}
	if err != nil {
		return nil, r.backgroundNotRun(ctx, h, e.Execution, err)
	}
	r.follow(ctx, h, x)
	return x, nil
}

// startAs starts a background execution.
func (r *Runner) startAs(ctx context.Context, h *home.Home, id string, req Request, b *background) (*Execution, error) {
	req, err := r.limitsOf(h.ID(), req).check(req)
	if err != nil {
		return nil, err
	}
	x := newRun(id)
	x.background.Store(b)
	if err := r.startRecord(x, h, req); err != nil {
		return nil, err
	}
	if err := beginWorkflow(ctx, h, x, req); err != nil {
		x.record.Close() // nothing of it is on disk
		return nil, err
	}
	started, err := r.begin(ctx, h, x, req)
	if err != nil {
		x.record.Close() // nothing of it is on disk
	}
	return started, err
}

// retryAfter delays a background execution that could not run for a reason that passes.
const retryAfter = 10 * time.Second

// backgroundNotRun stores that an execution could not run, or lets it run later.
func (r *Runner) backgroundNotRun(ctx context.Context, h *home.Home, id string, err error) error {
	switch fault.KindOf(err) {
	case fault.Unavailable:
		return errors.Join(err, h.Journal.End(context.WithoutCancel(ctx), id, journal.End{State: journal.Queued, Wait: journal.Wait{Until: time.Now().Add(retryAfter)}}))
	case fault.NotFound:
		return r.endBackground(ctx, h, id, journal.Interrupted, "its record was deleted")
	}
	return r.endBackground(ctx, h, id, journal.Interrupted, fault.Message(err))
}

// endBackground ends an execution that did not run with an explanation.
func (r *Runner) endBackground(ctx context.Context, h *home.Home, id string, o journal.RunOutcome, why string) error {
	res := reply.Result{Status: sandbox.Cancelled, Failure: reply.Failure{ErrorType: string(o), Error: "Execution did not complete: " + why}, Details: reply.Details{Output: []string{}, ExecutionID: id}}
	text, err := json.Marshal(res)
	return errors.Join(err, h.Journal.End(context.WithoutCancel(ctx), id, journal.End{State: journal.Ended, Outcome: o, Result: text}))
}

// liveInterval is the time between two updates of what other processes know of an execution.
const liveInterval = 500 * time.Millisecond

// follow stores the progress of an execution until it has ended, and cancels it if another
// process requests that.
func (r *Runner) follow(ctx context.Context, h *home.Home, x *Execution) {
	tick := time.NewTicker(liveInterval)
	defer tick.Stop()
	last, asked := 0, 0
	for {
		select {
		case <-x.Ended():
			return
		case <-tick.C:
		}
		var text []byte
		p, n, _ := x.run.latest()
		open, number := x.run.questions.List()
		output, news := x.run.background.Load().take()
		if news || n > last || number != asked || len(open) > 0 {
			l := Live{Output: output, Questions: open}
			if last = n; n > 0 {
				l.Progress = &p
			}
			asked = number
			text, _ = json.Marshal(l)
		}
		cancelled, err := h.Runs.SetLive(context.WithoutCancel(ctx), x.ID(), text)
		if err != nil {
			r.cfg.Log.Warn("store the progress of a background execution", "execution", x.ID(), "error", err)
		}
		if cancelled {
			x.run.cancel(errByPerson)
		}
		if len(open) > 0 && !x.run.record.Replays() { // others may be asked again soon
			r.takeAnswers(context.WithoutCancel(ctx), h, x.run)
		}
	}
}
