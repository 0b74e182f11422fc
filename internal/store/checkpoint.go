package store

import (
	"context"
	"sync"
	"time"

	sqlite3 "modernc.org/sqlite/lib"
)

const (
	// checkpointDelay is the time from a commit to its checkpoint. Until then a lost
	// or damaged write-ahead log loses the commit.
	checkpointDelay = 5 * time.Second
	// checkpointWait limits the duration of one checkpoint.
	checkpointWait = 30 * time.Second
)

// checkpointer moves the write-ahead log into the database some time after a commit.
// SQLite does this only when the log has grown and when the database is closed.
type checkpointer struct {
	mu     sync.Mutex
	due    *time.Timer // the scheduled checkpoint; nil if there is none
	closed bool
	runs   sync.WaitGroup
}

// scheduleCheckpoint schedules a checkpoint after checkpointDelay unless one is scheduled.
func (d *DB) scheduleCheckpoint() {
	k := &d.checkpoints
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.due != nil || k.closed {
		return
	}
	k.runs.Add(1)
	k.due = time.AfterFunc(checkpointDelay, func() {
		defer k.runs.Done()
		k.mu.Lock()
		k.due = nil // later commits need another checkpoint
		k.mu.Unlock()
		ctx, cancel := context.WithTimeout(context.Background(), checkpointWait)
		defer cancel()
		_ = d.closeIdle(1) // they contain no changes
		if d.checkpoint(ctx) != nil || !shrink(ctx, d) {
			d.scheduleCheckpoint() // the database is in constant use, or the disk is full
		}
	})
}

// checkpoint moves as much of the log as possible without blocking other connections.
func (d *DB) checkpoint(ctx context.Context) error {
	if err := d.checkFile(); err != nil {
		return nil // the database file is missing; each write reports it
	}
	c, err := d.acquire(ctx)
	if err != nil {
		return err
	}
	defer d.release(c)
	if _, err := c.ExecContext(ctx, "PRAGMA busy_timeout = 0"); err != nil {
		return err
	}
	defer c.ExecContext(context.WithoutCancel(ctx), "PRAGMA busy_timeout = 5000")
	var busy, pages, moved int
	err = emptyLog(ctx, d, func() error {
		return c.QueryRowContext(ctx, "PRAGMA wal_checkpoint(TRUNCATE)").Scan(&busy, &pages, &moved)
	})
	if code(err) == sqlite3.SQLITE_BUSY || err == nil && busy != 0 && moved == pages {
		return nil // everything was moved, or another connection runs a checkpoint
	}
	if err == nil && busy != 0 {
		return errBusy
	}
	return err
}

// shrinkAfter is how long a database is unused before its connection gives memory back. It is less than
// checkpointDelay, after which that is tried again.
const shrinkAfter = checkpointDelay * 3 / 4

// shrink frees the cached pages and the prepared statements of an unused database, more than half of the memory
// of its connection: its next transactions read and prepare them again, which takes a fraction of opening it. It
// does nothing and reports false if the database was used recently.
func shrink(ctx context.Context, d *DB) bool {
	if time.Since(time.Unix(0, d.used.Load())) < shrinkAfter {
		return false
	}
	select {
	case d.slots <- struct{}{}:
	default:
		return true // it is used, and will be tried again after the next commit
	}
	c := d.takeIdle()
	if c == nil {
		<-d.slots
		return true
	}
	defer d.release(c)
	for _, s := range c.prepared {
		_ = s.Close() // it has not run since, so it reports no error
	}
	clear(c.prepared)
	_, _ = c.ExecContext(ctx, "PRAGMA shrink_memory") // an error leaves the cache as it is
	return true
}

// close cancels a scheduled checkpoint and waits for a running one. SQLite runs a
// checkpoint itself when the last connection is closed.
func (k *checkpointer) close() {
	k.mu.Lock()
	k.closed = true
	if k.due != nil && k.due.Stop() {
		k.runs.Done()
	}
	k.due = nil
	k.mu.Unlock()
	k.runs.Wait()
}
