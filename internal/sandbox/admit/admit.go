// Package admit is the admission queue in front of a sandbox backend: bounded and
// fair, it decides how many executions run at once and which one starts next.
//
// An owner is the unit that executions are counted for, in practice a tenant. A
// free slot goes to the waiting owner with the fewest running executions; ties go
// to the owner served least recently. Within one owner, order is by arrival.
// Executions in the background get only slots that no other waiter could have, and
// one of nine if there are always others, so that all of them start in the end. If
// PerOwner is below Concurrent, the last free slot is reserved for an owner that
// runs nothing, so that no two owners can hold all slots. Waiting callers are
// notified of their expected start, and rejected callers of when to retry. A Queue
// is safe for concurrent use. It starts no goroutine and does not inspect what runs.
package admit

import (
	"container/list"
	"context"
	"sync"
	"time"
)

// Config of a Queue.
type Config struct {
	Concurrent int `key:"concurrency,restart" range:"1 4096" project:"lower"` // running executions in total; 0 means 8
	// running executions of one owner; 0 means Concurrent, without a reserved slot
	PerOwner int `key:"tenant_concurrency,tenant" range:"1 4096" project:"lower"`
	// Limit returns PerOwner for one owner; nil, or a result of 0, means PerOwner.
	Limit  func(owner string) int
	Queued int           // waiting executions; 0 means 256, negative means none
	Wait   time.Duration // longest wait; 0 means 30 s
}

// defaultConcurrent replaces a zero Config.Concurrent.
const defaultConcurrent = 8

// SharedPerOwner returns a PerOwner for a queue with several owners: three
// quarters of Concurrent.
func (c Config) SharedPerOwner() int {
	n := c.Concurrent
	if n <= 0 {
		n = defaultConcurrent
	}
	return max(1, n*3/4)
}

// WithDefaults returns c with its zero fields set.
func (c Config) WithDefaults() Config {
	if c.Concurrent <= 0 {
		c.Concurrent = defaultConcurrent
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
	mu sync.Mutex
	slots
}

// slots is the state of a Queue, whose lock the caller of its methods holds.
type slots struct {
	cfg   Config
	epoch time.Time

	owners  map[string]*owner   // with running or waiting executions
	turns   [classes]*list.List // *owner: waiting and below PerOwner, next first
	running int
	waiting int
	starts  time.Duration // sum of (start - epoch) of the running executions
	passed  int           // slots since the last one of the background that it could have had
	mean    time.Duration // moving average of the time that an execution held its slot
}

// owner is the state of one owner.
type owner struct {
	name    string
	most    int // running executions
	running int
	lines   [classes]line
}

// class is the priority of a waiter: see next.
type class int

const (
	interactive class = iota
	background
	classes
)

// line has the waiters of one owner and class.
type line struct {
	waiting *list.List    // *waiter, oldest first
	turn    *list.Element // in Queue.turns, or nil
}

// waiters returns the number of waiters of a class and those before it.
func (o *owner) waiters(c class) (n int) {
	for _, l := range o.lines[:c+1] {
		n += l.waiting.Len()
	}
	return n
}

// waiter is one call of Acquire or AcquireBackground.
type waiter struct {
	owner  *owner
	class  class
	entry  *list.Element // in its line; nil once decided
	result chan error    // capacity 1: nil means admitted
	start  time.Duration // of an admitted waiter, since Queue.epoch
}

// Load is the state of a queue at one moment.
type Load struct {
	Running int
	Waiting int
}

// New returns an empty queue.
func New(cfg Config) *Queue {
	return &Queue{slots: slots{
		cfg:    cfg.WithDefaults(),
		epoch:  time.Now(),
		owners: make(map[string]*owner),
		turns:  [classes]*list.List{list.New(), list.New()},
	}}
}

// Load returns the numbers of running and waiting executions.
func (q *Queue) Load() Load {
	q.mu.Lock()
	defer q.mu.Unlock()
	return Load{Running: q.running, Waiting: q.waiting}
}

// Loads returns the Load of each owner with running or waiting executions.
func (q *Queue) Loads() map[string]Load {
	q.mu.Lock()
	defer q.mu.Unlock()
	all := make(map[string]Load, len(q.owners))
	for name, o := range q.owners {
		all[name] = Load{Running: o.running, Waiting: o.waiters(background)}
	}
	return all
}

// Acquire waits until the owner may run one more execution. The caller calls
// release when that has ended; further calls of release do nothing. The error is
// context.Cause(ctx) if ctx ended, else Exhausted with the time to wait before the
// next attempt. While the caller waits, onWait receives its position from time to
// time; nil means no notification.
func (q *Queue) Acquire(ctx context.Context, owner string, onWait func(Position)) (release func(), err error) {
	return q.acquire(ctx, owner, interactive, onWait)
}

// AcquireBackground is Acquire for an execution without a waiting caller: it gets a slot while no
// caller of Acquire could have it, or after 8 of them, and displaces no one from a full queue.
func (q *Queue) AcquireBackground(ctx context.Context, owner string, onWait func(Position)) (release func(), err error) {
	return q.acquire(ctx, owner, background, onWait)
}

func (q *Queue) acquire(ctx context.Context, owner string, c class, onWait func(Position)) (release func(), err error) {
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	w, err := q.join(owner, q.limit(owner), c)
	if err != nil {
		return nil, err
	}
	if err := q.await(ctx, w, onWait); err != nil {
		return nil, err
	}
	return q.releaser(w), nil
}

// limit returns the maximum of running executions of an owner.
func (q *Queue) limit(owner string) int {
	most := 0
	if q.cfg.Limit != nil {
		most = min(q.cfg.Limit(owner), q.cfg.Concurrent)
	}
	if most <= 0 {
		return q.cfg.PerOwner
	}
	return most
}

// join admits a new waiter at once or enqueues it.
func (q *Queue) join(name string, most int, c class) (*waiter, error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if !q.free(name, most) && q.waiting >= q.cfg.Queued && (c == background || !q.displaceFor(name)) {
		return nil, q.full(name, c)
	}
	o := q.owners[name]
	if o == nil {
		o = &owner{name: name, lines: [classes]line{{waiting: list.New()}, {waiting: list.New()}}}
		q.owners[name] = o
	}
	o.most = most
	w := &waiter{owner: o, class: c, result: make(chan error, 1)}
	w.entry = o.lines[c].waiting.PushBack(w)
	q.waiting++
	q.enqueue(o, c)
	q.admit()
	return w, nil
}

// free reports whether a new waiter would be admitted at once. Then no other
// waiter of that owner exists, since admit would have admitted it.
func (q *slots) free(name string, most int) bool {
	running := 0
	if o := q.owners[name]; o != nil {
		running = o.running
	}
	return q.allows(running, most)
}

// allows reports whether an owner with so many running executions, and at most so many, may run
// one more.
func (q *slots) allows(running, most int) bool {
	last := q.cfg.PerOwner < q.cfg.Concurrent && q.running == q.cfg.Concurrent-1
	return q.running < q.cfg.Concurrent && running < most && (running == 0 || !last)
}

// displaceFor makes room in a full queue: it rejects the newest waiter of the
// owner with the most waiters, one in the background first, if that is fairer than rejecting the new one.
// Without it one owner could fill the queue and block all others.
func (q *Queue) displaceFor(name string) bool {
	most := 1
	if o := q.owners[name]; o != nil {
		most = o.waiters(background) + 1
	}
	var victim *owner
	for _, o := range q.owners {
		n := o.waiters(background)
		if n > most || n == most && victim != nil && o.name < victim.name {
			most, victim = n, o
		}
	}
	if victim == nil {
		return false
	}
	from := victim.lines[background].waiting
	if from.Len() == 0 {
		from = victim.lines[interactive].waiting
	}
	last := from.Back().Value.(*waiter)
	q.remove(last)
	q.forget(victim)
	last.result <- q.full(victim.name, last.class)
	return true
}

// notifyAfter is the wait before the first notification of a position, and
// notifyEvery the interval of later ones.
const (
	notifyAfter = time.Second
	notifyEvery = 2 * time.Second
)

// await blocks until w is decided, ctx ends or Config.Wait has passed.
func (q *Queue) await(ctx context.Context, w *waiter, onWait func(Position)) error {
	select {
	case err := <-w.result: // the usual case costs no timer
		return err
	default:
	}
	limit := time.NewTimer(q.cfg.Wait)
	defer limit.Stop()
	notify := time.NewTimer(notifyAfter)
	defer notify.Stop()
	for {
		select {
		case err := <-w.result:
			return err
		case <-ctx.Done():
			return q.abandon(w, context.Cause(ctx))
		case <-limit.C:
			return q.abandon(w, nil)
		case <-notify.C:
			notify.Reset(notifyEvery)
			if p, waiting := q.position(w); waiting && onWait != nil {
				onWait(p)
			}
		}
	}
}

// abandon removes w; a nil cause means that Config.Wait has passed. If w was
// admitted concurrently, its slot is released.
func (q *Queue) abandon(w *waiter, cause error) error {
	q.mu.Lock()
	defer q.mu.Unlock()
	if w.entry == nil {
		err := <-w.result
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
	return q.exhausted(w.owner.name, w.class, "no slot became free within %v", q.cfg.Wait)
}

// releaser returns the function that releases the slot of w.
func (q *Queue) releaser(w *waiter) func() {
	return sync.OnceFunc(func() {
		q.mu.Lock()
		defer q.mu.Unlock()
		q.recordDuration(time.Since(q.epoch) - w.start)
		q.release(w)
	})
}

// release frees the slot of w.
func (q *slots) release(w *waiter) {
	o := w.owner
	q.starts -= w.start
	q.running--
	o.running--
	for c := range classes {
		q.enqueue(o, c)
	}
	q.forget(o)
	q.admit()
}

// remove removes w from its line.
func (q *slots) remove(w *waiter) {
	waiting := w.owner.lines[w.class].waiting
	waiting.Remove(w.entry)
	w.entry = nil
	q.waiting--
	if waiting.Len() == 0 {
		q.dequeue(w.owner, w.class)
	}
}

// forget deletes an owner with no running or waiting executions, so that the map
// does not grow with every owner ever seen.
func (q *slots) forget(o *owner) {
	if o.running == 0 && o.waiters(background) == 0 {
		delete(q.owners, o.name)
	}
}
