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
	err = c.QueryRowContext(ctx, "PRAGMA wal_checkpoint(TRUNCATE)").Scan(&busy, &pages, &moved)
	if code(err) == sqlite3.SQLITE_BUSY || err == nil && busy != 0 && moved == pages {
		return nil // everything was moved, or another connection runs a checkpoint
	}
	if err == nil && busy != 0 {
		return errBusy
	}
	return err
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
