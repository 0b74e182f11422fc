package wire

import (
	"context"
	"net/http"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// disconnects tracks which requests before 2026-07-28 still have a connected client.
// There a lost connection does not cancel: the client may resume. The calls of a client
// that does not resume in time are cancelled.
type disconnects struct {
	patience time.Duration
	scopeOf  func(operation) string

	mu      sync.Mutex
	number  uint64
	posts   map[string]*post // by number
	readers map[string]int   // resumed streams by connection
}

// post is one request and its calls.
type post struct {
	connection string
	ctx        context.Context // signals with a cause that the client is gone; calls keep their own context
	cancel     context.CancelCauseFunc
	left       bool // its connection was lost
	needs      needs
	memory     *requestMemory
	begun      func() // releases it: its calls have begun, and hold it
}

// needs are the scopes that a token must have to read a stream: those of the requests that it answers.
type needs struct {
	mu     sync.Mutex
	scopes []string // nil until they are known
}

func (n *needs) add(scope string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.scopes == nil {
		n.scopes = []string{}
	}
	if scope != "" && !slices.Contains(n.scopes, scope) {
		n.scopes = append(n.scopes, scope)
	}
}

func (n *needs) all() []string {
	n.mu.Lock()
	defer n.mu.Unlock()
	return slices.Clone(n.scopes)
}

// postKey is the context key of the post of a request.
type postKey struct{}

func newAttendance(patience time.Duration) *disconnects {
	return &disconnects{patience: patience, scopeOf: func(operation) string { return "" }, posts: map[string]*post{},
		readers: map[string]int{}}
}

// numberHeader passes the number of a post to its calls, because the SDK gives calls only
// the headers of their request. A value sent by a client is overwritten.
const numberHeader = "Sandpiper-Request"

// watch records the start and end of requests.
func (a *disconnects) watch(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		connection := r.Header.Get("Mcp-Session-Id")
		switch {
		case r.Method == http.MethodPost:
			number := a.arrive(connection, memoryOf(r.Context()))
			r.Header.Set(numberHeader, number)
			r = r.WithContext(context.WithValue(r.Context(), postKey{}, a.find(number)))
			defer func() { a.leave(number, r.Context().Err() != nil) }()
		case r.Method == http.MethodGet && r.Header.Get("Last-Event-ID") != "":
			a.read(connection, 1)
			defer a.read(connection, -1)
		case r.Method == http.MethodDelete: // the SDK would wait for the calls
			a.dismiss(connection)
		}
		next.ServeHTTP(w, r)
	})
}

// attend cancels a call when its client is gone.
func (a *disconnects) attend(next mcp.MethodHandler) mcp.MethodHandler {
	return func(ctx context.Context, method string, req mcp.Request) (mcp.Result, error) {
		if x := req.GetExtra(); x != nil && x.Header != nil {
			if p := a.find(x.Header.Get(numberHeader)); p != nil {
				p.needs.add(a.scopeOf(operationOf(method, req)))
				p.memory.retain() // the call may outlast the post
				defer p.memory.release()
				p.begun()
				var cancel context.CancelCauseFunc
				ctx, cancel = context.WithCancelCause(ctx)
				defer cancel(nil)
				defer context.AfterFunc(p.ctx, func() { cancel(context.Cause(p.ctx)) })()
			}
		}
		return next(ctx, method, req)
	}
}

func (a *disconnects) arrive(connection string, m *requestMemory) (number string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.number++
	number = strconv.FormatUint(a.number, 36)
	p := &post{connection: connection, memory: m, begun: sync.OnceFunc(m.release)}
	m.retain()
	p.ctx, p.cancel = context.WithCancelCause(context.Background())
	a.posts[number] = p
	return number
}

func (a *disconnects) find(number string) *post {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.posts[number]
}

// leave records the end of a request: it was answered, or its connection was lost.
func (a *disconnects) leave(number string, lost bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	p := a.posts[number]
	if p == nil { // dismissed
		return
	}
	if !lost {
		a.forget(number, p)
		return
	}
	p.left = true
	a.expect(number)
}

// read records that a client resumed a stream, or disconnected again.
func (a *disconnects) read(connection string, change int) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.readers[connection] += change
	if a.readers[connection] > 0 {
		return
	}
	delete(a.readers, connection)
	for number, p := range a.posts {
		if p.left && p.connection == connection {
			a.expect(number)
		}
	}
}

// dismiss cancels all calls of a connection.
func (a *disconnects) dismiss(connection string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for number, p := range a.posts {
		if p.connection == connection {
			a.forget(number, p)
		}
	}
}

// expect gives the client of a post time to resume.
func (a *disconnects) expect(number string) {
	time.AfterFunc(a.patience, func() {
		a.mu.Lock()
		defer a.mu.Unlock()
		if p := a.posts[number]; p != nil && a.readers[p.connection] == 0 {
			a.forget(number, p)
		}
	})
}

func (a *disconnects) forget(number string, p *post) {
	delete(a.posts, number)
	p.begun()
	p.cancel(errGone)
}
