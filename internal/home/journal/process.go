package journal

import (
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"

	"github.com/gofrs/flock"
)

// Process is this process as others know it that have the same data directory:
// by a file that it has locked for as long as it lives. The kernel frees the lock
// of one that was killed. A Process is safe for concurrent use.
type Process struct {
	dir  string
	key  func() ([]byte, error)
	name func() (string, error)

	mu   sync.Mutex
	lock *flock.Flock
	gone bool
}

// NewProcess returns the process of the daemons in dir. Neither the directory nor
// the key, of 32 bytes, that seals runs is needed before there is something to
// keep.
func NewProcess(dir string, key func() ([]byte, error)) *Process {
	p := &Process{dir: dir, key: untilSuccess(key)}
	p.name = untilSuccess(p.enlist)
	return p
}

// untilSuccess returns a function that calls f until it succeeds, and then returns
// what f returned. What fails may succeed later: there are descriptors again.
func untilSuccess[T any](f func() (T, error)) func() (T, error) {
	var mu sync.Mutex
	var done bool
	var value T
	return func() (T, error) {
		mu.Lock()
		defer mu.Unlock()
		if done {
			return value, nil
		}
		v, err := f()
		if err == nil {
			value, done = v, true
		}
		return v, err
	}
}

// errClosed is of a process that has left.
var errClosed = errors.New("journal: the process has left")

// enlist takes a name of its own, and sweeps away those of the dead.
func (p *Process) enlist() (string, error) {
	if err := os.MkdirAll(p.dir, 0o700); err != nil {
		return "", err
	}
	p.sweep()
	for {
		name := fmt.Sprintf("%d-%s", os.Getpid(), strings.ToLower(rand.Text()[:12]))
		l := flock.New(p.file(name), flock.SetPermissions(0o600))
		if ok, err := l.TryLock(); err != nil {
			return "", fmt.Errorf("lock %s: %w", name, err)
		} else if ok && here(l, p.file(name)) {
			return name, p.keep(l)
		}
		_ = l.Close() // somebody took it for one of the dead
	}
}

// here tells whether the file that is locked still has its name.
func here(l *flock.Flock, path string) bool {
	locked, err := l.Stat()
	if err != nil {
		return false
	}
	named, err := os.Stat(path)
	return err == nil && os.SameFile(locked, named)
}

func (p *Process) keep(l *flock.Flock) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.gone {
		return errors.Join(errClosed, l.Close())
	}
	p.lock = l
	return nil
}

func (p *Process) sweep() {
	left, _ := filepath.Glob(p.file("*"))
	for _, file := range left {
		if name := strings.TrimSuffix(filepath.Base(file), ".lock"); !p.living(name) {
			_ = os.Remove(file) // no name comes twice
		}
	}
}

func (p *Process) file(name string) string { return filepath.Join(p.dir, name+".lock") }

// living tells whether the process of that name lives. Several may ask at once,
// so they share the lock of one that does not.
func (p *Process) living(name string) bool {
	if _, err := os.Lstat(p.file(name)); name == "" || errors.Is(err, fs.ErrNotExist) {
		return false
	}
	l := flock.New(p.file(name), flock.SetFlag(os.O_RDONLY))
	defer l.Close()
	ok, err := l.TryRLock()
	return !ok && !errors.Is(err, fs.ErrNotExist)
}

// Close leaves: what this process ran may be taken over. It is idempotent.
func (p *Process) Close() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.gone = true
	if p.lock == nil {
		return nil
	}
	l := p.lock
	p.lock = nil
	err := l.Close()
	_ = os.Remove(l.Path()) // or who sees that we have left does
	return err
}
