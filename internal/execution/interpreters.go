package execution

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"github.com/sandpiper-mcp/sandpiper/internal/execution/reply"
	"github.com/sandpiper-mcp/sandpiper/internal/fault"
	"github.com/sandpiper-mcp/sandpiper/internal/policy"
	"github.com/sandpiper-mcp/sandpiper/internal/privacy/redact"
	"github.com/sandpiper-mcp/sandpiper/internal/sandbox"
	"github.com/sandpiper-mcp/sandpiper/internal/store/tenant"
)

// Sessions limits the live interpreters of a Runner. If a limit is reached, the least
// recently used idle one ends.
type Sessions struct {
	Idle      time.Duration // time without a call after which an interpreter ends; 0 means 15 min
	PerTenant int           // live interpreters of one tenant; 0 means 8
	Live      int           // of all tenants; 0 means 64
	Waiting   int           // calls that wait for the previous one of the same session; 0 means 16
	Wait      time.Duration // longest such wait; 0 means one minute
}

// WithDefaults fills the zero fields.
func (s Sessions) WithDefaults() Sessions {
	s.Idle = orDefault(s.Idle, 15*time.Minute)
	s.PerTenant = orDefault(s.PerTenant, 8)
	s.Live = orDefault(s.Live, 64)
	s.Waiting = orDefault(s.Waiting, 16)
	s.Wait = orDefault(s.Wait, time.Minute)
	return s
}

// freezeAfter is the delay between a call and freezing its interpreter. It keeps the
// cost away from calls that follow each other quickly, and no answer waits for it.
const freezeAfter = 5 * time.Millisecond

// interpreters are the live interpreters, by tenant and session: a session is invisible
// to other tenants.
type interpreters struct {
	cfg       Sessions
	perTenant func(tenant.ID) int // live interpreters of one tenant
	log       *slog.Logger

	mu       sync.Mutex
	all      map[sessionKey]*interpreter
	closed   bool
	freed    chan struct{}  // closed when an interpreter becomes idle; nil if nothing waits for that
	freezing sync.WaitGroup // calls of freezeIdle
}

type sessionKey struct {
	owner   tenant.ID
	session string
}

// interpreter is the state of one session in this process: its sandbox, while it is
// live, and the number of its users.
type interpreter struct {
	sessionKey
	turn     chan struct{} // a semaphore; its holder may use the fields below
	box      sandbox.Sandbox
	id       string // of the live interpreter, to which a person may allow calls: unlike a session, it has no other one of its name
	memoryMB int    // its memory limit
	// What the tenant could do when it was started; see step.mayNotKeep.
	subset    string // of the servers, chosen by its caller
	selection string
	sandbox   policy.Sandbox
	layer     string // of packages
	mode      redact.Mode
	limits    sandbox.Limits
	// steps are the keys of the steps of the log whose variables it has; nil if box is.
	steps map[string]bool
	fresh bool // it was started without the variables of earlier steps
	// locals are the tokens that are known to the interpreter's code, in mode strict;
	// nil if box is.
	locals *redact.LocalTokens

	// guarded by interpreters.mu
	users    int  // the holder of the turn and those that wait for it
	live     bool // it has a sandbox, or is about to open one
	lastUsed time.Time
	timer    *time.Timer // calls freezeIdle
}

func newInterpreters(cfg Sessions, log *slog.Logger) *interpreters {
	return &interpreters{cfg: cfg.WithDefaults(), log: log, all: make(map[sessionKey]*interpreter)}
}

// acquire waits for the session's turn. The caller must call release.
func (s *interpreters) acquire(ctx context.Context, p sessionKey) (*interpreter, error) {
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
		err = fault.New(fault.Exhausted, "session %q is still running another call after %s; it runs one call at a time", p.session, reply.Seconds(s.cfg.Wait)).
			WithHint("wait until it has ended, or use another session_id")
	}
	s.removeUser(in)
	return nil, err
}

func (s *interpreters) addUser(p sessionKey) (*interpreter, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	in := s.all[p]
	if in == nil {
		in = &interpreter{sessionKey: p, turn: make(chan struct{}, 1)}
		s.all[p] = in
	}
	if in.users > s.cfg.Waiting {
		return nil, fault.New(fault.Exhausted, "session %q is running a call and %d more are waiting; it runs one call at a time", p.session, s.cfg.Waiting).
			WithHint("wait until they have ended, or use another session_id")
	}
	in.users++
	if in.timer != nil {
		in.timer.Stop()
	}
	return in, nil
}

// release passes the turn on.
func (s *interpreters) release(in *interpreter) {
	<-in.turn
	s.removeUser(in)
}

// removeUser records a use and decrements the number of users. An idle interpreter is
// frozen after freezeAfter; one without a sandbox is forgotten.
func (s *interpreters) removeUser(in *interpreter) {
	s.mu.Lock()
	defer s.mu.Unlock()
	in.lastUsed = time.Now()
	s.dropUser(in, freezeAfter)
}

// dropUser decrements the number of users, and schedules freezeIdle after next if none
// is left. The caller holds s.mu.
func (s *interpreters) dropUser(in *interpreter, next time.Duration) {
	if in.users--; in.users > 0 {
		return
	}
	if s.freed != nil {
		close(s.freed)
		s.freed = nil
	}
	switch {
	case !in.live:
		delete(s.all, in.sessionKey)
	case in.timer == nil:
		in.timer = time.AfterFunc(next, func() { s.freezeIdle(in) })
	default:
		in.timer.Reset(next)
	}
}

// freezeIdle freezes an interpreter that is still idle, or ends it after Sessions.Idle.
func (s *interpreters) freezeIdle(in *interpreter) {
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
func (s *interpreters) takeTurn(in *interpreter) {
	in.users++
	in.turn <- struct{}{}
}

// freeze freezes the interpreter, if its backend can do that.
func (s *interpreters) freeze(in *interpreter) bool {
	f, ok := in.box.(sandbox.Freezer)
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
func (s *interpreters) thaw(in *interpreter) bool {
	if in.box == nil {
		return false
	}
	if f, ok := in.box.(sandbox.Freezer); ok && f.Thaw() != nil {
		s.end(in)
	}
	return in.box != nil
}

// addStep records that the interpreter has the variables of a step. The caller has the turn.
func (in *interpreter) addStep(key string) {
	if in.steps == nil {
		in.steps = map[string]bool{}
	}
	in.steps[key] = true
}

// end ends the interpreter. The caller has the turn.
func (s *interpreters) end(in *interpreter) {
	s.mu.Lock()
	in.live = false
	s.mu.Unlock()
	s.closeSandbox(in)
}

// closeSandbox closes the sandbox of an interpreter that is no longer counted as live.
func (s *interpreters) closeSandbox(in *interpreter) {
	if in.box == nil {
		return
	}
	if err := in.box.Close(); err != nil {
		s.log.Error("close an interpreter", "error", err)
	}
	in.box, in.locals, in.steps = nil, nil, nil
}

// reserveWait is how long a new interpreter waits for another to become idle: one that
// has just answered, or is being frozen, becomes idle in a moment.
const reserveWait = time.Second

// reserve counts in as live. If that exceeds a limit, the least recently used idle
// interpreter ends. The caller has the turn of in.
func (s *interpreters) reserve(ctx context.Context, in *interpreter) error {
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
func (s *interpreters) tryReserve(in *interpreter) (victim *interpreter, freed <-chan struct{}, err error) {
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
func (s *interpreters) findVictim(in *interpreter) (victim *interpreter, err error) {
	living, own := 0, 0
	var oldest, ownOldest *interpreter
	for _, o := range s.all {
		if !o.live {
			continue
		}
		living++
		oldest = leastRecent(oldest, o)
		if o.owner == in.owner {
			own++
			ownOldest = leastRecent(ownOldest, o)
		}
	}
	switch {
	case own >= s.perTenant(in.owner):
		return ownOldest, tooMany("%d sessions are running code, which is the maximum of one tenant", own)
	case living >= s.cfg.Live:
		return oldest, tooMany("Sandpiper is busy: %d sessions are running code", living)
	}
	return nil, nil
}

func tooMany(format string, n int) error {
	return fault.New(fault.Exhausted, format, n).WithHint("wait until one call has ended, or omit session_id")
}

// leastRecent returns the less recently used one of a and b, provided that it is idle.
func leastRecent(a, b *interpreter) *interpreter {
	if b.users > 0 || a != nil && a.lastUsed.Before(b.lastUsed) {
		return a
	}
	return b
}

func (s *interpreters) count() (living int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, in := range s.all {
		if in.live {
			living++
		}
	}
	return living
}

// endTenant ends the interpreters of one tenant, after their calls.
func (s *interpreters) endTenant(ctx context.Context, owner tenant.ID) {
	s.mu.Lock()
	var own []sessionKey
	for k := range s.all {
		if k.owner == owner {
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

// close ends all idle interpreters. It is idempotent.
func (s *interpreters) close() {
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
		delete(s.all, in.sessionKey)
	}
}
