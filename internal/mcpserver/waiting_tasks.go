package mcpserver

import (
	"context"
	"crypto/rand"
	"errors"
	"iter"
	"strings"
	"sync"
	"time"

	"github.com/sandpiper-mcp/sandpiper/internal/fault"
	"github.com/sandpiper-mcp/sandpiper/internal/mcpserver/builtin"
	"github.com/sandpiper-mcp/sandpiper/internal/mcpserver/wire"
	"github.com/sandpiper-mcp/sandpiper/internal/privacy/redact"
	"github.com/sandpiper-mcp/sandpiper/internal/store/tenant"
)

// Limits of tasks that wait for the models of their clients.
const (
	taskWait        = 10 * time.Minute
	maxWaitingTasks = 16 // of a tenant
)

// waitingTasks contains the tasks whose client was answered with a request to its model, and
// has not called again. They do not outlive the Server.
type waitingTasks struct {
	mu     sync.Mutex
	all    map[string]*waitingTask // by id
	closed bool
}

// waitingTask is a task that is solved in several calls. One call at a time has it.
type waitingTask struct {
	runningTask
	owner  tenant.ID
	cancel context.CancelCauseFunc
	// next continues the task until it needs the client's model, or ends.
	next    func() (wire.Prompt, bool)
	sampled *wire.Sampled // what next continues with; nil if the client did not call again
	answer  redact.Message
	err     error
	timer   *time.Timer
	since   time.Time // when it began to wait
}

var errNotCalled = errors.New("the client did not call again")

const taskPrefix = "task_"

func isWaitingTask(state string) bool { return strings.HasPrefix(state, taskPrefix) }

// startTask starts a task that may need the client's model.
func (s solverTools) startTask(ctx context.Context, c builtin.Call, args taskArgs) (redact.Message, error) {
	if oldest := s.waiting.makeRoom(c.Home.ID()); oldest != nil {
		oldest.abandon()
	}
	home, err := s.acquire(ctx, c.Caller) // that of the call is released when it returns
	if err != nil {
		return redact.Message{}, err
	}
	w := &waitingTask{owner: home.ID()}
	w.server, w.call = s.Server, c
	w.call.Home = home
	whole, cancel := context.WithCancelCause(context.WithoutCancel(ctx))
	w.cancel = cancel
	w.next, _ = iter.Pull(func(yield func(wire.Prompt) bool) {
		w.ask = func(_ context.Context, p wire.Prompt) (wire.Sampled, error) {
			yield(p)
			if w.sampled == nil {
				return wire.Sampled{}, errNotCalled
			}
			return *w.sampled, nil
		}
		defer cancel(nil)
		w.answer, w.err = w.solve(whole, args)
	})
	return w.advance(ctx, c)
}

// continueTask continues the task of an earlier answer with the answer of the client's model.
func (s solverTools) continueTask(ctx context.Context, c builtin.Call) (redact.Message, error) {
	id, _, _, ok := s.key.opened(c.Home.ID(), c.State) // an expired one has no task any more
	if !ok || c.RequireSample == nil {
		return redact.Message{}, wire.ErrState
	}
	w := s.waiting.take(id)
	if w == nil {
		return redact.Message{}, fault.New(fault.NotFound, "the task does not wait for this answer any more").WithHint("call execute_task again")
	}
	w.sampled = c.Sampled
	return w.advance(ctx, c)
}

// advance continues the task until it ends, or a request to the client's model is the answer.
func (w *waitingTask) advance(ctx context.Context, c builtin.Call) (redact.Message, error) {
	c.Home = w.call.Home
	if progress := c.Progress; progress != nil { // the task has the context of the first call
		c.Progress = func(_ context.Context, done, total float64, message redact.Redacted) error {
			return progress(ctx, done, total, message)
		}
	}
	w.call = c
	stop := context.AfterFunc(ctx, func() { w.cancel(context.Cause(ctx)) })
	defer stop()
	prompt, waits := w.next()
	if !waits {
		return w.answer, errors.Join(w.err, w.call.Home.Release(context.WithoutCancel(ctx)))
	}
	id := taskPrefix + rand.Text()
	if err := w.server.waiting.put(id, w); err != nil {
		w.abandon()
		return redact.Message{}, err
	}
	return redact.Message{Body: ""}, c.RequireSample(prompt, w.server.key.state(w.owner, id, time.Now().Add(taskWait)))
}

// abandon ends a task whose client does not call again.
func (w *waitingTask) abandon() {
	w.cancel(errNotCalled)
	w.sampled = nil
	for waits := true; waits; {
		_, waits = w.next()
	}
	if err := w.call.Home.Release(context.Background()); err != nil {
		w.server.cfg.Log.Error("release the tenant of a task", "error", err)
	}
}

// makeRoom removes and returns the oldest waiting task of a tenant that has maxWaitingTasks. Its client
// has probably rejected the request to its model: this protocol has no message for that.
func (a *waitingTasks) makeRoom(owner tenant.ID) (oldest *waitingTask) {
	a.mu.Lock()
	defer a.mu.Unlock()
	n, id := 0, ""
	for key, w := range a.all {
		if w.owner != owner {
			continue
		}
		if n++; oldest == nil || w.since.Before(oldest.since) {
			oldest, id = w, key
		}
	}
	if n < maxWaitingTasks {
		return nil
	}
	delete(a.all, id)
	oldest.timer.Stop()
	return oldest
}

func (a *waitingTasks) put(id string, w *waitingTask) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.closed {
		return fault.New(fault.Unavailable, "Sandpiper is stopping")
	}
	if a.all == nil {
		a.all = map[string]*waitingTask{}
	}
	a.all[id], w.since = w, time.Now()
	w.timer = time.AfterFunc(taskWait, func() {
		if a.take(id) != nil {
			w.abandon()
		}
	})
	return nil
}

// take removes a task; nil if there is none.
func (a *waitingTasks) take(id string) *waitingTask {
	a.mu.Lock()
	defer a.mu.Unlock()
	w := a.all[id]
	if w != nil {
		delete(a.all, id)
		w.timer.Stop()
	}
	return w
}

// close ends all tasks.
func (a *waitingTasks) close() {
	a.mu.Lock()
	a.closed = true
	all := a.all
	a.all = nil
	a.mu.Unlock()
	for _, w := range all {
		w.timer.Stop()
		w.abandon()
	}
}

// Close ends the tasks that wait for their clients. The caller calls it when no call runs.
func (s *Server) Close() error {
	s.waiting.close()
	return nil
}
