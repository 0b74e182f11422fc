package policy

import (
	"sync"
	"time"

	"github.com/sandpiper-mcp/sandpiper/internal/store/tenant"
)

// counters hold the calls that budgets counted. Counters of a period are removed when
// it has passed. The end of an execution is not reported to this package, so of the
// counters of executions the least recently used are removed.
type counters struct {
	mu sync.Mutex // held by callers of the methods

	windows map[counterKey]*window
	swept   int // number of windows after the last sweep

	recent, older map[counterKey]int // of executions
}

// counted identifies what budgets count: the same calls in the same period, also in a later
// policy.
type counted struct{ per Per }

// counterKey identifies one counter.
type counterKey struct {
	of        *counted
	tenant    tenant.ID
	execution string // "" for a window
}

// maxExecutions is the capacity of recent and of older. The counter of an execution is
// lost if that many others make calls before its next call.
const maxExecutions = 1 << 15

// windowSteps is the number of steps that a period is divided into. All calls of one
// step expire together with its last. So a window of a million calls takes as little
// memory as one of a thousand, and a call becomes possible late rather than early.
const windowSteps = 1000

// window holds the times of the calls within the last period, in order.
type window struct {
	steps []step
	calls int
}

type step struct {
	begin, last time.Time
	calls       int
}

// expire removes the steps that are older than the period.
func (w *window) expire(period time.Duration, now time.Time) {
	gone := 0
	for gone < len(w.steps) && !w.steps[gone].last.Add(period).After(now) {
		w.calls -= w.steps[gone].calls
		gone++
	}
	w.steps = append(w.steps[:0], w.steps[gone:]...)
}

func (w *window) add(period time.Duration, now time.Time) {
	w.calls++
	if n := len(w.steps); n > 0 && now.Sub(w.steps[n-1].begin) < period/windowSteps {
		w.steps[n-1].last = now
		w.steps[n-1].calls++
		return
	}
	w.steps = append(w.steps, step{now, now, 1})
}

// left returns how many calls a budget has left for the tenant or execution of a call,
// and if none, when the next is possible.
func (c *counters) left(b *budget, call *Call, now time.Time) (int, time.Time) {
	if b.Per == Execution {
		return max(0, b.Calls-c.execution(b, call)), time.Time{}
	}
	w := c.windows[counterKey{of: b.counted, tenant: call.Tenant}]
	if w == nil {
		return b.Calls, now
	}
	w.expire(durations[b.Per], now)
	if w.calls < b.Calls {
		return b.Calls - w.calls, now
	}
	return 0, w.steps[0].last.Add(durations[b.Per])
}

func (c *counters) take(b *budget, call *Call, now time.Time) {
	if b.Per == Execution {
		n := c.execution(b, call)
		c.recent[counterKey{b.counted, call.Tenant, call.Execution}] = n + 1
		return
	}
	k := counterKey{of: b.counted, tenant: call.Tenant}
	w := c.windows[k]
	if w == nil {
		c.sweep(now)
		w = &window{}
		c.windows[k] = w
	}
	w.add(durations[b.Per], now)
}

// sweep removes empty windows when there are twice as many windows as after the last
// sweep.
func (c *counters) sweep(now time.Time) {
	if c.windows == nil {
		c.windows = map[counterKey]*window{}
	}
	if len(c.windows) < 2*max(c.swept, 1000) {
		return
	}
	for k, w := range c.windows {
		if w.expire(durations[k.of.per], now); w.calls == 0 {
			delete(c.windows, k)
		}
	}
	c.swept = len(c.windows)
}

// execution returns the number of counted calls of an execution, and moves its counter
// to recent.
func (c *counters) execution(b *budget, call *Call) int {
	k := counterKey{b.counted, call.Tenant, call.Execution}
	n, ok := c.recent[k]
	if ok {
		return n
	}
	n = c.older[k]
	if c.recent == nil || len(c.recent) >= maxExecutions {
		c.recent, c.older = map[counterKey]int{}, c.recent
	}
	c.recent[k] = n
	return n
}
