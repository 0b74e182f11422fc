package mcpserver

import (
	"context"
	"crypto/rand"
	"errors"
	"iter"
	"strings"
	"sync"
	"time"

	"github.com/sandpiper-mcp/sandpiper/internal/execution"
	"github.com/sandpiper-mcp/sandpiper/internal/execution/live"
	"github.com/sandpiper-mcp/sandpiper/internal/execution/reply"
	"github.com/sandpiper-mcp/sandpiper/internal/fault"
	"github.com/sandpiper-mcp/sandpiper/internal/mcpserver/builtin"
	"github.com/sandpiper-mcp/sandpiper/internal/mcpserver/wire"
	"github.com/sandpiper-mcp/sandpiper/internal/privacy/redact"
	"github.com/sandpiper-mcp/sandpiper/internal/store/tenant"
)

// Limits of calls that wait for the models of their clients.
const (
	sampleWait = 10 * time.Minute
	maxWaiting = 16 // of a tenant
)

// waitingCalls contains the calls whose client was answered with a request to its model, and
// has not called again. They do not outlive the Server.
type waitingCalls struct {
	mu     sync.Mutex
	all    map[string]*waitingCall // by id
	closed bool
}

// waitingCall is a call that is answered in several requests. One request at a time has it.
type waitingCall struct {
	*builtin.Conversation
	server *Server
	owner  tenant.ID
	cancel context.CancelCauseFunc
	// next continues the call until it needs the client's model, or ends.
	next    func() (wire.Prompt, bool)
	sampled *wire.Sampled // what next continues with; nil if the client did not call again
	answer  redact.Message
	err     error
	timer   *time.Timer
	since   time.Time // when it began to wait
}

var errNotCalled = errors.New("the client did not call again")

const waitingPrefix = "task_"

func isWaiting(state string) bool { return strings.HasPrefix(state, waitingPrefix) }

// conversations are calls that use several abilities of their client.
type conversations struct{ *Server }

// of returns a call as a conversation.
func (s conversations) of(c builtin.Call) *builtin.Conversation {
	v := &builtin.Conversation{Call: c}
	v.Follow = func(ctx context.Context, x *execution.Execution) (*reply.Result, redact.Message, error) {
		return follower(s).followResult(ctx, v.Call, x)
	}
	v.Report = func(ctx context.Context, message string) {
		follower(s).progress(ctx, v.Call, live.Progress{Message: message})
	}
	return v
}

// serve begins or continues a conversation.
func (s conversations) serve(ctx context.Context, c builtin.Call) (redact.Message, error) {
	switch {
	case isWaiting(c.State):
		return s.resume(ctx, c)
	case c.State != "":
		return follower(s).answered(ctx, c)
	case c.Tool.Samples && c.RequireSample != nil:
		return s.begin(ctx, c)
	}
	return c.Tool.Converse(ctx, s.of(c))
}

// begin begins a conversation that may need the client's model.
func (s conversations) begin(ctx context.Context, c builtin.Call) (redact.Message, error) {
	if oldest := s.waiting.makeRoom(c.Home.ID()); oldest != nil {
		oldest.abandon()
	}
	home, err := s.acquire(ctx, c.Caller) // that of the request is released when it is answered
	if err != nil {
		return redact.Message{}, err
	}
	w := &waitingCall{Conversation: s.of(c), server: s.Server, owner: home.ID()}
	w.Home = home
	whole, cancel := context.WithCancelCause(context.WithoutCancel(ctx))
	w.cancel = cancel
	w.next, _ = iter.Pull(func(yield func(wire.Prompt) bool) {
		w.Sample = func(_ context.Context, p wire.Prompt) (wire.Sampled, error) {
			yield(p)
			if w.sampled == nil {
				return wire.Sampled{}, errNotCalled
			}
			return *w.sampled, nil
		}
		defer cancel(nil)
		w.answer, w.err = c.Tool.Converse(whole, w.Conversation)
	})
	return w.advance(ctx, c)
}

// resume continues the conversation of an earlier request with the answer of the client's model.
func (s conversations) resume(ctx context.Context, c builtin.Call) (redact.Message, error) {
	id, _, _, ok := s.key.opened(c.Home.ID(), c.State) // an expired one does not wait any more
	if !ok || c.RequireSample == nil {
		return redact.Message{}, wire.ErrState
	}
	w := s.waiting.take(id)
	if w == nil {
		return redact.Message{}, fault.New(fault.NotFound, "the task does not wait for this answer any more").
			WithHint("call %s again", c.Tool.Name)
	}
	w.sampled = c.Sampled
	return w.advance(ctx, c)
}

// advance continues the call until it ends, or a request to the client's model is the answer.
func (w *waitingCall) advance(ctx context.Context, c builtin.Call) (redact.Message, error) {
	c.Home, c.Sample = w.Home, w.Sample
	if progress := c.Progress; progress != nil { // the conversation has the context of the first request
		c.Progress = func(_ context.Context, done, total float64, message redact.Redacted) error {
			return progress(ctx, done, total, message)
		}
	}
	w.Call = c
	stop := context.AfterFunc(ctx, func() { w.cancel(context.Cause(ctx)) })
	defer stop()
	prompt, waits := w.next()
	if !waits {
		return w.answer, errors.Join(w.err, w.Home.Release(context.WithoutCancel(ctx)))
	}
	id := waitingPrefix + rand.Text()
	if err := w.server.waiting.put(id, w); err != nil {
		w.abandon()
		return redact.Message{}, err
	}
	return redact.Message{Body: ""}, c.RequireSample(prompt, w.server.key.state(w.owner, id, time.Now().Add(sampleWait)))
}

// abandon ends a call whose client does not call again.
func (w *waitingCall) abandon() {
	w.cancel(errNotCalled)
	w.sampled = nil
	for waits := true; waits; {
		_, waits = w.next()
	}
	if err := w.Home.Release(context.Background()); err != nil {
		w.server.cfg.Log.Error("release the tenant of a call that waited for a model", "error", err)
	}
}

// makeRoom removes and returns the oldest waiting call of a tenant that has maxWaiting. Its client
// has probably rejected the request to its model: this protocol has no message for that.
func (a *waitingCalls) makeRoom(owner tenant.ID) (oldest *waitingCall) {
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
	if n < maxWaiting {
		return nil
	}
	delete(a.all, id)
	oldest.timer.Stop()
	return oldest
}

func (a *waitingCalls) put(id string, w *waitingCall) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.closed {
		return fault.New(fault.Unavailable, "Sandpiper is stopping")
	}
	if a.all == nil {
		a.all = map[string]*waitingCall{}
	}
	a.all[id], w.since = w, time.Now()
	w.timer = time.AfterFunc(sampleWait, func() {
		if a.take(id) != nil {
			w.abandon()
		}
	})
	return nil
}

// take removes a call; nil if there is none.
func (a *waitingCalls) take(id string) *waitingCall {
	a.mu.Lock()
	defer a.mu.Unlock()
	w := a.all[id]
	if w != nil {
		delete(a.all, id)
		w.timer.Stop()
	}
	return w
}

// close ends all calls.
func (a *waitingCalls) close() {
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

// Close ends the calls that wait for their clients. The caller calls it when no call runs.
func (s *Server) Close() error {
	s.waiting.close()
	return nil
}
