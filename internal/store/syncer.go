package store

import (
	"errors"
	"io/fs"
	"os"
	"sync"
	"time"

	"github.com/sandpiper-mcp/sandpiper/internal/fault"
)

// syncDelay is the time from a commit of UpdateDeferredSync to its sync.
const syncDelay = 50 * time.Millisecond

// retryDelay is the time from a failed sync to the next attempt.
const retryDelay = 500 * time.Millisecond

// syncer syncs the write-ahead log a short time after a write. Closing a descriptor
// of the log releases no lock: SQLite's locks are on the other files. After a failed
// sync the content of the log on disk is unknown, so the syncer checkpoints it into
// the database, and repeats that until it succeeds.
type syncer struct {
	path       string
	checkpoint func() error // moves the log into the database and syncs that
	end        *ender

	mu     sync.Mutex
	due    *time.Timer // the scheduled sync; nil if everything is on disk
	err    error       // of the last sync
	closed bool
	runs   sync.WaitGroup

	turn    sync.Mutex // held by the sync that runs
	waiting sync.Mutex
	group   *syncGroup // of callers of now that the next sync serves; nil if there are none
}

// syncGroup shares one sync.
type syncGroup struct {
	done bool
	err  error
}

// now syncs what has been committed. Callers that wait for a running sync share the next one.
func (s *syncer) now() error {
	s.waiting.Lock()
	if s.group == nil {
		s.group = &syncGroup{}
	}
	g := s.group
	s.waiting.Unlock()
	s.turn.Lock()
	defer s.turn.Unlock()
	if g.done {
		return g.err
	}
	s.waiting.Lock()
	s.group = nil // commits from here on need another sync
	s.waiting.Unlock()
	g.done, g.err = true, s.attempt()
	return g.err
}

// scheduleSync schedules a sync after syncDelay unless one is scheduled.
func (s *syncer) scheduleSync() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.due == nil && !s.closed {
		s.schedule(syncDelay)
	}
}

// schedule schedules a sync after delay. The caller holds s.mu.
func (s *syncer) schedule(delay time.Duration) {
	s.runs.Add(1)
	s.due = time.AfterFunc(delay, s.run)
}

func (s *syncer) run() {
	defer s.runs.Done()
	s.mu.Lock()
	s.due = nil // later writes need another sync
	s.mu.Unlock()
	_ = s.attempt()
}

// attempt syncs the log, and schedules another attempt if that fails.
func (s *syncer) attempt() error {
	n, err := s.end.committed(), s.failed()
	if err == nil {
		err = s.sync()
	}
	if err != nil {
		err = s.checkpoint()
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.err = nil; err == nil {
		s.end.sync(n)
		return nil
	}
	s.err = fault.Wrap(fault.Unavailable, err, "the disk failed while the database was written; changes of the last moments may be lost").
		WithHint("check the disk of the data directory")
	if s.due == nil && !s.closed {
		s.schedule(retryDelay)
	}
	return s.err
}

func (s *syncer) sync() error {
	f, err := os.OpenFile(s.path, os.O_RDWR, 0)
	if errors.Is(err, fs.ErrNotExist) {
		return nil // the log was checkpointed into the database, which SQLite syncs
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

// close runs a scheduled sync at once, waits for running ones, and prevents further ones.
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
