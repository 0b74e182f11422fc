package mcp

import (
	"context"
	"encoding/json"
	"sync"
	"sync/atomic"

	"github.com/sandpiper-mcp/sandpiper/internal/tool"
	"github.com/sandpiper-mcp/sandpiper/internal/upstream/spool"
)

// inFlight contains the unanswered requests of a connection, and its state.
type inFlight struct {
	mu             sync.Mutex
	pending        map[int64]*request // nil for the SDK's own
	progressTokens map[int64]*request // requests that receive progress
	abandoned      map[int64]bool     // abandoned requests that may still be running
	lastToken      int64
	serverRequests int    // unanswered requests of the server
	received       bool   // whether any message was received
	responses      uint64 // number of responses received
	closed         bool   // the server has closed the connection
}

// request is a request whose result the interceptor takes.
type request struct {
	method    string
	id, token int64
	answer    json.RawMessage // raw result
	err       error           // set by the interceptor
	progress  chan progress   // contains the latest only; nil without a listener
	answered  chan<- struct{} // closed with the answer; nil if the SDK waits for it
	claims    bool            // the caller makes room for a large answer before it uses it
	large     bool            // an answer that is too large for memory is accepted
	file      *spool.File     // contains answer if it is too large for memory

	ask func(context.Context, tool.Question) (tool.Reply, error) // nil if the caller cannot answer questions
	// of the request; the goroutine that reads questions has no other way to it
	ctx           context.Context
	questions     sync.WaitGroup  // open questions
	questionCount atomic.Int64    // number of questions
	inputRequired json.RawMessage // intermediate result, set with ErrInputRequired
	rounds        int             // number of intermediate results
	declined      error           // why a question was declined; nil if none was
	declinedOwn   bool            // whether it certainly belonged to this call
	sent          atomic.Bool     // any part of it may have been sent
	refused       atomic.Bool     // an attempt to send it failed before
}

// notSent reports whether certainly no part of the request was sent.
func (a *request) notSent() bool { return a.refused.Load() && !a.sent.Load() }

// forTenant reports whether the request may contain data of a tenant; tools/list does
// not.
func (a *request) forTenant() bool { return a != nil && a.method != "tools/list" }

// register records an outgoing request. Its context contains the *request.
func (t *inFlight) register(ctx context.Context, id int64) {
	a, _ := ctx.Value(requestKey{}).(*request)
	t.registerCall(id, a, nil)
}

// registerCall records an outgoing request. answered, unless nil, is closed when it is
// answered; the SDK does not know such a request.
func (t *inFlight) registerCall(id int64, a *request, answered chan<- struct{}) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.pending[id] = a
	if a != nil {
		a.id, a.answer, a.err, a.inputRequired = id, nil, nil, nil // resets a previous round
		a.answered = answered
	}
}

// serverRequestDone records that a request of the server was answered.
func (t *inFlight) serverRequestDone() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.serverRequests--
}

// forget removes a. If it was not answered, it may still be running.
func (t *inFlight) forget(a *request) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.pending[a.id].forTenant() {
		t.abandoned[a.id] = true
	}
	delete(t.pending, a.id)
	delete(t.progressTokens, a.token)
}

// newProgressToken assigns a progress token to a.
func (t *inFlight) newProgressToken(a *request) (token int64) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.lastToken++
	t.progressTokens[t.lastToken] = a
	a.token, a.progress = t.lastToken, make(chan progress, 1)
	return t.lastToken
}

// markClosed records that the server has closed the connection.
func (t *inFlight) markClosed() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.closed = true
}

func (t *inFlight) isClosed() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.closed
}

// markReceived records that the server has sent a message.
func (t *inFlight) markReceived() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.received = true
}

func (t *inFlight) hasReceived() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.received
}
