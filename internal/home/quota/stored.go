package quota

import (
	"context"
	"fmt"
	"time"

	"github.com/sandpiper-mcp/sandpiper/internal/store"
)

// Tables creates the table of quotas.
const Tables = `
CREATE TABLE quotas (
	name TEXT    NOT NULL,
	step INTEGER NOT NULL, -- Unix milliseconds of its start
	used INTEGER NOT NULL,
	PRIMARY KEY (name, step)
) STRICT, WITHOUT ROWID;
`

// writeAfter bounds the delay of a write, writeAgain that of another one after a failure, and
// readEvery the age of the counts of other processes.
const (
	writeAfter = 500 * time.Millisecond
	writeAgain = 5 * time.Second
	readEvery  = 500 * time.Millisecond
)

// writeLater schedules a write. The caller holds the lock.
func (c *Counter) writeLater(delay time.Duration) {
	if c.timer == nil && !c.closed {
		c.writes.Add(1)
		c.timer = time.AfterFunc(delay, func() { defer c.writes.Done(); c.write() })
	}
}

// refresh reads what all processes have used. The caller holds the lock.
func (c *Counter) refresh(ctx context.Context) error {
	now := c.now()
	if since := now.Sub(c.read); !c.read.IsZero() && since >= 0 && since < readEvery {
		return nil
	}
	windows := map[Name]window{}
	err := c.db.View(ctx, func(tx *store.Tx) error {
		rows, err := tx.QueryContext(ctx, "SELECT name, step, used FROM quotas")
		if err != nil {
			return err
		}
		defer rows.Close()
		for rows.Next() {
			var n Name
			var step, used int64
			if err := rows.Scan(&n, &step, &used); err != nil {
				return err
			}
			if windows[n] == nil {
				windows[n] = window{}
			}
			windows[n][step] = used
		}
		return rows.Err()
	})
	if err != nil {
		return fmt.Errorf("read the quotas: %w", err)
	}
	for n, byStep := range windows {
		if byStep.isAhead(n, now) {
			if err := c.moveBack(ctx, n, now, byStep); err != nil {
				return fmt.Errorf("correct the quotas after the clock was put back: %w", err)
			}
		}
	}
	c.windows, c.read = windows, now
	for n, byStep := range c.unwritten {
		for step, used := range byStep {
			c.window(n)[step] += used
		}
	}
	return nil
}

// isAhead reports whether a step is in the future: the clock was put back since.
func (w window) isAhead(n Name, now time.Time) bool {
	last := n.step(now) + (n.period() / steps).Milliseconds()
	for step := range w {
		if step > last {
			return true
		}
	}
	return false
}

// moveBack counts what was used in the future as used now, so that it is available again after one
// period. The caller holds the lock.
func (c *Counter) moveBack(ctx context.Context, n Name, now time.Time, of window) error {
	step := n.step(now)
	for _, w := range []window{of, c.unwritten[n]} {
		for at, used := range w {
			if at > step {
				delete(w, at)
				w[step] += used
			}
		}
	}
	return c.db.UpdateDeferredSync(ctx, func(tx *store.Tx) error {
		_, err := tx.ExecContext(ctx, `INSERT INTO quotas (name, step, used) SELECT name, ?1, sum(used) FROM quotas WHERE name = ?2 AND step > ?1 GROUP BY name
			ON CONFLICT (name, step) DO UPDATE SET used = used + excluded.used`, step, n)
		if err == nil {
			_, err = tx.ExecContext(ctx, "DELETE FROM quotas WHERE name = ? AND step > ?", n, step)
		}
		return err
	})
}

// write adds what was counted to the database, and deletes what has expired.
func (c *Counter) write() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.timer = nil
	if len(c.unwritten) == 0 {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	now := c.now()
	err := c.db.UpdateDeferredSync(ctx, func(tx *store.Tx) error {
		for n, byStep := range c.unwritten {
			for step, used := range byStep {
				if _, err := tx.ExecContext(ctx, `INSERT INTO quotas (name, step, used) VALUES (?, ?, ?)
					ON CONFLICT (name, step) DO UPDATE SET used = used + excluded.used`, n, step, used); err != nil {
					return err
				}
			}
			if _, err := tx.ExecContext(ctx, "DELETE FROM quotas WHERE name = ? AND step < ?", n, now.Add(-2*n.period()).
				UnixMilli()); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		c.log.Warn("write the quotas; they are written later", "error", err)
		c.writeLater(writeAgain)
		return
	}
	clear(c.unwritten)
}
