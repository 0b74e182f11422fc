// Package background runs the background executions of all tenants that are due: those that were
// dispatched, those whose time or signal has come, and those whose daemon was killed.
//
// A Scheduler looks at the directory in which tenants with due executions are named, and claims
// one execution at a time in the tenant's database, so that of several daemons exactly one runs
// it. What waits is on disk only. A Scheduler is safe for concurrent use. It decides neither what
// an execution may do nor what happens to its outcome; package execution does.
package background

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"github.com/sandpiper-mcp/sandpiper/internal/execution"
	"github.com/sandpiper-mcp/sandpiper/internal/home"
	"github.com/sandpiper-mcp/sandpiper/internal/home/journal"
	"github.com/sandpiper-mcp/sandpiper/internal/store/tenant"
)

// Config of a Scheduler.
type Config struct {
	Homes     *home.Homes       // required
	Runner    *execution.Runner // required
	Writers   Writers           // of code that was not stored with its execution
	Running   int               // executions at a time; 0 means 4
	PerTenant int               // of one tenant; 0 means half of Running, at least 1
	// Before is called before each look for work: it may add runs that are due, such as those of
	// schedules. nil means no call.
	Before func(context.Context)
	Log    *slog.Logger // nil means discard
}

// interval is the time between two looks for work.
const interval = 250 * time.Millisecond

// postpone delays the work of a tenant whose data cannot be opened, such as a suspended one.
const postpone = time.Minute

// Scheduler runs background executions.
type Scheduler struct {
	cfg  Config
	wake chan struct{}
	stop context.CancelFunc
	all  sync.WaitGroup

	mu      sync.Mutex
	running map[tenant.ID]int
	total   int
}

// New returns a Scheduler, which runs nothing before Start.
func New(cfg Config) *Scheduler {
	if cfg.Running <= 0 {
		cfg.Running = 4
	}
	if cfg.PerTenant <= 0 {
		cfg.PerTenant = max(1, cfg.Running/2)
	}
	if cfg.Log == nil {
		cfg.Log = slog.New(slog.DiscardHandler)
	}
	return &Scheduler{cfg: cfg, wake: make(chan struct{}, 1), stop: func() {}, running: map[tenant.ID]int{}}
}

// Start begins to run executions, until Stop.
func (s *Scheduler) Start() {
	ctx, cancel := context.WithCancel(context.Background())
	s.stop = cancel
	s.all.Go(func() { s.loop(ctx) })
}

// Stop makes the Scheduler claim no more executions. Those that run are ended by closing the Runner.
func (s *Scheduler) Stop() { s.stop() }

// Wait returns when no execution runs any more. Call it after Stop.
func (s *Scheduler) Wait() { s.all.Wait() }

// Wake makes the Scheduler look for work at once.
func (s *Scheduler) Wake() {
	select {
	case s.wake <- struct{}{}:
	default:
	}
}

func (s *Scheduler) loop(ctx context.Context) {
	for {
		began := time.Now()
		if s.cfg.Before != nil {
			s.cfg.Before(ctx)
		}
		ids, err := s.cfg.Homes.Marks(home.Executions).Due(time.Now())
		if err != nil {
			s.cfg.Log.Error("list tenants with background executions", "error", err)
		}
		for claimed := true; claimed && ctx.Err() == nil; { // one execution of each tenant in turn
			claimed = false
			for _, id := range ids {
				claimed = s.claim(ctx, id) || claimed
			}
		}
		select {
		case <-ctx.Done():
			return
		case <-s.wake:
		case <-time.After(max(interval, 20*time.Since(began))): // many tenants must not keep a processor busy
		}
	}
}

// claim starts one due execution of a tenant; false if it has none, or too many run.
func (s *Scheduler) claim(ctx context.Context, id tenant.ID) bool {
	if ctx.Err() != nil || !s.enter(id) {
		return false
	}
	h, err := s.cfg.Homes.Acquire(ctx, id)
	if err != nil {
		s.leave(id)
		s.cfg.Log.Warn("open a tenant with background executions", "tenant", id.String(), "error", err)
		if err := s.cfg.Homes.Marks(home.Executions).Set(id, time.Now().Add(postpone)); err != nil {
			s.cfg.Log.Error("postpone background executions", "tenant", id.String(), "error", err)
		}
		return false
	}
	e, err := h.Runs.Claim(ctx)
	if err != nil || e == nil {
		if err != nil && ctx.Err() == nil {
			s.cfg.Log.Error("claim a background execution", "tenant", id.String(), "error", err)
		}
		s.leave(id)
		_ = h.Release(ctx)
		return false
	}
	s.all.Go(func() {
		defer s.Wake() // another may wait for the room
		defer s.leave(id)
		s.run(ctx, h, e)
	})
	return true
}

func (s *Scheduler) run(ctx context.Context, h *home.Home, e *journal.Run) {
	ctx = context.WithoutCancel(ctx)
	if err := (Claim{e, h, s.cfg.Runner, s.cfg.Writers, s.cfg.Log}).Do(ctx); err != nil {
		s.cfg.Log.Warn("a background execution did not run", "execution", e.Execution, "error", err)
	}
	if err := h.Release(ctx); err != nil {
		s.cfg.Log.Error("release a home", "execution", e.Execution, "error", err)
	}
}

// enter reserves room for an execution of a tenant.
func (s *Scheduler) enter(id tenant.ID) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.total >= s.cfg.Running || s.running[id] >= s.cfg.PerTenant {
		return false
	}
	s.total++
	s.running[id]++
	return true
}

func (s *Scheduler) leave(id tenant.ID) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.total--
	if s.running[id]--; s.running[id] == 0 {
		delete(s.running, id)
	}
}
