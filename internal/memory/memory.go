// Package memory divides the memory of the process among its tenants: a Budget counts the
// bytes that are held for each, and an owner of too many waits or is refused.
//
// Terms: an owner is the unit that bytes are counted for, in practice a tenant; a share is
// what one request holds; a turn is the right to process a large text, which takes as much
// processor time as memory.
//
// A request reserves its bytes before they are read, at once or as they arrive, waits a little if
// they do not fit, and is refused if they still do not: nothing has been done for it yet. What it
// needs later,
// for an answer, is not refused: Grow and Turn wait until there is room. One share of an owner
// at a time, the first that has no room in Grow, may exceed the limit until it is released, and
// its first turn is admitted in any case, so that there is always one that completes; the
// holder of a turn must not wait for anything else of the Budget. Free room goes to the owner that holds the fewest
// bytes, and the last of several
// turns to one that has none.
//
// Bytes are estimates of the caller. A Budget is safe for concurrent use; a nil Budget
// admits everything.
package memory

import (
	"context"
	"fmt"
	"math"
	"runtime"
	"runtime/debug"
	"slices"
	"sync"
	"time"

	"github.com/sandpiper-mcp/sandpiper/internal/fault"
)

// Small is the size of a text or request that is not counted.
const Small = 64 << 10

const (
	// PerOwner replaces a zero Config.PerOwner.
	PerOwner = 256 << 20
	// minShare is the number of bytes that an owner may hold although the others together use all of Config.Total.
	minShare = 1 << 20
	// peak is the number of bytes held at a time after which memory is returned to the kernel,
	// once they are released.
	peak = 32 << 20
	// idle is the time without such a number before that.
	idle = time.Second
)

// Config of a Budget.
type Config struct {
	Total    int64                    // bytes of all owners; 0 means half of the machine's memory
	PerOwner int64                    // bytes of one owner; 0 means 256 MiB
	Limit    func(owner string) int64 // PerOwner of one owner; nil, or a result of 0, means PerOwner
	Wait     time.Duration            // longest wait of Reserve; 0 means 5 s
	Turns    int                      // at a time; 0 means half of the processors, at least 1
	Free     func()                   // returns memory to the kernel; nil means debug.FreeOSMemory
	Busy     func(busy bool)          // called with true when bytes are held, but not many, and with false when this has ended; may be nil
}

// Budget counts bytes.
type Budget struct {
	cfg Config

	mu      sync.Mutex
	owners  map[string]*owner // that hold bytes or wait
	used    int64
	turns   int
	served  int64 // number of admissions
	peaked  bool  // more than peak bytes were held since memory was returned
	busy    bool  // the last argument of Config.Busy
	freeing *time.Timer
}

// owner is the state of one owner.
type owner struct {
	name   string
	limit  int64
	used   int64
	turns  int
	served int64  // number of the last admission
	over   *Share // may exceed the limit, since it had no room in Grow; nil: none
	lines  [kinds][]*waiter
}

// Share is the bytes that a request holds. A nil Share holds none. It is for one goroutine at a
// time, except Release.
type Share struct {
	budget *Budget
	owner  *owner

	bytes int64 // guarded by Budget.mu, as is ended
	ended bool

	answer int64 // of bytes, for an answer
}

// New returns a Budget of which nothing is used.
func New(cfg Config) *Budget {
	if cfg.PerOwner <= 0 {
		cfg.PerOwner = PerOwner
	}
	if cfg.Total <= 0 {
		cfg.Total = Machine() / 2
	}
	if cfg.Wait <= 0 {
		cfg.Wait = 5 * time.Second
	}
	if cfg.Turns <= 0 {
		cfg.Turns = max(1, runtime.GOMAXPROCS(0)/2)
	}
	if cfg.Free == nil {
		cfg.Free = debug.FreeOSMemory
	}
	return &Budget{cfg: cfg, owners: map[string]*owner{}}
}

// Used returns the bytes that are held for an owner, and for all.
func (b *Budget) Used(name string) (one, all int64) {
	if b == nil {
		return 0, 0
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if o := b.owners[name]; o != nil {
		one = o.used
	}
	return one, b.used
}

// Reserve returns a share of n bytes, for a request that is about to be read; its errors are
// those of Extend.
func (b *Budget) Reserve(ctx context.Context, owner string, n int64) (*Share, error) {
	s := b.Open(owner)
	if err := s.Extend(ctx, n); err != nil {
		return nil, err
	}
	return s, nil
}

// Extend adds n bytes to the share, for more of a request that is being read. If they do not
// fit it waits, at most Config.Wait. The error is context.Cause(ctx) if ctx has ended, else
// Exhausted with the time to wait before the next attempt, or Invalid if they never fit.
func (s *Share) Extend(ctx context.Context, n int64) error {
	if s == nil {
		return nil
	}
	b, name := s.budget, s.owner.name
	all := s.Bytes() + n
	if most := min(b.limit(name), max(b.cfg.Total, minShare)); all > most {
		return fault.New(fault.Invalid, "this request needs %s of memory, and all requests together may use %s", megabytes(all),
			megabytes(most)).
			WithHint("send less at once; the operator can raise limits.memory_mb")
	}
	ctx, cancel := context.WithTimeoutCause(ctx, b.cfg.Wait, errWait)
	defer cancel()
	_, err := b.acquire(ctx, name, reserve, n, s)
	if err == errWait {
		one, _ := b.Used(name)
		err = fault.New(fault.Exhausted, "the memory for requests is used up: yours hold %s of %s, and this one needs %s; try again "+
			"in %d s",
			megabytes(one), megabytes(b.limit(name)), megabytes(all), b.RetryAfter()).
			WithHint("send fewer large requests at a time; the operator can raise limits.memory_mb").WithQuota("memory_mb")
	}
	return err
}

// Bytes returns what the share holds.
func (s *Share) Bytes() int64 {
	if s == nil {
		return 0
	}
	s.budget.mu.Lock()
	defer s.budget.mu.Unlock()
	return s.bytes
}

// Shrink returns what the share holds above n bytes.
func (s *Share) Shrink(n int64) {
	if s == nil {
		return
	}
	b := s.budget
	b.mu.Lock()
	defer b.mu.Unlock()
	if more := s.bytes - n; more > 0 && !s.ended {
		s.bytes = n
		b.release(s.owner, more)
	}
}

// RetryAfter returns the seconds after which a refused request should be sent again.
func (b *Budget) RetryAfter() int { return max(1, int(math.Ceil(b.cfg.Wait.Seconds()))) }

// errWait is the cause of a context that ends at Config.Wait.
var errWait = fmt.Errorf("memory: no room within Config.Wait")

// Open returns a share without bytes, for work that has been admitted.
func (b *Budget) Open(name string) *Share {
	if b == nil {
		return nil
	}
	return &Share{budget: b, owner: &owner{name: name}}
}

type shareKey struct{}

// NewContext returns a context with the share that answers to its request are counted in.
func NewContext(ctx context.Context, s *Share) context.Context {
	return context.WithValue(ctx, shareKey{}, s)
}

// FromContext returns the share of a context; nil if it has none.
func FromContext(ctx context.Context) *Share {
	s, _ := ctx.Value(shareKey{}).(*Share)
	return s
}

// copies is how often an answer is in memory until it is sent: as it was received, decoded,
// inspected, recorded, encoded and in a frame.
const copies = 6

// Answer makes the share hold the bytes for one answer of n bytes and its copies, if it is not
// small. It may be called again when more is known of the size.
func (s *Share) Answer(ctx context.Context, n int64) error {
	if s == nil || n <= Small || copies*n <= s.answer {
		return nil
	}
	more := copies*n - s.answer
	s.answer = copies * n
	return s.Grow(ctx, more)
}

// Grow adds n bytes to the share, for an answer that is about to be read or copied. If they do
// not fit it waits; the error is context.Cause(ctx).
func (s *Share) Grow(ctx context.Context, n int64) error {
	if s == nil || n <= 0 {
		return nil
	}
	_, err := s.budget.acquire(ctx, s.owner.name, grow, n, s)
	return err
}

// Release returns the bytes of the share. Further calls do nothing.
func (s *Share) Release() {
	if s == nil {
		return
	}
	b := s.budget
	b.mu.Lock()
	defer b.mu.Unlock()
	if s.ended {
		return
	}
	s.ended = true
	o := s.owner
	if o.over == s {
		o.over = nil
	}
	for _, k := range []kind{grow, reserve} {
		o.lines[k] = slices.DeleteFunc(o.lines[k], func(w *waiter) bool {
			if w.share == s {
				close(w.admitted)
			}
			return w.share == s
		})
	}
	b.release(o, s.bytes)
}

// Turn waits for the owner's turn to process a text, for which it holds n bytes until done is
// called. Turns are divided among the owners that want them. The error is context.Cause(ctx).
func (b *Budget) Turn(ctx context.Context, owner string, n int64) (done func(), err error) {
	if b == nil {
		return func() {}, nil
	}
	s, err := b.acquire(ctx, owner, turn, n, nil)
	if err != nil {
		return nil, err
	}
	return sync.OnceFunc(func() {
		b.mu.Lock()
		b.turns--
		s.owner.turns--
		b.mu.Unlock()
		s.Release()
	}), nil
}

// limit returns the bytes that an owner may hold.
func (b *Budget) limit(name string) int64 {
	if b.cfg.Limit != nil {
		if n := b.cfg.Limit(name); n > 0 {
			return n
		}
	}
	return b.cfg.PerOwner
}

// free returns memory to the kernel, unless much is held again.
func (b *Budget) free() {
	b.mu.Lock()
	quiet := b.peaked && b.used <= peak || b.busy && b.used == 0
	b.freeing = nil
	b.peaked = b.peaked && !quiet
	b.setBusy(b.busy && b.used > 0)
	b.mu.Unlock()
	if quiet {
		b.cfg.Free()
	}
}

// setBusy calls Config.Busy if busy has changed. The caller holds the lock.
func (b *Budget) setBusy(busy bool) {
	if b.cfg.Busy != nil && b.busy != busy {
		b.busy = busy
		b.cfg.Busy(busy)
	}
}

func megabytes(n int64) string { return fmt.Sprintf("%d MiB", (n+1<<20-1)>>20) }
