package store

import (
	"context"
	"time"
)

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
	c := d.takeFree()
	if c == nil {
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

// Trim closes the connections of a database that is not used for now: its next transaction opens
// one, which takes some milliseconds. As in Close, closing the last one moves the log into the
// database. Trim does nothing while something is written.
func Trim(d *DB) error {
	select {
	case d.writer <- struct{}{}:
		defer func() { <-d.writer }()
	default:
		return nil
	}
	k := &d.checkpoints // whose close, in Close, waits for Trim
	k.mu.Lock()
	d.mu.Lock()
	none := len(d.idle) == 0
	d.mu.Unlock()
	if none || k.closed {
		k.mu.Unlock()
		return nil
	}
	k.runs.Add(1)
	k.mu.Unlock()
	defer k.runs.Done()
	err := d.closeIdle(0)
	d.end.finish()
	return explain(err)
}
