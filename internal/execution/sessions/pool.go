// Package sessions has the live interpreters of sessions, and the steps that run in them. Idle
// interpreters are frozen, and ended after a while or if there are too many. A session runs one step at a
// time, which is written to its log; Rebuild replays the log in a new interpreter.
//
// A session is invisible to other tenants. The package opens no sandboxes and runs no code itself.
package sessions

import (
	"cmp"
	"context"
	"log/slog"
	"sync"
	"time"

	"github.com/sandpiper-mcp/sandpiper/internal/execution/reply"
	"github.com/sandpiper-mcp/sandpiper/internal/fault"
	"github.com/sandpiper-mcp/sandpiper/internal/privacy/redact"
	"github.com/sandpiper-mcp/sandpiper/internal/sandbox"
	"github.com/sandpiper-mcp/sandpiper/internal/store/tenant"
)

// Limits of live interpreters. If one is reached, the least recently used idle interpreter ends.
type Limits struct {
	// time without a call after which an interpreter ends; 0 means 15 min
	Idle      time.Duration `key:"idle,restart" project:"lower"`
	PerTenant int           `key:"per_tenant,tenant" range:"1 4096" project:"lower"` // live interpreters of one tenant; 0 means 8
	Live      int           `key:"live,restart" range:"1 4096" project:"lower"`      // of all tenants; 0 means 64
	Waiting   int           // calls that wait for the previous one of the same session; 0 means 16
	Wait      time.Duration // longest such wait; 0 means one minute
}

// WithDefaults fills the zero fields.
func (s Limits) WithDefaults() Limits {
	s.Idle = cmp.Or(s.Idle, 15*time.Minute)
	s.PerTenant = cmp.Or(s.PerTenant, 8)
	s.Live = cmp.Or(s.Live, 64)
	s.Waiting = cmp.Or(s.Waiting, 16)
	s.Wait = cmp.Or(s.Wait, time.Minute)
	return s
}

// freezeAfter is the delay between a call and freezing its interpreter. It keeps the
// cost away from calls that follow each other quickly, and no answer waits for it.
const freezeAfter = 5 * time.Millisecond

// Pool has the live interpreters.
type Pool struct {
	cfg       Limits
	perTenant func(tenant.ID) int // live interpreters of one tenant
	log       *slog.Logger

	mu       sync.Mutex
	all      map[Key]*Interpreter
	closed   bool
	freed    chan struct{}  // closed when an interpreter becomes idle; nil if nothing waits for that
	freezing sync.WaitGroup // calls of freezeIdle
}

// Key identifies a session.
type Key struct {
	Owner   tenant.ID
	Session string
}

// Interpreter is the state of one session in this process: its sandbox, while it is live, and the number
// of its users.
type Interpreter struct {
	Key
	turn    chan struct{} // a semaphore; its holder may use the fields below
	sandbox sandbox.Sandbox
	id      string // of the live interpreter, to which a person may allow calls: unlike a session, it has no other one of its name
	Spec           // with which it was started
	// steps are the keys of the steps of the log whose variables it has; nil if sandbox is.
	steps map[string]bool
	fresh bool // it was started without the variables of earlier steps
	// locals are the tokens that are known to the interpreter's code, in mode strict;
	// nil if sandbox is.
	locals *redact.LocalTokens

	// guarded by Pool.mu
	users    int  // the holder of the turn and those that wait for it
	live     bool // it has a sandbox, or is about to open one
	lastUsed time.Time
	timer    *time.Timer // calls freezeIdle
}

// NewPool returns a Pool. perTenant returns how many live interpreters a tenant may have.
func NewPool(cfg Limits, perTenant func(tenant.ID) int, log *slog.Logger) *Pool {
	return &Pool{cfg: cfg.WithDefaults(), perTenant: perTenant, log: log, all: make(map[Key]*Interpreter)}
}

// acquire waits for the session's turn. The caller must call release.
func (s *Pool) acquire(ctx context.Context, p Key) (*Interpreter, error) {
	in, err := s.addUser(p)
	if err != nil {
		return nil, err
	}
	select {
	case in.turn <- struct{}{}: // fast path without a timer
		return in, nil
	default:
	}
	limit := time.NewTimer(s.cfg.Wait)
	defer limit.Stop()
	select {
	case in.turn <- struct{}{}:
		return in, nil
	case <-ctx.Done():
		err = context.Cause(ctx)
	case <-limit.C:
		err = fault.New(fault.Exhausted, "session %q is still running another call after %s; it runs one call at a time", p.Session,
			reply.Seconds(s.cfg.Wait)).
			WithHint("wait until it has ended, or use another session_id")
	}
	s.removeUser(in)
	return nil, err
}

func (s *Pool) addUser(p Key) (*Interpreter, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	in := s.all[p]
	if in == nil {
		in = &Interpreter{Key: p, turn: make(chan struct{}, 1)}
		s.all[p] = in
	}
	if in.users > s.cfg.Waiting {
		return nil, fault.New(fault.Exhausted, "session %q is running a call and %d more are waiting; it runs one call at a time",
			p.Session, s.cfg.Waiting).
			WithHint("wait until they have ended, or use another session_id")
	}
	in.users++
	if in.timer != nil {
		in.timer.Stop()
	}
	return in, nil
}

// release passes the turn on.
func (s *Pool) release(in *Interpreter) {
	<-in.turn
	s.removeUser(in)
}

// removeUser records a use and decrements the number of users. An idle interpreter is
// frozen after freezeAfter; one without a sandbox is forgotten.
func (s *Pool) removeUser(in *Interpreter) {
	s.mu.Lock()
	defer s.mu.Unlock()
	in.lastUsed = time.Now()
	s.dropUser(in, freezeAfter)
}

// dropUser decrements the number of users, and schedules freezeIdle after next if none
// is left. The caller holds s.mu.
func (s *Pool) dropUser(in *Interpreter, next time.Duration) {
	if in.users--; in.users > 0 {
		return
	}
	if s.freed != nil {
		close(s.freed)
		s.freed = nil
	}
	switch {
	case !in.live:
		delete(s.all, in.Key)
	case in.timer == nil:
		in.timer = time.AfterFunc(next, func() { s.freezeIdle(in) })
	default:
		in.timer.Reset(next)
	}
}

// freezeIdle freezes an interpreter that is still idle, or ends it after Limits.Idle.
func (s *Pool) freezeIdle(in *Interpreter) {
	s.mu.Lock()
	if in.users > 0 || !in.live || s.closed {
		s.mu.Unlock()
		return
	}
	s.takeTurn(in)
	s.freezing.Add(1)
	old := time.Since(in.lastUsed) >= s.cfg.Idle
	s.mu.Unlock()

	defer s.freezing.Done()
	if old || !s.freeze(in) {
		s.end(in)
	}
	<-in.turn
	s.mu.Lock()
	defer s.mu.Unlock()
	s.dropUser(in, time.Until(in.lastUsed.Add(s.cfg.Idle)))
}

// takeTurn takes the turn of an interpreter that has no users. The caller holds s.mu.
func (s *Pool) takeTurn(in *Interpreter) {
	in.users++
	in.turn <- struct{}{}
}

// freeze freezes the interpreter, if its backend can do that.
func (s *Pool) freeze(in *Interpreter) bool {
	f, ok := in.sandbox.(sandbox.Freezer)
	if !ok {
		return true
	}
	err := f.Freeze()
	if err != nil {
		s.log.Warn("freeze an interpreter; it is ended instead", "error", err)
	}
	return err == nil
}

// thaw reports whether the interpreter is live, and thaws it. The caller has the turn.
func (s *Pool) thaw(in *Interpreter) bool {
	if in.sandbox == nil {
		return false
	}
	if f, ok := in.sandbox.(sandbox.Freezer); ok && f.Thaw() != nil {
		s.end(in)
	}
	return in.sandbox != nil
}

// addStep records that the interpreter has the variables of a step. The caller has the turn.
func (in *Interpreter) addStep(key string) {
	if in.steps == nil {
		in.steps = map[string]bool{}
	}
	in.steps[key] = true
}

// end ends the interpreter. The caller has the turn.
func (s *Pool) end(in *Interpreter) {
	s.mu.Lock()
	in.live = false
	s.mu.Unlock()
	s.closeSandbox(in)
}

// closeSandbox closes the sandbox of an interpreter that is no longer counted as live.
func (s *Pool) closeSandbox(in *Interpreter) {
	if in.sandbox == nil {
		return
	}
	if err := in.sandbox.Close(); err != nil {
		s.log.Error("close an interpreter", "error", err)
	}
	in.sandbox, in.locals, in.steps = nil, nil, nil
}

// reserveWait is how long a new interpreter waits for another to become idle: one that
// has just answered, or is being frozen, becomes idle in a moment.
const reserveWait = time.Second

// reserve counts in as live. If that exceeds a limit, the least recently used idle
// interpreter ends. The caller has the turn of in.
func (s *Pool) reserve(ctx context.Context, in *Interpreter) error {
	limit := time.NewTimer(reserveWait)
	defer limit.Stop()
	for {
		victim, freed, err := s.tryReserve(in)
		switch {
		case victim != nil:
			s.closeSandbox(victim)
			s.release(victim)
			continue
		case freed == nil:
			return err
		}
		select {
		case <-freed:
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-limit.C:
			return err
		}
	}
}

// tryReserve counts in as live if the limits allow it. Otherwise it returns a victim,
// no longer counted as live and whose turn the caller has; or, if all are in use, an
// error and a channel that is closed when one becomes idle.
func (s *Pool) tryReserve(in *Interpreter) (victim *Interpreter, freed <-chan struct{}, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return nil, nil, fault.New(fault.Unavailable, "Sandpiper is stopping; no new interpreter can start")
	}
	if victim, err = s.findVictim(in); err == nil {
		in.live = true
		return nil, nil, nil
	}
	if victim == nil {
		if s.freed == nil {
			s.freed = make(chan struct{})
		}
		return nil, s.freed, err
	}
	victim.live = false
	s.takeTurn(victim)
	return victim, nil, nil
}

// findVictim returns an error if in would exceed a limit, and the interpreter to end
// instead; nil if all are in use.
func (s *Pool) findVictim(in *Interpreter) (victim *Interpreter, err error) {
	live, own := 0, 0
	var oldest, ownOldest *Interpreter
	for _, o := range s.all {
		if !o.live {
			continue
		}
		live++
		oldest = leastRecent(oldest, o)
		if o.Owner == in.Owner {
			own++
			ownOldest = leastRecent(ownOldest, o)
		}
	}
	switch {
	case own >= s.perTenant(in.Owner):
		return ownOldest, tooMany("%d sessions are running code, which is the maximum of one tenant", own)
	case live >= s.cfg.Live:
		return oldest, tooMany("Sandpiper is busy: %d sessions are running code", live)
	}
	return nil, nil
}

func tooMany(format string, n int) error {
	return fault.New(fault.Exhausted, format, n).WithHint("wait until one call has ended, or omit session_id")
}

// leastRecent returns the less recently used one of a and b, provided that it is idle.
func leastRecent(a, b *Interpreter) *Interpreter {
	if b.users > 0 || a != nil && a.lastUsed.Before(b.lastUsed) {
		return a
	}
	return b
}

// Count returns the number of live interpreters.
func (s *Pool) Count() (live int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, in := range s.all {
		if in.live {
			live++
		}
	}
	return live
}

// EndTenant ends the interpreters of one tenant, after their calls.
func (s *Pool) EndTenant(ctx context.Context, owner tenant.ID) {
	s.mu.Lock()
	var own []Key
	for k := range s.all {
		if k.Owner == owner {
			own = append(own, k)
		}
	}
	s.mu.Unlock()
	for _, k := range own {
		in, err := s.acquire(ctx, k)
		if err != nil {
			s.log.Warn("end an interpreter of a suspended tenant", "error", err)
			continue
		}
		s.end(in)
		s.release(in)
	}
}

// Close ends all idle interpreters. It is idempotent.
func (s *Pool) Close() {
	s.mu.Lock()
	s.closed = true
	s.mu.Unlock()
	s.freezing.Wait()
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, in := range s.all {
		if in.users > 0 {
			continue // its execution did not end in time; closing the backend ends it
		}
		in.timer.Stop()
		s.closeSandbox(in)
		in.live = false
		delete(s.all, in.Key)
	}
}
