package guardrail

import (
	"fmt"
	"sync"
	"time"

	"github.com/sandpiper-mcp/sandpiper/internal/store/tenant"
)

// rate holds the executions of tenants in the last minute.
type rate struct {
	mu   sync.Mutex
	last map[tenant.ID][]time.Time // oldest first, at most the highest limit
}

// Admit counts an execution of a tenant, or returns a finding if the rate limit is
// exceeded.
func (g *Guard) Admit(id tenant.ID) []Finding {
	if g == nil || g.cfg.PerMinute == 0 {
		return nil
	}
	wait := g.rate.admit(id, g.cfg.PerMinute, time.Now())
	if wait == 0 {
		return nil
	}
	return []Finding{{CheckRate, Refuse, "", fmt.Sprintf("the limit of %d executions per minute is reached", g.cfg.PerMinute),
		fmt.Sprintf("try again in %d seconds and combine work into fewer executions", int(wait.Seconds())+1)}}
}

// KeepCounts makes g continue the counts of an earlier Guard. It must be called before g is used;
// both may be nil.
func (g *Guard) KeepCounts(earlier *Guard) {
	if g != nil && earlier != nil {
		g.rate = earlier.rate
	}
}

// admit returns how long to wait, 0 if the execution may start.
func (r *rate) admit(id tenant.ID, most int, now time.Time) time.Duration {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.last == nil {
		r.last = map[tenant.ID][]time.Time{}
	}
	const window = time.Minute
	times := r.last[id]
	if over := len(times) - most; over >= 0 { // more than most if the limit was higher before
		if wait := window - now.Sub(times[over]); wait > 0 {
			return wait
		}
		times = times[over+1:]
	}
	r.last[id] = append(times, now)
	if len(r.last) > 10_000 { // drop inactive tenants
		for other, t := range r.last {
			if now.Sub(t[len(t)-1]) > window {
				delete(r.last, other)
			}
		}
	}
	return 0
}
