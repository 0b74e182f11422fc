package wire

import (
	"fmt"
	"net/http"
	"sync"
)

// requestLimit limits the open requests per caller, so that no token can use all network
// connections for calls and streams.
type requestLimit struct {
	who  callers
	most int

	mu   sync.Mutex
	open map[string]int // by caller
}

func newTurns(who callers, most int) *requestLimit {
	return &requestLimit{who: who, most: most, open: map[string]int{}}
}

// bound rejects requests of a caller with too many open ones.
func (t *requestLimit) bound(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		caller := t.who.on(r.Context())
		if !t.acquire(caller) {
			w.Header().Set("Retry-After", "1")
			http.Error(w, fmt.Sprintf("%d requests with this token are open, which is the limit; end some or wait", t.most), http.StatusTooManyRequests)
			return
		}
		defer t.release(caller)
		next.ServeHTTP(w, r)
	})
}

func (t *requestLimit) acquire(caller string) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.open[caller] >= t.most {
		return false
	}
	t.open[caller]++
	return true
}

func (t *requestLimit) release(caller string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.open[caller]--; t.open[caller] == 0 {
		delete(t.open, caller)
	}
}
