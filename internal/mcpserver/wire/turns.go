package wire

import (
	"fmt"
	"net/http"
	"sync"
)

// turns bounds the requests of one caller that are open at a time, so that no token
// can hold all network connections: calls that run, and streams.
type turns struct {
	who  callers
	most int

	mu   sync.Mutex
	open map[string]int // by caller
}

func newTurns(who callers, most int) *turns {
	return &turns{who: who, most: most, open: map[string]int{}}
}

// bound refuses requests of a caller that has too many.
func (t *turns) bound(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		caller := t.who.on(r.Context())
		if !t.take(caller) {
			w.Header().Set("Retry-After", "1")
			http.Error(w, fmt.Sprintf("%d requests with this token are open, which is the limit; end some or wait", t.most), http.StatusTooManyRequests)
			return
		}
		defer t.give(caller)
		next.ServeHTTP(w, r)
	})
}

func (t *turns) take(caller string) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.open[caller] >= t.most {
		return false
	}
	t.open[caller]++
	return true
}

func (t *turns) give(caller string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.open[caller]--; t.open[caller] == 0 {
		delete(t.open, caller)
	}
}
