package policy

import (
	"time"

	"github.com/sandpiper-mcp/sandpiper/internal/store/tenant"
)

// counters are what budgets have counted. Those of a time go when it is over; of
// executions, whose end nobody tells, the ones that were not touched the longest.
type counters struct {
	windows map[counted]*window
	swept   int // how many windows were left when last they were looked through

	recent, older map[counted]int // of executions
}

// counted names one counter.
type counted struct {
	budget    *budget
	tenant    tenant.ID
	execution string
}

// mostExecutions are counted, up to twice as many. An execution would have to see
// as many others call its tools before its next call, to begin anew.
const mostExecutions = 1 << 15

// grain is into how many steps a window is divided: calls of one step count as if
// all were the last of it. So a window of a million calls is as small as one of a
// thousand, and a place in it comes free late rather than early.
const grain = 1000

// window is when the calls were made that still count, in order.
type window struct {
	steps []step
	calls int
}

type step struct {
	begin, last time.Time
	calls       int
}

// drop forgets what no longer counts.
func (w *window) drop(length time.Duration, now time.Time) {
	gone := 0
	for gone < len(w.steps) && !w.steps[gone].last.Add(length).After(now) {
		w.calls -= w.steps[gone].calls
		gone++
	}
	w.steps = append(w.steps[:0], w.steps[gone:]...)
}

func (w *window) add(length time.Duration, now time.Time) {
	w.calls++
	if n := len(w.steps); n > 0 && now.Sub(w.steps[n-1].begin) < length/grain {
		w.steps[n-1].last = now
		w.steps[n-1].calls++
		return
	}
	w.steps = append(w.steps, step{now, now, 1})
}

// left is how many calls a budget has room for, and when it has for one if there is
// none now.
func (c *counters) left(b *budget, of *Call, now time.Time) (int, time.Time) {
	if b.Per == Execution {
		return max(0, b.Calls-c.execution(b, of)), time.Time{}
	}
	w := c.windows[counted{budget: b, tenant: of.Tenant}]
	if w == nil {
		return b.Calls, now
	}
	w.drop(lengths[b.Per], now)
	if w.calls < b.Calls {
		return b.Calls - w.calls, now
	}
	return 0, w.steps[0].last.Add(lengths[b.Per])
}

func (c *counters) take(b *budget, of *Call, now time.Time) {
	if b.Per == Execution {
		n := c.execution(b, of)
		c.recent[counted{b, of.Tenant, of.Execution}] = n + 1
		return
	}
	k := counted{budget: b, tenant: of.Tenant}
	w := c.windows[k]
	if w == nil {
		c.sweep(now)
		w = &window{}
		c.windows[k] = w
	}
	w.add(lengths[b.Per], now)
}

// sweep makes room for another window, and looks which are over whenever there are
// twice as many as were left the last time.
func (c *counters) sweep(now time.Time) {
	if c.windows == nil {
		c.windows = map[counted]*window{}
	}
	if len(c.windows) < 2*max(c.swept, 1000) {
		return
	}
	for k, w := range c.windows {
		if w.drop(lengths[k.budget.Per], now); w.calls == 0 {
			delete(c.windows, k)
		}
	}
	c.swept = len(c.windows)
}

// execution is how many calls of one execution were counted. It has them among the
// recent ones from then on.
func (c *counters) execution(b *budget, of *Call) int {
	k := counted{b, of.Tenant, of.Execution}
	n, ok := c.recent[k]
	if ok {
		return n
	}
	n = c.older[k]
	if c.recent == nil || len(c.recent) >= mostExecutions {
		c.recent, c.older = map[counted]int{}, c.recent
	}
	c.recent[k] = n
	return n
}
