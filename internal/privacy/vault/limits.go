package vault

import (
	"context"
	"time"

	"github.com/sandpiper-mcp/sandpiper/internal/fault"
	"github.com/sandpiper-mcp/sandpiper/internal/store"
)

// Names of what is counted.
const (
	countRecords = "records"   // values that are kept
	countGiven   = "disclosed" // rows of vault_disclosures
	countNew     = "new"       // values taken in this hour
	countAsked   = "requested" // values tokenised on request in this hour
)

// givenPerRecord bounds what is remembered of who was given what.
const disclosuresPerRecord = 4

// count is a row of vault_counts.
type count struct {
	since int64 // when the hour began, 0 for what has no hour
	n     int
}

// counts are what bounds are held against. They lie in the database, so that all
// processes share them.
type counts map[string]count

// readCounts reads the counts as they are now: an hour that has passed is over.
func readCounts(ctx context.Context, tx *store.Tx, now time.Time) (counts, error) {
	rows, err := tx.QueryContext(ctx, "SELECT name, since, n FROM vault_counts")
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	c := counts{countNew: {since: now.UnixMilli()}, countAsked: {since: now.UnixMilli()}}
	for rows.Next() {
		var name string
		var one count
		if err := rows.Scan(&name, &one.since, &one.n); err != nil {
			return nil, err
		}
		if one.since == 0 || one.remaining(now) > 0 {
			c[name] = one
		}
	}
	return c, rows.Err()
}

// left is how much of the hour is left, 0 if it is over or the clock was set back.
func (c count) remaining(now time.Time) time.Duration {
	since := now.Sub(time.UnixMilli(c.since))
	if since < 0 || since >= time.Hour {
		return 0
	}
	return time.Hour - since
}

func (c counts) add(name string, n int) {
	one := c[name]
	one.n += n
	c[name] = one
}

func (c counts) write(ctx context.Context, tx *store.Tx) error {
	for name, one := range c {
		_, err := tx.ExecContext(ctx, `INSERT INTO vault_counts (name, since, n) VALUES (?, ?, ?)
			ON CONFLICT (name) DO UPDATE SET since = excluded.since, n = excluded.n`, name, one.since, one.n)
		if err != nil {
			return err
		}
	}
	return nil
}

// full names the bound that keeps a value out which is new, "" if none does.
func (b *batch) exceededLimit(session string) string {
	cfg := b.v.cfg
	switch {
	case b.counts[countRecords].n >= cfg.MaxRecords:
		return "values kept"
	case b.counts[countNew].n >= cfg.MaxNew:
		return "new values in an hour"
	case session != "":
		return b.exceededDisclosures()
	}
	return ""
}

func (b *batch) exceededDisclosures() string {
	if b.counts[countGiven].n >= disclosuresPerRecord*b.v.cfg.MaxRecords {
		return "values given to sessions"
	}
	return ""
}

// sayWithheld says once a minute that values are withheld, and why.
func (v *Vault) logRedacted(b *batch) {
	if b.limit == "" {
		return
	}
	v.lastWarning.Lock()
	defer v.lastWarning.Unlock()
	if since := b.now.Sub(v.lastWarning.at); since >= 0 && since < time.Minute {
		return
	}
	v.lastWarning.at = b.now
	v.cfg.Log.Warn("the vault is full: new values are withheld", "bound", b.limit)
}

// Ask takes n from what may be tokenised on request in an hour: who may have any
// value tokenised can find out what a token stands for by trying. It takes all or
// nothing.
func (v *Vault) ConsumeQuota(ctx context.Context, n int) error {
	if n < 0 || n > v.cfg.MaxOnRequest {
		return fault.New(fault.Exhausted, "%d values cannot be tokenised on request: %d in an hour are allowed", n, v.cfg.MaxOnRequest).
			WithHint("tokenise fewer; what leaves for a model is tokenised without being asked")
	}
	if n == 0 {
		return nil
	}
	if err := v.writeLock.lock(ctx); err != nil {
		return err
	}
	defer v.writeLock.unlock()
	now := v.cfg.Now()
	return v.cfg.DB.UpdateDeferredSync(ctx, func(tx *store.Tx) error {
		c, err := readCounts(ctx, tx, now)
		if err != nil {
			return err
		}
		if asked := c[countAsked]; asked.n+n > v.cfg.MaxOnRequest {
			return quotaExceeded(asked, v.cfg.MaxOnRequest, now)
		}
		c.add(countAsked, n)
		return c.write(ctx, tx)
	})
}

func quotaExceeded(asked count, most int, now time.Time) error {
	wait := (asked.remaining(now) + time.Minute - 1).Truncate(time.Minute)
	return fault.New(fault.Exhausted, "%d of %d values of this hour were tokenised on request; try again in %d minutes", asked.n, most, int(wait.Minutes())).
		WithHint("what leaves for a model is tokenised without being asked")
}
