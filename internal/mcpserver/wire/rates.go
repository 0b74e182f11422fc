package wire

import (
	"context"
	"fmt"
	"math"
	"net/http"
	"strings"
	"time"
)

// Rate is the state of one quota of a caller.
type Rate struct {
	Name   string
	Limit  int64 // in each Period
	Left   int64
	Period time.Duration
	Retry  time.Duration // until something is left again; 0 if something is
}

// withRates adds the state of the caller's quotas to the header of each answer: RateLimit-Policy
// and RateLimit of draft-ietf-httpapi-ratelimit-headers, and Retry-After if nothing of a quota is
// left.
func withRates(authn authenticator, rates func(context.Context, string) []Rate, next http.Handler) http.Handler {
	if rates == nil {
		return next
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var policies, states []string
		var retry time.Duration
		for _, q := range rates(r.Context(), authn.callerFrom(r.Context())) {
			policies = append(policies, fmt.Sprintf("%q;q=%d;w=%d", q.Name, q.Limit, int64(q.Period.Seconds())))
			state := fmt.Sprintf("%q;r=%d", q.Name, q.Left)
			if q.Left == 0 {
				state += fmt.Sprintf(";t=%d", seconds(q.Retry))
				retry = max(retry, q.Retry)
			}
			states = append(states, state)
		}
		if len(states) > 0 {
			w.Header().Set("RateLimit-Policy", strings.Join(policies, ", "))
			w.Header().Set("RateLimit", strings.Join(states, ", "))
		}
		if retry > 0 {
			w.Header().Set("Retry-After", fmt.Sprint(seconds(retry)))
		}
		next.ServeHTTP(w, r)
	})
}

// seconds returns whole seconds, rounded up and at least 1.
func seconds(d time.Duration) int64 { return max(int64(math.Ceil(d.Seconds())), 1) }
