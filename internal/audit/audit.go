// Package audit keeps the record of what happened: who ran code, what was called,
// decided, restored and changed. It is for the operator, one log for all tenants of
// a data directory, and nothing else is called audit.
//
// A log is files of JSON lines. Each line holds the hash of the line before and one
// of itself, over its exact bytes and under a key, so that the lines are a chain;
// the file head holds where that ends, likewise. Verify finds the first line that
// was changed, dropped, reordered or cut off. Who has the key can write a chain of
// their own, and who puts an older state of all files back leaves no trace in them:
// docs/audit.md says what that means.
//
// A line has names, counts, tokens and words, and no field that could hold code, a
// value or output.
//
// A Log is safe for concurrent use, and any number of processes may write to one
// directory. Lines that come at the same time are written together. The package
// decides nothing and knows nobody who writes to it. It deletes whole files from
// the beginning, if it is told to keep no more, and says so in a line before.
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

// Config of a Log, and of who reads one.
type Config struct {
	Dir      string       // of the log alone, made by Open. Required
	Key      []byte       // 32 bytes; required by Open and Verify
	MaxBytes int64        // of a file, after which another begins; 0 means 64 MiB, or less if Keep says so
	Keep     Keep         // what is not deleted; zero means all
	Log      *slog.Logger // nil discards
}

// Log takes lines.
type Log struct {
	cfg  Config
	lock *flock.Flock
	turn chan struct{} // holds one while somebody writes

	mu      sync.Mutex
	pending []waiting // in the order they came
	taken   int       // that somebody writes at the moment
	lost    int64     // that found no room, and are not counted in the log yet
	gone    int64     // that found no room, ever
	timer   *time.Timer
	closed  bool
	failed  error // of the latest write; was logged

	looked looked // of who has the turn

	runs sync.WaitGroup // of timer
}

// waiting is a line that is not written yet.
type waiting struct {
	line Line
	at   time.Time
	done chan error // nil if nobody waits
}

const (
	// laterDelay is how long a line of Later may wait for others.
	laterDelay = 500 * time.Millisecond
	// retryDelay is how long lines that could not be written wait for the next try.
	retryDelay = 2 * time.Second
	// mostPending lines wait while nothing can be written; more are only counted.
	mostPending = 10_000
	// lockWait is how long one process waits for another that writes.
	lockWait = 5 * time.Second
)

// Open returns the Log of a directory. The caller closes it.
func Open(cfg Config) (*Log, error) {
	if cfg.MaxBytes == 0 {
		cfg.MaxBytes = cfg.Keep.file()
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

// Append adds a line. It is on disk when Append returns nil; after an error it may
// be. A line that does not keep to the form of its fields is Invalid.
func (l *Log) Append(ctx context.Context, line Line) error {
	done := make(chan error, 1)
	if err := l.push(line, done); err != nil {
		return err
	}
	select {
	case err := <-done: // written together with another's
		return err
	case l.turn <- struct{}{}:
		l.write()
		<-l.turn
		return <-done
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// Later adds a line soon. A crash loses those of the last second at most. Lines
// that cannot be written are kept and tried again; those for which there is no room
// are counted, and the count is a line of the log when it can be written again.
func (l *Log) Later(line Line) {
	if err := l.push(line, nil); err != nil {
		l.cfg.Log.Error("a line is not in the audit log", "kind", line.Kind, "error", err)
	}
}

// push has a line wait for the next write.
func (l *Log) push(line Line, done chan error) error {
	if err := line.check(); err != nil {
		return err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		return fault.New(fault.Unavailable, "Sandpiper is stopping, and its audit log takes no more lines")
	}
	if len(l.pending)+l.taken >= mostPending {
		if done != nil {
			return fault.New(fault.Unavailable, "the audit log cannot be written, and %d lines wait for it already", mostPending).
				WithHint("Sandpiper's log says why")
		}
		l.lost++
		l.gone++
		return nil
	}
	l.pending = append(l.pending, waiting{line, time.Now(), done})
	l.soon(laterDelay)
	return nil
}

// Lost returns how many lines found no room.
func (l *Log) Lost() int64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.gone
}

// soon has what waits written, unless that is due already. The caller holds mu.
func (l *Log) soon(delay time.Duration) {
	if l.timer != nil {
		return
	}
	l.runs.Add(1)
	l.timer = time.AfterFunc(delay, func() {
		defer l.runs.Done()
		l.mu.Lock()
		l.timer = nil // what comes from now on needs another
		l.mu.Unlock()
		l.turn <- struct{}{}
		l.write()
		<-l.turn
	})
}

// write writes what waits. The caller has the turn.
func (l *Log) write() {
	l.mu.Lock()
	all, lost := l.pending, l.lost
	l.pending, l.taken, l.lost = nil, len(all), 0
	l.mu.Unlock()
	if len(all) == 0 && lost == 0 {
		return
	}
	err := l.commit(all, lost)
	l.tell(err)
	var again []waiting
	for _, w := range all {
		switch {
		case w.done != nil:
			w.done <- err
		case err != nil:
			again = append(again, w)
		}
	}
	if err == nil {
		lost = 0
	}
	l.keep(again, lost)
}

// keep has lines that could not be written tried again.
func (l *Log) keep(again []waiting, lost int64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.pending = append(again, l.pending...)
	l.taken = 0
	l.lost += lost
	if !l.closed && (len(again) > 0 || l.lost > 0) {
		l.soon(retryDelay)
	}
}

// tell logs when writing begins to fail, and when it works again.
func (l *Log) tell(err error) {
	l.mu.Lock()
	changed := (l.failed == nil) != (err == nil)
	l.failed = err
	l.mu.Unlock()
	switch {
	case changed && err != nil:
		l.cfg.Log.Error("the audit log cannot be written", "error", err)
	case changed:
		l.cfg.Log.Info("the audit log is written again")
	}
}

// Close writes what waits, and takes no more lines. It is idempotent. The error
// says that lines could not be written.
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
