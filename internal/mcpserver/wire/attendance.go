package wire

import (
	"context"
	"net/http"
	"strconv"
	"sync"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// attendance knows which requests of the older era still have somebody who waits
// for the answer. There a lost connection is no cancellation: the client may come
// back and read on. One that does not come back in time has its calls cancelled.
type attendance struct {
	patience time.Duration

	mu      sync.Mutex
	number  uint64
	posts   map[string]*post // by number
	readers map[string]int   // by connection: streams that somebody reads again
}

// post is one request and the calls in it.
type post struct {
	connection string
	ctx        context.Context // ends when nobody waits any more
	cancel     context.CancelCauseFunc
	left       bool // whoever sent it has lost the connection
}

func newAttendance(patience time.Duration) *attendance {
	return &attendance{patience: patience, posts: map[string]*post{}, readers: map[string]int{}}
}

// numberHeader carries the number of a post to the calls in it: the SDK shows
// them the headers of their request, and nothing else of it. What a client sends
// under this name is overwritten.
const numberHeader = "Sandpiper-Request"

// watch notes who comes and goes.
func (a *attendance) watch(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		connection := r.Header.Get("Mcp-Session-Id")
		switch {
		case r.Method == http.MethodPost:
			number := a.arrive(connection)
			r.Header.Set(numberHeader, number)
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

// attend ends a call when nobody waits for its answer.
func (a *attendance) attend(next mcp.MethodHandler) mcp.MethodHandler {
	return func(ctx context.Context, method string, req mcp.Request) (mcp.Result, error) {
		if x := req.GetExtra(); x != nil && x.Header != nil {
			if p := a.find(x.Header.Get(numberHeader)); p != nil {
				var cancel context.CancelCauseFunc
				ctx, cancel = context.WithCancelCause(ctx)
				defer cancel(nil)
				defer context.AfterFunc(p.ctx, func() { cancel(context.Cause(p.ctx)) })()
			}
		}
		return next(ctx, method, req)
	}
}

func (a *attendance) arrive(connection string) (number string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.number++
	number = strconv.FormatUint(a.number, 36)
	p := &post{connection: connection}
	p.ctx, p.cancel = context.WithCancelCause(context.Background())
	a.posts[number] = p
	return number
}

func (a *attendance) find(number string) *post {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.posts[number]
}

// leave notes the end of a request: it was answered, or its connection is lost.
func (a *attendance) leave(number string, lost bool) {
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

// read notes that a client has come back to read on, or has gone again.
func (a *attendance) read(connection string, change int) {
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
func (a *attendance) dismiss(connection string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for number, p := range a.posts {
		if p.connection == connection {
			a.forget(number, p)
		}
	}
}

// expect gives the client of a post time to come back.
func (a *attendance) expect(number string) {
	time.AfterFunc(a.patience, func() {
		a.mu.Lock()
		defer a.mu.Unlock()
		if p := a.posts[number]; p != nil && a.readers[p.connection] == 0 {
			a.forget(number, p)
		}
	})
}

func (a *attendance) forget(number string, p *post) {
	delete(a.posts, number)
	p.cancel(errGone)
}
