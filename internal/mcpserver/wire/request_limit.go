package wire

import (
	"fmt"
	"net/http"
	"sync"
)

// requestLimit limits the open requests per caller, so that no token can use all network
// connections for calls and streams.
type requestLimit struct {
	authn authenticator
	most  int

	mu   sync.Mutex
	open map[string]int // by caller
}

func newRequestLimit(authn authenticator, most int) *requestLimit {
	return &requestLimit{authn: authn, most: most, open: map[string]int{}}
}

// limit rejects requests of a caller with too many open ones.
func (l *requestLimit) limit(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		caller := l.authn.callerFrom(r.Context())
		if !l.acquire(caller) {
			w.Header().Set("Retry-After", "1")
			http.Error(w, fmt.Sprintf("%d requests with this token are open, which is the limit; end some or wait", l.most),
				http.StatusTooManyRequests)
			return
		}
		defer l.release(caller)
		next.ServeHTTP(w, r)
	})
}

func (l *requestLimit) acquire(caller string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.open[caller] >= l.most {
		return false
	}
	l.open[caller]++
	return true
}

func (l *requestLimit) release(caller string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.open[caller]--; l.open[caller] == 0 {
		delete(l.open, caller)
	}
}
