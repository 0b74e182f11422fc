package execution

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"github.com/sandpiper-mcp/sandpiper/internal/fault"
	"github.com/sandpiper-mcp/sandpiper/internal/privacy/redact"
	"github.com/sandpiper-mcp/sandpiper/internal/sandbox"
	"github.com/sandpiper-mcp/sandpiper/internal/store/tenant"
)

// Sessions bound the living interpreters of a Runner. When room is needed, the
// one that nobody has called for the longest time ends.
type Sessions struct {
	Idle      time.Duration // without a call, after which an interpreter ends; 0 means 15 min
	PerTenant int           // living interpreters of one tenant; 0 means 8
	Live      int           // of all tenants; 0 means 64
	Waiting   int           // calls that wait for the one before in one session; 0 means 16
	Wait      time.Duration // longest such wait; 0 means one minute
}

// WithDefaults fills the zero fields.
func (s Sessions) WithDefaults() Sessions {
	s.Idle = or(s.Idle, 15*time.Minute)
	s.PerTenant = or(s.PerTenant, 8)
	s.Live = or(s.Live, 64)
	s.Waiting = or(s.Waiting, 16)
	s.Wait = or(s.Wait, time.Minute)
	return s
}

// freezeAfter is how long after a call its interpreter is frozen. Calls that
// follow each other quickly do not pay for it, and no answer waits for it.
const freezeAfter = 5 * time.Millisecond

// interpreters are the living interpreters, by tenant and session: with another
// tenant's id none of them is found.
type interpreters struct {
	cfg Sessions
	log *slog.Logger

	mu     sync.Mutex
	all    map[seat]*interpreter
	closed bool
	freed  chan struct{}  // closed when an interpreter has no user any more; nil if nobody waits for that
	rests  sync.WaitGroup // calls of rest
}

type seat struct {
	owner   tenant.ID
	session string
}

// interpreter is what there is of one session in this process: a sandbox, while
// it lives, and those who want it.
type interpreter struct {
	seat
	turn chan struct{} // filled by the one who may use what follows
	box  sandbox.Sandbox
	mb   int // memory it was given
	// locals are the tokens that code there knows, in mode strict; as box, nil
	// without one.
	locals *redact.LocalTokens

	// guarded by interpreters.mu
	users int  // who has the turn, and who waits for it
	lives bool // it has, or is about to get, a sandbox
	used  time.Time
	timer *time.Timer // of rest
}

func newInterpreters(cfg Sessions, log *slog.Logger) *interpreters {
	return &interpreters{cfg: cfg.WithDefaults(), log: log, all: make(map[seat]*interpreter)}
}

// enter waits for the session's turn. Who got it calls leave.
func (s *interpreters) enter(ctx context.Context, p seat) (*interpreter, error) {
	in, err := s.join(p)
	if err != nil {
		return nil, err
	}
	select {
	case in.turn <- struct{}{}: // the usual case costs no timer
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
		err = fault.New(fault.Exhausted, "session %q still runs another call after %s; one runs at a time", p.session, seconds(s.cfg.Wait)).
			WithHint("wait until it has ended, or use another session_id")
	}
	s.quit(in)
	return nil, err
}

func (s *interpreters) join(p seat) (*interpreter, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	in := s.all[p]
	if in == nil {
		in = &interpreter{seat: p, turn: make(chan struct{}, 1)}
		s.all[p] = in
	}
	if in.users > s.cfg.Waiting {
		return nil, fault.New(fault.Exhausted, "session %q runs a call and %d more wait for it; one runs at a time", p.session, s.cfg.Waiting).
			WithHint("wait until they have ended, or use another session_id")
	}
	in.users++
	if in.timer != nil {
		in.timer.Stop()
	}
	return in, nil
}

// leave gives the turn to the next.
func (s *interpreters) leave(in *interpreter) {
	<-in.turn
	s.quit(in)
}

// quit counts one user less. When the last has gone the interpreter is frozen a
// moment later, and forgotten if it is dead.
func (s *interpreters) quit(in *interpreter) {
	s.mu.Lock()
	defer s.mu.Unlock()
	in.used = time.Now()
	s.drop(in, freezeAfter)
}

// drop is the end of every use of in, which is looked at again after next.
func (s *interpreters) drop(in *interpreter, next time.Duration) {
	if in.users--; in.users > 0 {
		return
	}
	if s.freed != nil {
		close(s.freed)
		s.freed = nil
	}
	switch {
	case !in.lives:
		delete(s.all, in.seat)
	case in.timer == nil:
		in.timer = time.AfterFunc(next, func() { s.rest(in) })
	default:
		in.timer.Reset(next)
	}
}

// rest freezes an interpreter that nobody has called since, or ends it if that
// was long ago.
func (s *interpreters) rest(in *interpreter) {
	s.mu.Lock()
	if in.users > 0 || !in.lives || s.closed {
		s.mu.Unlock()
		return
	}
	s.take(in)
	s.rests.Add(1)
	old := time.Since(in.used) >= s.cfg.Idle
	s.mu.Unlock()

	defer s.rests.Done()
	if old || !s.freeze(in) {
		s.end(in)
	}
	<-in.turn
	s.mu.Lock()
	defer s.mu.Unlock()
	s.drop(in, time.Until(in.used.Add(s.cfg.Idle)))
}

// take takes the turn of an interpreter that has no users, where it is free.
func (s *interpreters) take(in *interpreter) {
	in.users++
	in.turn <- struct{}{}
}

// freeze lets the interpreter stand still, if its backend can do that.
func (s *interpreters) freeze(in *interpreter) bool {
	f, ok := in.box.(sandbox.Freezer)
	if !ok {
		return true
	}
	err := f.Freeze()
	if err != nil {
		s.log.Warn("an interpreter could not be frozen and is ended", "error", err)
	}
	return err == nil
}

// wake reports whether the interpreter lives, and lets it go on. The caller has
// the turn.
func (s *interpreters) wake(in *interpreter) bool {
	if in.box == nil {
		return false
	}
	if f, ok := in.box.(sandbox.Freezer); ok && f.Thaw() != nil {
		s.end(in)
	}
	return in.box != nil
}

// end ends the interpreter. The caller has the turn.
func (s *interpreters) end(in *interpreter) {
	s.mu.Lock()
	in.lives = false
	s.mu.Unlock()
	s.discard(in)
}

// discard closes the sandbox of an interpreter that is not counted any more.
func (s *interpreters) discard(in *interpreter) {
	if in.box == nil {
		return
	}
	if err := in.box.Close(); err != nil {
		s.log.Error("close an interpreter", "error", err)
	}
	in.box, in.locals = nil, nil
}

// roomWait is how long a new interpreter waits for another to be free to end:
// one that has just answered, or is being frozen, is free in a moment.
const roomWait = time.Second

// makeRoom counts in as living. If that is one too many, of its tenant or of
// all, the one that nobody has called for the longest time ends. The caller has
// the turn of in.
func (s *interpreters) makeRoom(ctx context.Context, in *interpreter) error {
	limit := time.NewTimer(roomWait)
	defer limit.Stop()
	for {
		victim, freed, err := s.admit(in)
		switch {
		case victim != nil:
			s.discard(victim)
			s.leave(victim)
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

// admit counts in as living if there is room. Else it returns a victim to close
// first, which counts as dead already and whose turn the caller has; or, if all
// are in use, an error and what to wait for.
func (s *interpreters) admit(in *interpreter) (victim *interpreter, freed <-chan struct{}, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return nil, nil, fault.New(fault.Unavailable, "Sandpiper is stopping and starts no more interpreters")
	}
	if victim, err = s.oneTooMany(in); err == nil {
		in.lives = true
		return nil, nil, nil
	}
	if victim == nil {
		if s.freed == nil {
			s.freed = make(chan struct{})
		}
		return nil, s.freed, err
	}
	victim.lives = false
	s.take(victim)
	return victim, nil, nil
}

// oneTooMany says why there is no room for in, and who would have to go; nobody
// if all are in use.
func (s *interpreters) oneTooMany(in *interpreter) (victim *interpreter, err error) {
	living, own := 0, 0
	var oldest, ownOldest *interpreter
	for _, o := range s.all {
		if !o.lives {
			continue
		}
		living++
		oldest = quieter(oldest, o)
		if o.owner == in.owner {
			own++
			ownOldest = quieter(ownOldest, o)
		}
	}
	switch {
	case own >= s.cfg.PerTenant:
		return ownOldest, crowded("%d sessions are running code, the most at once", own)
	case living >= s.cfg.Live:
		return oldest, crowded("Sandpiper is busy: %d sessions are running code", living)
	}
	return nil, nil
}

func crowded(format string, n int) error {
	return fault.New(fault.Exhausted, format, n).WithHint("wait until one has answered, or leave session_id out")
}

// quieter returns which of the two nobody has called for longer, if nobody calls
// it now.
func quieter(a, b *interpreter) *interpreter {
	if b.users > 0 || a != nil && a.used.Before(b.used) {
		return a
	}
	return b
}

func (s *interpreters) count() (living int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, in := range s.all {
		if in.lives {
			living++
		}
	}
	return living
}

// close ends all interpreters that nobody uses. It is idempotent.
func (s *interpreters) close() {
	s.mu.Lock()
	s.closed = true
	s.mu.Unlock()
	s.rests.Wait()
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, in := range s.all {
		if in.users > 0 {
			continue // its execution was not waited for; the backend's end is its own
		}
		in.timer.Stop()
		s.discard(in)
		in.lives = false
		delete(s.all, in.seat)
	}
}
