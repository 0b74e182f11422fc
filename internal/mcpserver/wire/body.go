package wire

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"sync"

	"github.com/sandpiper-mcp/sandpiper/internal/fault"
	"github.com/sandpiper-mcp/sandpiper/internal/memory"
)

// requestMemory is the memory of a request. It is released when all have called release: the handler of
// the HTTP request, and the calls in it, which may outlast that. A nil one has none.
type requestMemory struct {
	share *memory.Share

	mu    sync.Mutex
	users int
}

func (m *requestMemory) retain() {
	if m != nil {
		m.mu.Lock()
		defer m.mu.Unlock()
		m.users++
	}
}

func (m *requestMemory) release() {
	if m == nil {
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.users--; m.users == 0 {
		m.share.Release()
	}
}

// memoryKey is the context key of the memory that an HTTP request holds.
type memoryKey struct{}

// memoryOf returns the memory of the HTTP request of a context; nil if it has none.
func memoryOf(ctx context.Context) *requestMemory {
	m, _ := ctx.Value(memoryKey{}).(*requestMemory)
	return m
}

// reserveBody reads the body of a request, for which it holds memory until the request is answered.
// A caller above its limit waits, and is refused with the time to wait before the next attempt.
func reserveBody(budget *memory.Budget, authn authenticator, maxBody int64, next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method != http.MethodPost { // no other one has a body that is read
			next.ServeHTTP(w, r)
			return
		}
		if rejectLarge(w, r, maxBody) {
			return
		}
		m := &requestMemory{share: budget.Open(authn.callerFrom(r.Context())), users: 1}
		defer m.release()
		body, err := receive(r, m.share, maxBody)
		if err != nil {
			refuseBody(w, err, budget.RetryAfter())
			return
		}
		r = r.WithContext(context.WithValue(r.Context(), memoryKey{}, m))
		r.Body = io.NopCloser(&body)
		next.ServeHTTP(w, r)
	})
}

// refuseBody answers a request for which there is no memory.
func refuseBody(w http.ResponseWriter, err error, retryAfter int) {
	switch fault.KindOf(err) {
	case fault.Exhausted:
		w.Header().Set("Retry-After", strconv.Itoa(retryAfter))
		http.Error(w, explain(err), http.StatusTooManyRequests)
	case fault.Invalid:
		http.Error(w, explain(err), http.StatusRequestEntityTooLarge)
	case fault.Unavailable:
		w.Header().Set("Connection", "close")
		http.Error(w, explain(err), http.StatusRequestTimeout)
	default: // most often the client has gone
		http.Error(w, "the request cannot be read", http.StatusBadRequest)
	}
}

// explain returns the message and the hint of an error.
func explain(err error) string {
	if _, ok := errors.AsType[*fault.Error](err); !ok {
		return "the request was cancelled"
	}
	if hint := fault.Hint(err); hint != "" {
		return fault.Message(err) + ": " + hint
	}
	return fault.Message(err)
}

// rejectLarge answers a request whose declared length exceeds limit, without reading it.
func rejectLarge(w http.ResponseWriter, r *http.Request, limit int64) bool {
	if r.ContentLength <= limit {
		return false
	}
	http.Error(w, fmt.Sprintf("a request has at most %d bytes, not %d", limit, r.ContentLength), http.StatusRequestEntityTooLarge)
	return true
}
