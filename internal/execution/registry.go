package execution

import (
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/sandpiper-mcp/sandpiper/internal/fault"
	"github.com/sandpiper-mcp/sandpiper/internal/store/tenant"
)

// maxRetainedBytes limits the total size of the ended executions retained for Attach.
const maxRetainedBytes = 32 << 20

// registry contains the running executions and, for a short while, those that have
// ended. It is bounded in number and bytes; expired entries are removed on each access.
type registry struct {
	maxEnded  int
	retainFor time.Duration
	mu        sync.Mutex
	closed    bool
	closing   chan struct{}    // closed by close
	runs      map[string]entry // by execution id
	ended     []endedRun       // oldest first
	bytes     int              // held by ended
	counts    map[string]int64
	running   int
}

type entry struct {
	owner tenant.ID
	run   *run
}

// endedRun is one ended execution.
type endedRun struct {
	id        string
	expires   time.Time // when it is dropped
	suspended bool      // it ended while suspended: its result was not delivered
	bytes     int
}

// retainSuspended is how long an execution is retained that ended while suspended,
// after its question was answered in another way.
const retainSuspended = 24 * time.Hour

func newRegistry(most int, keep time.Duration) *registry {
	return &registry{maxEnded: most, retainFor: keep, closing: make(chan struct{}), runs: make(map[string]entry),
		counts: make(map[string]int64)}
}

// register adds an execution and counts it as busy; false once the registry is closed.
func (b *registry) register(owner tenant.ID, x *run, busy *sync.WaitGroup) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.closed {
		return false
	}
	busy.Add(1)
	if _, known := b.runs[x.id]; known { // a previous run of it has ended
		b.remove(func(r endedRun) bool { return r.id == x.id })
	}
	b.runs[x.id] = entry{owner, x}
	b.running++
	return true
}

// markEnded records that x has ended, and drops what exceeds the limits.
func (b *registry) markEnded(x *run) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.running--
	if x.internal {
		delete(b.runs, x.id)
		return
	}
	b.counts[statusOf(x)]++
	r := endedRun{id: x.id, expires: time.Now().Add(b.retainFor), suspended: x.suspended(), bytes: x.size()}
	if r.suspended {
		r.expires = time.Now().Add(max(b.retainFor, retainSuspended))
	}
	b.ended = append(b.ended, r)
	b.bytes += r.bytes
	b.expire()
}

// expire drops ended executions until the limits are met: the oldest first, and those
// last whose result was not delivered.
func (b *registry) expire() {
	now := time.Now()
	b.remove(func(r endedRun) bool { return !now.Before(r.expires) })
	for len(b.ended) > 0 && (len(b.ended) > b.maxEnded || b.bytes > maxRetainedBytes) {
		oldest := max(0, slices.IndexFunc(b.ended, func(r endedRun) bool { return !r.suspended }))
		b.drop(b.ended[oldest])
		b.ended = slices.Delete(b.ended, oldest, oldest+1)
	}
}

// remove drops the ended executions that match.
func (b *registry) remove(meant func(endedRun) bool) {
	b.ended = slices.DeleteFunc(b.ended, func(r endedRun) bool {
		if !meant(r) {
			return false
		}
		b.drop(r)
		return true
	})
}

// drop forgets the run of an entry of ended.
func (b *registry) drop(r endedRun) {
	b.bytes -= r.bytes
	delete(b.runs, r.id)
}

// find returns the execution of this owner and id, or nil.
func (b *registry) find(owner tenant.ID, id string) *run {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.expire()
	if e, ok := b.runs[id]; ok && e.owner == owner {
		return e.run
	}
	return nil
}

// Limits on suspended executions. Beyond maxSuspended, the process of the oldest one that can be
// continued from its record ends.
const (
	maxSuspended          = 64 // with a process
	maxSuspendedPerTenant = 8
)

// suspend marks x as suspended, within the limits.
func (b *registry) suspend(x *run) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	owner, own := b.runs[x.id].owner, 0
	var waiting []*run // with a process
	for _, e := range b.runs {
		stopped := e.run.stopped.Load()
		if e.run == x || !stopped && !e.run.suspended() {
			continue
		}
		if !stopped {
			waiting = append(waiting, e.run)
		}
		if e.owner == owner {
			own++
		}
	}
	if b.closed || own >= maxSuspendedPerTenant {
		return fault.New(fault.Exhausted, "%d executions are suspended already, which is the maximum", own).
			WithHint("answer one of them with resume_execution")
	}
	if len(waiting) >= maxSuspended {
		slices.SortFunc(waiting, func(a, b *run) int { return a.started.Compare(b.started) })
		i := slices.IndexFunc(waiting, (*run).canPark)
		if i < 0 {
			return fault.New(fault.Exhausted, "%d suspended executions of this server need their process, which is the maximum",
				len(waiting)).WithHint("try again later")
		}
		waiting[i].park()
	}
	x.suspend()
	return nil
}

// canPark reports whether a suspended execution can be continued without its process.
func (x *run) canPark() bool {
	return x.Request.SessionID == "" && x.background.Load() == nil && x.record.Stored() && !x.record.TooLarge()
}

// errParked is the cause that ends the process of a suspended execution.
var errParked = errors.New("the execution waits without a process")

// park ends the process of a suspended execution. Resume runs it again from its record.
func (x *run) park() {
	x.stopped.Store(true)
	x.delivered.Store(true) // there is no outcome yet
	x.cancel(errParked)
}

// close refuses new executions, and cancels the suspended ones.
func (b *registry) close(cause error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if !b.closed {
		b.closed = true
		close(b.closing)
	}
	for _, e := range b.runs {
		if e.run.suspended() {
			e.run.cancel(cause)
		}
	}
}

// cancel cancels the executions of tenants.
func (b *registry) cancel(cause error, of func(tenant.ID) bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, e := range b.runs {
		if of(e.owner) {
			e.run.cancel(cause)
		}
	}
}

// Suspended is an execution that is suspended, or that has ended while it was and whose result was not
// delivered.
type Suspended struct {
	ID      string
	Started time.Time
	Ended   bool
}

// Suspended lists the suspended executions of a tenant's session, or those without a session.
func (r *Runner) Suspended(owner tenant.ID, session string) (all []Suspended) {
	b := r.registry
	b.mu.Lock()
	defer b.mu.Unlock()
	b.expire()
	list := func(x *run, ended bool) {
		if b.runs[x.id].owner == owner && x.Request.SessionID == session && !x.internal {
			all = append(all, Suspended{x.id, x.started, ended})
		}
	}
	for _, e := range b.runs {
		if e.run.suspended() {
			list(e.run, false)
		}
	}
	for _, r := range b.ended {
		if x := b.runs[r.id].run; r.suspended && !x.delivered.Load() && !x.resumable {
			list(x, true)
		}
	}
	return all
}

// Stats counts executions since the runner was created.
type Stats struct {
	Running int              `json:"running"` // registered and not ended, including those that wait for a slot
	Waiting int              `json:"waiting"` // of Running, those that wait for a slot
	Live    int              `json:"live"`    // interpreters of sessions
	Ended   map[string]int64 `json:"ended"`   // by status; "not_run" for those that failed before the code ran
}

// Stats returns the current counts.
func (r *Runner) Stats() Stats {
	b := r.registry
	b.mu.Lock()
	defer b.mu.Unlock()
	s := Stats{Running: b.running, Waiting: r.cfg.Queue.Load().Waiting, Live: r.interpreters.Count(),
		Ended: make(map[string]int64, len(b.counts))}
	for k, n := range b.counts {
		s.Ended[k] = n
	}
	return s
}
