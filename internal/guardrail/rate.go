package guardrail

import (
	"fmt"
	"sync"
	"time"

	"github.com/sandpiper-mcp/sandpiper/internal/store/tenant"
)

// rate counts executions of tenants in the last minute.
type rate struct {
	mu   sync.Mutex
	last map[tenant.ID][]time.Time // oldest first, at most as many as are allowed
}

// Admit counts an execution of a tenant, or finds that there were too many.
func (g *Guard) Admit(id tenant.ID) []Finding {
	if g == nil || g.cfg.PerMinute == 0 {
		return nil
	}
	wait := g.rate.admit(id, g.cfg.PerMinute, time.Now())
	if wait == 0 {
		return nil
	}
	return []Finding{{CheckRate, Refuse, "", fmt.Sprintf("%d executions were started within a minute, which is all that the operator allows", g.cfg.PerMinute),
		fmt.Sprintf("try again in %d seconds, and do more in one execution", int(wait.Seconds())+1)}}
}

// admit returns how long to wait, 0 for not at all.
func (r *rate) admit(id tenant.ID, most int, now time.Time) time.Duration {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.last == nil {
		r.last = map[tenant.ID][]time.Time{}
	}
	const window = time.Minute
	times := r.last[id]
	if len(times) == most {
		if wait := window - now.Sub(times[0]); wait > 0 {
			return wait
		}
		times = times[1:]
	}
	r.last[id] = append(times, now)
	if len(r.last) > 10_000 { // who was not here lately need not be known
		for other, t := range r.last {
			if now.Sub(t[len(t)-1]) > window {
				delete(r.last, other)
			}
		}
	}
	return 0
}
