// Package admit is the door in front of a sandbox backend: a bounded, fair
// queue that decides how many executions run at once and who is next.
//
// An owner is whoever executions are counted for, in practice a tenant. Free
// places go round the owners that wait, one each; within one owner the order is
// that of arrival. Who cannot wait is told when to come back. A Queue is safe
// for concurrent use. It starts no goroutine and knows nothing of what runs.
package admit

import (
	"container/list"
	"context"
	"fmt"
	"math"
	"sync"
	"time"

	"github.com/sandpiper-mcp/sandpiper/internal/fault"
)

// Config of a Queue.
type Config struct {
	Concurrent int           // executions at once in all; 0 means 8
	PerOwner   int           // executions at once of one owner; 0 means no bound but Concurrent
	Queued     int           // executions that wait; 0 means 256, negative means none
	Wait       time.Duration // longest wait; 0 means 30 s
}

func (c Config) withDefaults() Config {
	if c.Concurrent <= 0 {
		c.Concurrent = 8
	}
	if c.PerOwner <= 0 || c.PerOwner > c.Concurrent {
		c.PerOwner = c.Concurrent
	}
	if c.Queued == 0 {
		c.Queued = 256
	}
	if c.Wait <= 0 {
		c.Wait = 30 * time.Second
	}
	return c
}

// Queue admits executions.
type Queue struct {
	cfg   Config
	epoch time.Time

	mu      sync.Mutex
	owners  map[string]*owner // those that run or wait
	turn    *list.List        // *owner: waiting and allowed to run one more, next first
	running int
	waiting int
	starts  time.Duration // sum over the running of (start - epoch)
	mean    time.Duration // moving average of how long an execution held its place
}

// owner is one party's share of the queue.
type owner struct {
	name    string
	running int
	waiting *list.List    // *waiter, first come first
	turn    *list.Element // in Queue.turn, or nil
}

// waiter is one call of Enter that could not be admitted at once.
type waiter struct {
	owner  *owner
	place  *list.Element // in owner.waiting; nil once decided
	answer chan error    // capacity 1: nil is an admission
	start  time.Duration // of an admitted one, since Queue.epoch
}

// Load is what a queue holds at one moment.
type Load struct {
	Running int
	Waiting int
}

// New returns an empty queue.
func New(cfg Config) *Queue {
	return &Queue{
		cfg:    cfg.withDefaults(),
		epoch:  time.Now(),
		owners: make(map[string]*owner),
		turn:   list.New(),
	}
}

// Load returns how many run and wait now.
func (q *Queue) Load() Load {
	q.mu.Lock()
	defer q.mu.Unlock()
	return Load{Running: q.running, Waiting: q.waiting}
}

// Enter waits until the owner may run one more execution. The caller calls
// leave when that has ended; further calls of leave do nothing. The error is
// context.Cause(ctx) if ctx ended, else Exhausted with the time after which
// another try is worth it.
func (q *Queue) Enter(ctx context.Context, owner string) (leave func(), err error) {
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	w, err := q.join(owner)
	if err != nil {
		return nil, err
	}
	if err := q.await(ctx, w); err != nil {
		return nil, err
	}
	return q.leaver(w), nil
}

// join admits a newcomer at once or puts it in line.
func (q *Queue) join(name string) (*waiter, error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if !q.free(name) && q.waiting >= q.cfg.Queued && !q.displaceFor(name) {
		return nil, q.full()
	}
	o := q.owners[name]
	if o == nil {
		o = &owner{name: name, waiting: list.New()}
		q.owners[name] = o
	}
	w := &waiter{owner: o, answer: make(chan error, 1)}
	w.place = o.waiting.PushBack(w)
	q.waiting++
	q.line(o)
	q.admit()
	return w, nil
}

// free reports whether a newcomer would be admitted at once. Nobody can be
// waiting for a place that is free, except behind its own owner's bound.
func (q *Queue) free(name string) bool {
	o := q.owners[name]
	return q.running < q.cfg.Concurrent && (o == nil || o.running < q.cfg.PerOwner)
}

// displaceFor makes room in a full queue by sending away the newest waiter of
// the owner that has most, if that is fairer than sending the newcomer away.
// Without it one owner's flood would close the queue to all others.
func (q *Queue) displaceFor(name string) bool {
	most := 1
	if o := q.owners[name]; o != nil {
		most = o.waiting.Len() + 1
	}
	var victim *owner
	for _, o := range q.owners {
		n := o.waiting.Len()
		if n > most || n == most && victim != nil && o.name < victim.name {
			most, victim = n, o
		}
	}
	if victim == nil {
		return false
	}
	last := victim.waiting.Back().Value.(*waiter)
	q.remove(last)
	q.forget(victim)
	last.answer <- q.full()
	return true
}

// await blocks until w is decided, its context ends or its time is up.
func (q *Queue) await(ctx context.Context, w *waiter) error {
	select {
	case err := <-w.answer: // the usual case costs no timer
		return err
	default:
	}
	limit := time.NewTimer(q.cfg.Wait)
	defer limit.Stop()
	select {
	case err := <-w.answer:
		return err
	case <-ctx.Done():
		return q.abandon(w, context.Cause(ctx))
	case <-limit.C:
		return q.abandon(w, nil)
	}
}

// abandon takes w out of line; cause nil means that its time was up. If w was
// decided in the meantime, an admission that came too late is handed on.
func (q *Queue) abandon(w *waiter, cause error) error {
	q.mu.Lock()
	defer q.mu.Unlock()
	if w.place == nil {
		err := <-w.answer
		if err != nil || cause == nil {
			return err
		}
		q.release(w)
		return cause
	}
	q.remove(w)
	q.forget(w.owner)
	if cause != nil {
		return cause
	}
	return q.exhausted("no place became free within %v", q.cfg.Wait)
}

// leaver returns the function that gives w's place back.
func (q *Queue) leaver(w *waiter) func() {
	return sync.OnceFunc(func() {
		q.mu.Lock()
		defer q.mu.Unlock()
		q.learn(time.Since(q.epoch) - w.start)
		q.release(w)
	})
}

// admit hands out free places, one per owner in turn.
func (q *Queue) admit() {
	for q.running < q.cfg.Concurrent && q.turn.Len() > 0 {
		o := q.turn.Front().Value.(*owner)
		w := o.waiting.Front().Value.(*waiter)
		q.remove(w)
		q.unline(o)
		q.running++
		o.running++
		w.start = time.Since(q.epoch)
		q.starts += w.start
		q.line(o) // to the back
		w.answer <- nil
	}
}

// release gives back the place of w.
func (q *Queue) release(w *waiter) {
	o := w.owner
	q.starts -= w.start
	q.running--
	o.running--
	q.line(o)
	q.forget(o)
	q.admit()
}

// line gives o a turn if it waits and may run one more.
func (q *Queue) line(o *owner) {
	if o.turn == nil && o.waiting.Len() > 0 && o.running < q.cfg.PerOwner {
		o.turn = q.turn.PushBack(o)
	}
}

func (q *Queue) unline(o *owner) {
	if o.turn != nil {
		q.turn.Remove(o.turn)
		o.turn = nil
	}
}

// remove takes w out of its owner's line.
func (q *Queue) remove(w *waiter) {
	w.owner.waiting.Remove(w.place)
	w.place = nil
	q.waiting--
	if w.owner.waiting.Len() == 0 {
		q.unline(w.owner)
	}
}

// forget drops an owner that neither runs nor waits, so that the map does not
// grow with everybody who ever came.
func (q *Queue) forget(o *owner) {
	if o.running == 0 && o.waiting.Len() == 0 {
		delete(q.owners, o.name)
	}
}

// learn takes one finished execution into the moving average.
func (q *Queue) learn(took time.Duration) {
	if q.mean == 0 {
		q.mean = took
		return
	}
	q.mean += (took - q.mean) / 8
}

// full is the refusal of a queue that is at its bound.
func (q *Queue) full() error {
	return q.exhausted("%d executions run and %d wait", q.running, q.waiting)
}

func (q *Queue) exhausted(format string, args ...any) error {
	return fault.New(fault.Exhausted, "Sandpiper is busy: %s; try again in %s",
		fmt.Sprintf(format, args...), seconds(q.estimate()))
}

// estimate is how long the line takes as it is now. How long one execution
// takes is learned from those that ended, but never below the age of those that
// run: a queue stuck behind long runs must not promise a second.
func (q *Queue) estimate() time.Duration {
	each := q.mean
	if q.running > 0 {
		age := time.Since(q.epoch) - q.starts/time.Duration(q.running)
		each = max(each, age)
	}
	return each * time.Duration(q.waiting+1) / time.Duration(q.cfg.Concurrent)
}

// seconds writes d for a reader: whole seconds, at least 1, at most 5 minutes.
func seconds(d time.Duration) string {
	n := int(math.Ceil(d.Seconds()))
	if n = min(max(n, 1), 300); n > 1 {
		return fmt.Sprintf("%d seconds", n)
	}
	return "1 second"
}
