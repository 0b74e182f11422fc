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

// Process identifies this process to others that share the data directory, by a file that it
// keeps locked. The kernel releases the lock of a killed process. A Process is safe for
// concurrent use.
type Process struct {
	dir  string
	key  func() ([]byte, error)
	name func() (string, error)

	mu   sync.Mutex
	lock *flock.Flock
	gone bool
}

// NewProcess returns the Process whose lock file is in dir. key returns the 32 bytes from which
// the keys of records are derived. Both are first used when a record is written.
func NewProcess(dir string, key func() ([]byte, error)) *Process {
	p := &Process{dir: dir, key: untilSuccess(key)}
	p.name = untilSuccess(p.register)
	return p
}

// untilSuccess returns a function that calls f until f succeeds, and caches that result. A
// failure may be temporary, such as a lack of file descriptors.
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

// errClosed is returned after Close.
var errClosed = errors.New("journal: process is closed")

// register creates and locks a file with a unique name, and deletes those of ended processes.
func (p *Process) register() (string, error) {
	if err := os.MkdirAll(p.dir, 0o700); err != nil {
		return "", err
	}
	p.sweep()
	for {
		name := fmt.Sprintf("%d-%s", os.Getpid(), strings.ToLower(rand.Text()[:12]))
		l := flock.New(p.file(name), flock.SetPermissions(0o600))
		if ok, err := l.TryLock(); err != nil {
			return "", fmt.Errorf("lock %s: %w", name, err)
		} else if ok && isNamed(l, p.file(name)) {
			return name, p.holdLock(l)
		}
		_ = l.Close() // another process deleted the file before it was locked
	}
}

// isNamed reports whether the locked file still has its name.
func isNamed(l *flock.Flock, path string) bool {
	locked, err := l.Stat()
	if err != nil {
		return false
	}
	named, err := os.Stat(path)
	return err == nil && os.SameFile(locked, named)
}

func (p *Process) holdLock(l *flock.Flock) error {
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
		if name := strings.TrimSuffix(filepath.Base(file), ".lock"); !p.isAlive(name) {
			_ = os.Remove(file) // names are never reused
		}
	}
}

func (p *Process) file(name string) string { return filepath.Join(p.dir, name+".lock") }

// isAlive reports whether the process with that name is alive. It takes a shared lock, so that
// concurrent checks do not mistake each other for the process.
func (p *Process) isAlive(name string) bool {
	if name == "" {
		return false
	}
	if _, err := os.Lstat(p.file(name)); errors.Is(err, fs.ErrNotExist) {
		return false
	}
	l := flock.New(p.file(name), flock.SetFlag(os.O_RDONLY))
	defer l.Close()
	ok, err := l.TryRLock()
	return !ok && !errors.Is(err, fs.ErrNotExist)
}

// Close releases the lock: other processes may take over the records. It is idempotent.
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
	_ = os.Remove(l.Path()) // best effort: the next process deletes it otherwise
	return err
}
