package store

import (
	"context"
	"sync"
	"time"

	sqlite3 "modernc.org/sqlite/lib"
)

const (
	// checkpointDelay is how long what was committed may be in the write-ahead log
	// alone: a log that is lost or damaged takes that with it.
	checkpointDelay = 5 * time.Second
	// checkpointWait bounds one checkpoint.
	checkpointWait = 30 * time.Second
)

// checkpointer moves the write-ahead log into the database some time after a commit.
// SQLite itself does so when the log has grown, and when the database is closed.
type checkpointer struct {
	mu     sync.Mutex
	due    *time.Timer // nil if nothing was committed since
	closed bool
	runs   sync.WaitGroup
}

// checkpointSoon has the log moved within checkpointDelay.
func (d *DB) checkpointSoon() {
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
		k.due = nil // what is committed from now on needs another
		k.mu.Unlock()
		ctx, cancel := context.WithTimeout(context.Background(), checkpointWait)
		defer cancel()
		if d.checkpoint(ctx) != nil {
			d.checkpointSoon() // others read or write without a break, or the disk is full
		}
	})
}

// checkpoint moves what it can without making others wait.
func (d *DB) checkpoint(ctx context.Context) error {
	if err := d.here(); err != nil {
		return nil // there is nothing to move it into; each write says so
	}
	c, err := d.take(ctx)
	if err != nil {
		return err
	}
	defer d.give(c)
	if _, err := c.ExecContext(ctx, "PRAGMA busy_timeout = 0"); err != nil {
		return err
	}
	defer c.ExecContext(context.WithoutCancel(ctx), "PRAGMA busy_timeout = 5000")
	var busy, pages, moved int
	err = c.QueryRowContext(ctx, "PRAGMA wal_checkpoint(TRUNCATE)").Scan(&busy, &pages, &moved)
	if code(err) == sqlite3.SQLITE_BUSY || err == nil && busy != 0 && moved == pages {
		return nil // all was moved, or somebody else is moving it
	}
	if err == nil && busy != 0 {
		return errBusy
	}
	return err
}

// close ends what is due; the end of the last connection does the same.
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
