package store

import (
	"errors"
	"io/fs"
	"os"
	"sync"
	"time"

	"github.com/sandpiper-mcp/sandpiper/internal/fault"
)

// syncDelay is how long what UpdateLater wrote may wait for the disk.
const syncDelay = 50 * time.Millisecond

// retryDelay is how long after a failed sync the next is tried.
const retryDelay = 500 * time.Millisecond

// syncer syncs the write-ahead log some time after it was written to. Closing a
// descriptor of that file drops no lock: SQLite holds them on others. After a sync
// that failed it has the log moved into the database, again and again until that
// succeeds: the log alone cannot be trusted then.
type syncer struct {
	path string
	move func() error // moves the log into the database, on disk

	mu     sync.Mutex
	due    *time.Timer // nil if all is on disk
	err    error       // of the last sync
	closed bool
	runs   sync.WaitGroup
}

// soon has the log synced within syncDelay.
func (s *syncer) soon() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.due == nil && !s.closed {
		s.schedule(syncDelay)
	}
}

// schedule has the log synced after a delay; the caller holds the lock.
func (s *syncer) schedule(delay time.Duration) {
	s.runs.Add(1)
	s.due = time.AfterFunc(delay, s.run)
}

func (s *syncer) run() {
	defer s.runs.Done()
	s.mu.Lock()
	s.due = nil // what is written from now on needs another
	err := s.err
	s.mu.Unlock()
	if err == nil {
		err = s.sync()
	}
	if err != nil {
		err = s.move()
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.err = nil; err == nil {
		return
	}
	s.err = fault.Wrap(fault.Unavailable, err, "the disk failed while the database was written; what was answered within the last moment may be lost").
		WithHint("look at the machine's disk")
	if s.due == nil && !s.closed {
		s.schedule(retryDelay)
	}
}

func (s *syncer) sync() error {
	f, err := os.OpenFile(s.path, os.O_RDWR, 0)
	if errors.Is(err, fs.ErrNotExist) {
		return nil // all of it was moved into the database, which SQLite syncs
	}
	if err != nil {
		return err
	}
	defer f.Close()
	return f.Sync()
}

func (s *syncer) failed() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.err
}

// close does what is due at once, and nothing after it.
func (s *syncer) close() error {
	s.mu.Lock()
	s.closed = true
	if s.due != nil && s.due.Stop() {
		s.mu.Unlock()
		s.run()
	} else {
		s.mu.Unlock()
	}
	s.runs.Wait()
	return s.failed()
}
