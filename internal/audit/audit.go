// Package audit writes and verifies the audit log: executions, calls, decisions,
// restored tokens and changes of the configuration. There is one log for all tenants
// of a data directory, for the operator.
//
// A log consists of files of JSON lines. Each line contains the hash of the line
// before and its own, an HMAC over its exact bytes, so that the lines form a chain;
// the file head contains the end of the chain and its own hash. Verify finds the first
// line that was changed, dropped, reordered or truncated. It cannot detect a chain that
// was written with the key, or an older state of all files: see docs/audit.md.
//
// A line contains names, counts, tokens and words. No field can hold code, a value or
// output.
//
// A Log is safe for concurrent use, and several processes may write to one directory.
// Concurrent lines are written together. The package makes no decisions. It deletes the
// oldest files as its Retention requires, after writing a line that records it.
package audit

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/gofrs/flock"

	"github.com/sandpiper-mcp/sandpiper/internal/fault"
)

// Config of a Log, and of Verify and Tail.
type Config struct {
	Dir       string       // of the log alone, created by Open. Required
	Key       []byte       // 32 bytes; required by Open and Verify
	MaxBytes  int64        // of a file, before the next begins; 0 means 64 MiB, or less if Retention requires it
	Retention Retention    // zero means that nothing is deleted
	Log       *slog.Logger // nil discards
}

// Log appends lines to a log.
type Log struct {
	cfg  Config
	lock *flock.Flock
	turn chan struct{} // has one element while a goroutine writes

	mu      sync.Mutex
	pending []waiting // in order of arrival
	writing int       // number of lines that are being written
	lost    int64     // dropped lines that the log does not record yet
	dropped int64     // all dropped lines
	timer   *time.Timer
	closed  bool
	failed  error // of the latest write, which was logged

	files fileCache // guarded by turn

	runs sync.WaitGroup // of timer
}

// waiting is a line that has not been written yet.
type waiting struct {
	line Line
	at   time.Time
	done chan error // nil if no caller waits
}

const (
	// batchDelay is how long AppendLater may delay a line, to write several together.
	batchDelay = 500 * time.Millisecond
	// retryDelay is the delay before a failed write is tried again.
	retryDelay = 2 * time.Second
	// maxPending is how many lines are kept while writes fail; more are only counted.
	maxPending = 10_000
	// lockWait is how long a process waits while another writes.
	lockWait = 5 * time.Second
)

// Open returns the Log of a directory. The caller closes it.
func Open(cfg Config) (*Log, error) {
	if cfg.MaxBytes == 0 {
		cfg.MaxBytes = cfg.Retention.fileBytes()
	}
	if cfg.Log == nil {
		cfg.Log = slog.New(slog.DiscardHandler)
	}
	if cfg.Dir == "" || len(cfg.Key) != keySize {
		return nil, fmt.Errorf("audit: Config needs a Dir and a Key of %d bytes", keySize)
	}
	if err := os.MkdirAll(cfg.Dir, 0o700); err != nil {
		return nil, explain(err)
	}
	if err := os.Chmod(cfg.Dir, 0o700); err != nil {
		return nil, explain(err)
	}
	lock := flock.New(filepath.Join(cfg.Dir, "lock"), flock.SetPermissions(0o600))
	return &Log{cfg: cfg, lock: lock, turn: make(chan struct{}, 1)}, nil
}

// Append writes a line. It is on disk when Append returns nil; after an error it may or
// may not be. If a field does not have its form, the error is Invalid.
func (l *Log) Append(ctx context.Context, line Line) error {
	done := make(chan error, 1)
	if err := l.push(line, done); err != nil {
		return err
	}
	select {
	case err := <-done: // another goroutine wrote the line
		return err
	case l.turn <- struct{}{}:
		l.write()
		<-l.turn
		return <-done
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// AppendLater writes a line soon. A crash loses at most the lines of the last second.
// Failed writes are tried again. Lines beyond the capacity are dropped and counted, and
// the count is written to the log when writes succeed again.
func (l *Log) AppendLater(line Line) {
	if err := l.push(line, nil); err != nil {
		l.cfg.Log.Error("a line was not added to the audit log", "kind", line.Kind, "error", err)
	}
}

// push queues a line for the next write.
func (l *Log) push(line Line, done chan error) error {
	if err := line.check(); err != nil {
		return err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		return fault.New(fault.Unavailable, "the audit log is closed: Sandpiper is stopping")
	}
	if len(l.pending)+l.writing >= maxPending {
		if done != nil {
			return fault.New(fault.Unavailable, "the audit log cannot be written, and %d lines are waiting already", maxPending).
				WithHint("the reason is in Sandpiper's log")
		}
		l.lost++
		l.dropped++
		return nil
	}
	l.pending = append(l.pending, waiting{line, time.Now(), done})
	l.schedule(batchDelay)
	return nil
}

// Lost returns the number of dropped lines.
func (l *Log) Lost() int64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.dropped
}

// schedule starts the timer of the next write, unless it is running. The caller holds mu.
func (l *Log) schedule(delay time.Duration) {
	if l.timer != nil {
		return
	}
	l.runs.Add(1)
	l.timer = time.AfterFunc(delay, func() {
		defer l.runs.Done()
		l.mu.Lock()
		l.timer = nil // later lines need a new one
		l.mu.Unlock()
		l.turn <- struct{}{}
		l.write()
		<-l.turn
	})
}

// write writes the pending lines. The caller holds turn.
func (l *Log) write() {
	l.mu.Lock()
	all, lost := l.pending, l.lost
	l.pending, l.writing, l.lost = nil, len(all), 0
	l.mu.Unlock()
	if len(all) == 0 && lost == 0 {
		return
	}
	err := l.commit(all, lost)
	l.logChange(err)
	var failed []waiting
	for _, w := range all {
		switch {
		case w.done != nil:
			w.done <- err
		case err != nil:
			failed = append(failed, w)
		}
	}
	if err == nil {
		lost = 0
	}
	l.requeue(failed, lost)
}

// requeue puts lines that could not be written back into the queue.
func (l *Log) requeue(failed []waiting, lost int64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.pending = append(failed, l.pending...)
	l.writing = 0
	l.lost += lost
	if !l.closed && (len(failed) > 0 || l.lost > 0) {
		l.schedule(retryDelay)
	}
}

// logChange logs when writes begin to fail, and when they succeed again.
func (l *Log) logChange(err error) {
	l.mu.Lock()
	changed := (l.failed == nil) != (err == nil)
	l.failed = err
	l.mu.Unlock()
	switch {
	case changed && err != nil:
		l.cfg.Log.Error("the audit log cannot be written", "error", err)
	case changed:
		l.cfg.Log.Info("the audit log can be written again")
	}
}

// Close writes the pending lines and rejects new ones. It is idempotent. The error
// reports lines that could not be written.
func (l *Log) Close() error {
	l.mu.Lock()
	l.closed = true
	if l.timer != nil && l.timer.Stop() {
		l.runs.Done()
	}
	l.timer = nil
	l.mu.Unlock()
	l.turn <- struct{}{}
	l.write()
	<-l.turn
	l.runs.Wait()
	return errors.Join(l.unwritten(), l.lock.Close())
}

func (l *Log) unwritten() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	n := int64(len(l.pending)) + l.lost
	l.pending, l.lost = nil, 0
	if n == 0 {
		return nil
	}
	return fault.Wrap(fault.KindOf(l.failed), l.failed, "lines of the audit log are lost (%d): %s", n, fault.Message(l.failed)).
		WithHint("%s", fault.Hint(l.failed))
}
