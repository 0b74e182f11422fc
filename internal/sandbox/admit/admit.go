// Package admit is the door in front of a sandbox backend: a bounded, fair
// queue that decides how many executions run at once and who is next.
//
// An owner is whoever executions are counted for, in practice a tenant. A free
// slot goes to the waiting owner that has fewest executions running, of several to
// the one that was served least recently; within one owner the order is that of
// arrival. Where an owner has a bound of its own, the last free slot is only for one
// that runs nothing, so that no two owners can hold all. Callers that wait are told
// when they are expected to start, and those that cannot wait when to come back. A
// Queue is safe for concurrent use. It starts no goroutine and knows nothing of what
// runs.
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
	PerOwner   int           // executions at once of one owner; 0 means Concurrent, and no slot is kept for others
	Queued     int           // executions that wait; 0 means 256, negative means none
	Wait       time.Duration // longest wait; 0 means 30 s
}

// concurrent is Config.Concurrent where that is 0.
const concurrent = 8

// SharedPerOwner is a PerOwner for several owners: three quarters of all.
func (c Config) SharedPerOwner() int {
	n := c.Concurrent
	if n <= 0 {
		n = concurrent
	}
	return max(1, n*3/4)
}

func (c Config) withDefaults() Config {
	if c.Concurrent <= 0 {
		c.Concurrent = concurrent
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

// waiter is one call of Acquire that could not be admitted at once.
type waiter struct {
	owner  *owner
	place  *list.Element // in owner.waiting; nil once decided
	answer chan error    // capacity 1: nil is an admission
	start  time.Duration // of an admitted one, since Queue.epoch
}

// Position is where a caller of Acquire stands in the queue.
type Position struct {
	Ahead int           // executions that are expected to start before
	Start time.Duration // expected time to the start
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

// Acquire waits until the owner may run one more execution. The caller calls
// leave when that has ended; further calls of leave do nothing. The error is
// context.Cause(ctx) if ctx ended, else Exhausted with the time after which
// another try is worth it. While it waits, waits is told its place from time to
// time; nil means that nobody wants to know.
func (q *Queue) Acquire(ctx context.Context, owner string, waits func(Position)) (leave func(), err error) {
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	w, err := q.join(owner)
	if err != nil {
		return nil, err
	}
	if err := q.await(ctx, w, waits); err != nil {
		return nil, err
	}
	return q.leaver(w), nil
}

// join admits a newcomer at once or puts it in line.
func (q *Queue) join(name string) (*waiter, error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if !q.free(name) && q.waiting >= q.cfg.Queued && !q.displaceFor(name) {
		return nil, q.full(name)
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
// waiting for a slot that is free for its owner.
func (q *Queue) free(name string) bool {
	running := 0
	if o := q.owners[name]; o != nil {
		running = o.running
	}
	return q.allows(running)
}

// allows reports whether an owner that runs so many may run one more.
func (q *Queue) allows(running int) bool {
	last := q.cfg.PerOwner < q.cfg.Concurrent && q.running == q.cfg.Concurrent-1
	return q.running < q.cfg.Concurrent && running < q.cfg.PerOwner && (running == 0 || !last)
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
	last.answer <- q.full(victim.name)
	return true
}

// tellAfter is how long a caller waits before it is told its place, and tellEvery
// how often it is told again.
const (
	tellAfter = time.Second
	tellEvery = 2 * time.Second
)

// await blocks until w is decided, its context ends or its time is up.
func (q *Queue) await(ctx context.Context, w *waiter, waits func(Position)) error {
	select {
	case err := <-w.answer: // the usual case costs no timer
		return err
	default:
	}
	limit := time.NewTimer(q.cfg.Wait)
	defer limit.Stop()
	tell := time.NewTimer(tellAfter)
	defer tell.Stop()
	for {
		select {
		case err := <-w.answer:
			return err
		case <-ctx.Done():
			return q.abandon(w, context.Cause(ctx))
		case <-limit.C:
			return q.abandon(w, nil)
		case <-tell.C:
			tell.Reset(tellEvery)
			if p, waiting := q.place(w); waiting && waits != nil {
				waits(p)
			}
		}
	}
}

// place is where w stands; waiting is false once it is decided.
func (q *Queue) place(w *waiter) (p Position, waiting bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if w.place == nil {
		return p, false
	}
	n := 1
	for e := w.place.Prev(); e != nil; e = e.Prev() {
		n++
	}
	ahead, start := q.expect(w.owner.name, n)
	return Position{ahead, start}, true
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
	return q.exhausted(w.owner.name, "no slot became free within %v", q.cfg.Wait)
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

// next is the owner that a free slot goes to; nil if there is none.
func (q *Queue) next() (o *owner) {
	for e := q.turn.Front(); e != nil; e = e.Next() {
		if one := e.Value.(*owner); q.allows(one.running) && (o == nil || one.running < o.running) {
			o = one
		}
	}
	return o
}

// admit hands out free slots.
func (q *Queue) admit() {
	for o := q.next(); o != nil; o = q.next() {
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
func (q *Queue) full(owner string) error {
	return q.exhausted(owner, "%d executions run and %d wait", q.running, q.waiting)
}

func (q *Queue) exhausted(owner, format string, args ...any) error {
	n := 1
	if o := q.owners[owner]; o != nil {
		n += o.waiting.Len()
	}
	_, start := q.expect(owner, n)
	return fault.New(fault.Exhausted, "Sandpiper is busy: %s; try again in %s", fmt.Sprintf(format, args...), FormatSeconds(start))
}

// expect estimates when the nth waiter of an owner starts, and how many start
// before. How long one execution takes is learned from those that ended, but never
// below the age of those that run: a queue stuck behind long runs must not promise
// a second.
func (q *Queue) expect(name string, n int) (ahead int, start time.Duration) {
	each := q.mean
	if q.running > 0 {
		age := time.Since(q.epoch) - q.starts/time.Duration(q.running)
		each = max(each, age)
	}
	ahead = n - 1
	if o := q.owners[name]; o != nil && o.running >= q.cfg.PerOwner { // it waits for its own executions only
		return ahead, each * time.Duration(n) / time.Duration(q.cfg.PerOwner)
	}
	for _, o := range q.owners {
		if o.name != name && o.running < q.cfg.PerOwner {
			ahead += min(o.waiting.Len(), n)
		}
	}
	return ahead, each * time.Duration(ahead+1) / time.Duration(q.cfg.Concurrent)
}

// FormatSeconds writes d for a reader: whole seconds, at least 1, at most 5 minutes.
func FormatSeconds(d time.Duration) string {
	n := int(math.Ceil(d.Seconds()))
	if n = min(max(n, 1), 300); n > 1 {
		return fmt.Sprintf("%d seconds", n)
	}
	return "1 second"
}
