package admit

import (
	"fmt"
	"math"
	"time"

	"github.com/sandpiper-mcp/sandpiper/internal/fault"
)

// Position is the place of a waiting caller in the queue.
type Position struct {
	Ahead int           // executions expected to start earlier
	Start time.Duration // expected time until the start
}

// position returns the position of w; waiting is false once w is decided.
func (q *Queue) position(w *waiter) (p Position, waiting bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if w.entry == nil {
		return p, false
	}
	n := 1
	for e := w.entry.Prev(); e != nil; e = e.Prev() {
		n++
	}
	if w.class == background {
		n += w.owner.lines[interactive].waiting.Len()
	}
	ahead, start := q.expect(w.owner.name, w.class, n)
	return Position{ahead, start}, true
}

// recordDuration updates the moving average.
func (q *slots) recordDuration(took time.Duration) {
	if q.mean == 0 {
		q.mean = took
		return
	}
	q.mean += (took - q.mean) / 8
}

// full returns the error of a full queue.
func (q *slots) full(owner string, c class) error {
	return q.exhausted(owner, c, "%d executions are running and %d are waiting", q.running, q.waiting)
}

func (q *slots) exhausted(owner string, c class, format string, args ...any) error {
	n := 1
	if o := q.owners[owner]; o != nil {
		n += o.waiters(c)
	}
	_, start := q.expect(owner, c, n)
	return fault.New(fault.Exhausted, "Sandpiper is busy: %s; try again in %s", fmt.Sprintf(format, args...), FormatSeconds(start))
}

// expect estimates when the nth waiter of an owner, of class c, starts, and how many waiters
// start earlier. The duration of one execution is the average of the finished ones,
// but at least the mean age of the running ones: a queue behind long executions
// must not report an early start.
func (q *slots) expect(name string, c class, n int) (ahead int, start time.Duration) {
	each := q.mean
	if q.running > 0 {
		age := time.Since(q.epoch) - q.starts/time.Duration(q.running)
		each = max(each, age)
	}
	ahead = n - 1
	if o := q.owners[name]; o != nil && o.running >= o.most { // blocked only by its own executions
		return ahead, each * time.Duration(n) / time.Duration(o.most)
	}
	for _, o := range q.owners {
		if o.name != name && o.running < o.most {
			ahead += min(o.waiters(c), n)
		}
	}
	return ahead, each * time.Duration(ahead+1) / time.Duration(q.cfg.Concurrent)
}

// FormatSeconds formats d as whole seconds, at least 1 and at most 300.
func FormatSeconds(d time.Duration) string {
	n := int(math.Ceil(d.Seconds()))
	if n = min(max(n, 1), 300); n > 1 {
		return fmt.Sprintf("%d seconds", n)
	}
	return "1 second"
}
