// Package fake is a sandbox.Backend without a sandbox: it runs small scripts
// instead of Python, in the calling goroutine, so that the layers above can be
// tested quickly on any machine. It isolates nothing and is for tests only. It
// implements the contract of package sandbox: contexts, causes, order of output,
// concurrent calls, dead and frozen sandboxes.
//
// Program.Code is a script of one directive per line; blank lines and lines
// that start with # do nothing:
//
//	print TEXT           one item of output
//	flood N TEXT         the same item N times
//	stderr TEXT          text on stderr
//	call METHOD JSON     one call of the host; its result becomes the result
//	spawn METHOD JSON    the same concurrently with the script; awaited before it ends
//	sleep DURATION       as time.ParseDuration reads it
//	set NAME JSON        a variable; it persists for the next Run
//	get NAME             the variable or one of Program.Vars becomes the result
//	result JSON          the result
//	string N             a string of N characters becomes the result
//	image MIME BASE64    a picture
//	raise TYPE MESSAGE   ends with an exception
//	refuse TYPE MESSAGE  a restricted program ends refused; no effect on others
//	exceed LIMIT         ends over the named limit
//	crash                ends like an interpreter that died
//
// Any other line is a SyntaxError.
package fake

import (
	"context"
	"encoding/json"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"github.com/sandpiper-mcp/sandpiper/internal/sandbox"
)

// Config of a Backend.
type Config struct {
	// Scripts maps the code of a program to the script to run in its place, so that
	// a test can pass the real Python text of a caller. Nil means none.
	Scripts map[string]string
	// OpenDelay is the duration of Open.
	OpenDelay time.Duration
	// OpenError, if not nil, is returned by Open.
	OpenError error
}

// Backend makes fake sandboxes. It is safe for concurrent use.
type Backend struct {
	cfg Config

	mu     sync.Mutex
	closed bool
	open   map[*Sandbox]struct{}
	opened int
}

var _ sandbox.Backend = (*Backend)(nil)

// New returns a backend.
func New(cfg Config) *Backend {
	return &Backend{cfg: cfg, open: make(map[*Sandbox]struct{})}
}

// Open implements sandbox.Backend.
func (b *Backend) Open(ctx context.Context, spec sandbox.Spec) (sandbox.Sandbox, error) {
	if err := sleep(ctx, b.cfg.OpenDelay); err != nil {
		return nil, context.Cause(ctx)
	}
	if b.cfg.OpenError != nil {
		return nil, b.cfg.OpenError
	}
	if err := validate(spec); err != nil {
		return nil, err
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.closed {
		return nil, errors.New("fake: the backend is closed")
	}
	s := &Sandbox{backend: b, spec: spec, vars: make(map[string]json.RawMessage), dying: make(chan struct{})}
	b.open[s] = struct{}{}
	b.opened++
	return s, nil
}

// validate checks the required fields of a Spec.
func validate(spec sandbox.Spec) error {
	if spec.Owner == "" {
		return errors.New("fake: the spec has no owner")
	}
	if spec.Backend == "absent" { // it stands in for all others
		return errors.New("fake: there is no such backend")
	}
	if spec.PackageLayer != "" {
		return errors.New("fake: there are no package layers")
	}
	for _, m := range spec.Mounts {
		if m.Target == "/workspace" {
			return nil
		}
	}
	return errors.New("fake: the spec has no mount at /workspace")
}

// Close implements sandbox.Backend.
func (b *Backend) Close() error {
	b.mu.Lock()
	b.closed = true
	open := b.open
	b.open = nil
	b.mu.Unlock()
	for s := range open {
		s.kill()
	}
	return nil
}

// Frozen returns the number of open sandboxes that are frozen.
func (b *Backend) Frozen() (n int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for s := range b.open {
		if s.frozen.Load() {
			n++
		}
	}
	return n
}

// Kill kills every open sandbox, like an interpreter that the kernel kills
// between two Runs.
func (b *Backend) Kill() {
	b.mu.Lock()
	defer b.mu.Unlock()
	for s := range b.open {
		s.kill()
	}
}

// Count returns the numbers of sandboxes open now and ever opened.
func (b *Backend) Count() (open, total int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return len(b.open), b.opened
}

// Sandbox is one fake interpreter.
type Sandbox struct {
	backend *Backend
	spec    sandbox.Spec
	vars    map[string]json.RawMessage // accessed by Run only
	dead    bool                       // accessed by Run only
	dying   chan struct{}              // closed by kill
	once    sync.Once
	frozen  atomic.Bool
}

var _ sandbox.Freezer = (*Sandbox)(nil)

// Freeze implements sandbox.Freezer.
func (s *Sandbox) Freeze() error {
	s.frozen.Store(true)
	return s.alive()
}

// Thaw implements sandbox.Freezer.
func (s *Sandbox) Thaw() error {
	s.frozen.Store(false)
	return s.alive()
}

func (s *Sandbox) alive() error {
	select {
	case <-s.dying:
		return errDestroyed
	default:
		return nil
	}
}

// Close implements sandbox.Sandbox.
func (s *Sandbox) Close() error {
	s.kill()
	s.backend.mu.Lock()
	defer s.backend.mu.Unlock()
	delete(s.backend.open, s)
	return nil
}

func (s *Sandbox) kill() { s.once.Do(func() { close(s.dying) }) }

// errDestroyed is the cause of a Run that Close interrupted.
var errDestroyed = errors.New("fake: the sandbox was destroyed")

// Run implements sandbox.Sandbox.
func (s *Sandbox) Run(ctx context.Context, p sandbox.Program, host sandbox.Host) (sandbox.Outcome, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	go func() {
		select {
		case <-s.dying:
			cancel(errDestroyed)
		case <-ctx.Done():
		}
	}()
	if s.frozen.Load() {
		return sandbox.Outcome{}, errors.New("fake: the sandbox is frozen")
	}
	s.dead = s.dead || s.alive() != nil
	if s.dead {
		return ended(sandbox.Crashed, "the interpreter is dead"), nil
	}
	code := p.Code
	if known, ok := s.backend.cfg.Scripts[code]; ok {
		code = known
	}
	began := time.Now()
	out := newScript(s, p, host).run(ctx, code)
	out.Usage.Wall = time.Since(began)
	s.dead = !out.Status.Reusable()
	return out, nil
}

// ended returns the outcome of a run that did not end by itself.
func ended(s sandbox.Status, why string) sandbox.Outcome {
	return sandbox.Outcome{Status: s, Error: why, ErrorType: string(s)}
}

// sleep waits for d or until ctx ends.
func sleep(ctx context.Context, d time.Duration) error {
	if d <= 0 {
		return ctx.Err()
	}
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
