package execution

import (
	"slices"
	"sync"
	"time"

	"github.com/sandpiper-mcp/sandpiper/internal/fault"
	"github.com/sandpiper-mcp/sandpiper/internal/store/tenant"
)

// keptBytes bounds what the ended executions kept for Attach hold in all.
const keptBytes = 32 << 20

// book knows the executions that run and, for a short while, those that ended.
// What it holds is bounded in number and bytes; age is looked at whenever
// anything is asked of it.
type book struct {
	most   int
	keep   time.Duration
	mu     sync.Mutex
	closed bool
	runs   map[string]entry // by execution id
	ended  []record         // oldest first
	bytes  int              // held by ended
	counts map[string]int64
	live   int
}

type entry struct {
	owner tenant.ID
	run   *run
}

// record is one ended execution.
type record struct {
	id      string
	until   time.Time // it is worth keeping
	awaited bool      // it ended parked: nobody has its result, and somebody was promised it
	bytes   int
}

// keepParked is how long an execution is kept that ended while it was parked, since a
// question of it was answered elsewhere.
const keepParked = 24 * time.Hour

func newBook(most int, keep time.Duration) *book {
	return &book{most: most, keep: keep, runs: make(map[string]entry), counts: make(map[string]int64)}
}

// begin enters an execution and counts it as busy; false once the book closed.
func (b *book) begin(owner tenant.ID, x *run, busy *sync.WaitGroup) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.closed {
		return false
	}
	busy.Add(1)
	b.drop(func(r record) bool { return r.id == x.id }) // it may have ended before
	b.runs[x.id] = entry{owner, x}
	b.live++
	return true
}

// end notes that x ended and drops whatever is no longer worth keeping.
func (b *book) end(x *run) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.live--
	if x.unlisted {
		delete(b.runs, x.id)
		return
	}
	b.counts[status(x)]++
	r := record{id: x.id, until: time.Now().Add(b.keep), awaited: x.parked(), bytes: x.size()}
	if r.awaited {
		r.until = time.Now().Add(max(b.keep, keepParked))
	}
	b.ended = append(b.ended, r)
	b.bytes += r.bytes
	b.expire()
}

// status is the word under which x is counted.
func status(x *run) string {
	if x.err != nil {
		return "not_run"
	}
	return string(x.result.Status)
}

// expire drops ended executions until the bounds are kept: the oldest first, and
// those last that somebody was promised.
func (b *book) expire() {
	now := time.Now()
	b.drop(func(r record) bool { return !now.Before(r.until) })
	for len(b.ended) > 0 && (len(b.ended) > b.most || b.bytes > keptBytes) {
		oldest := max(0, slices.IndexFunc(b.ended, func(r record) bool { return !r.awaited }))
		id := b.ended[oldest].id
		b.drop(func(r record) bool { return r.id == id })
	}
}

// drop forgets the ended executions that are meant.
func (b *book) drop(meant func(record) bool) {
	b.ended = slices.DeleteFunc(b.ended, func(r record) bool {
		if meant(r) {
			b.bytes -= r.bytes
			delete(b.runs, r.id)
		}
		return meant(r)
	})
}

// find returns the execution of that owner and id, or nil.
func (b *book) find(owner tenant.ID, id string) *run {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.expire()
	if e, ok := b.runs[id]; ok && e.owner == owner {
		return e.run
	}
	return nil
}

// Bounds on executions that wait for an answer without anybody waiting for them.
const (
	maxParked      = 64
	maxParkedOfOne = 8 // tenant
)

// park lets x outlive whoever waits for it.
func (b *book) park(x *run) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	owner, all, own := b.runs[x.id].owner, 0, 0
	for _, e := range b.runs {
		if e.run.parked() && e.run != x {
			all++
			if e.owner == owner {
				own++
			}
		}
	}
	if b.closed || all >= maxParked || own >= maxParkedOfOne {
		return fault.New(fault.Exhausted, "%d executions wait for answers already, and no more may", all).
			WithHint("answer one of them with resume_execution")
	}
	x.park()
	return nil
}

// close lets no more executions begin, and returns those that nobody waits for.
func (b *book) close() (parked []*run) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.closed = true
	for _, e := range b.runs {
		if e.run.parked() {
			parked = append(parked, e.run)
		}
	}
	return parked
}

// Stats counts executions since the runner was made.
type Stats struct {
	Running int              `json:"running"` // begun and not ended: those that wait for a place, too
	Waiting int              `json:"waiting"` // for a place, of Running
	Live    int              `json:"living"`  // interpreters of sessions
	Ended   map[string]int64 `json:"ended"`   // by status; "not_run" for those refused by the queue or without a sandbox
}

// Stats returns the counts of this moment.
func (r *Runner) Stats() Stats {
	b := r.book
	b.mu.Lock()
	defer b.mu.Unlock()
	s := Stats{Running: b.live, Waiting: r.cfg.Queue.Load().Waiting, Live: r.living.count(), Ended: make(map[string]int64, len(b.counts))}
	for k, n := range b.counts {
		s.Ended[k] = n
	}
	return s
}
