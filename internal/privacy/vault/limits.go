package vault

import (
	"context"
	"time"

	"github.com/sandpiper-mcp/sandpiper/internal/fault"
	"github.com/sandpiper-mcp/sandpiper/internal/store"
)

// Names of counters.
const (
	countRecords   = "records"   // values that are kept
	countDisclosed = "disclosed" // rows of vault_disclosures
	countNew       = "new"       // new values in this hour
	countRequested = "requested" // values tokenized on request in this hour
)

// disclosuresPerRecord limits the stored disclosures.
const disclosuresPerRecord = 4

// count is a row of vault_counts.
type count struct {
	since int64 // beginning of the hour; 0: all time
	n     int
}

// counts are the counters that limits are compared with. They are in the database, so
// that all processes share them.
type counts map[string]count

// readCounts reads the counters; hours that have passed are reset.
func readCounts(ctx context.Context, tx *store.Tx, now time.Time) (counts, error) {
	rows, err := tx.QueryContext(ctx, "SELECT name, since, n FROM vault_counts")
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	c := counts{countNew: {since: now.UnixMilli()}, countRequested: {since: now.UnixMilli()}}
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

// remaining returns the rest of the hour, 0 if it has passed or the clock was set
// back.
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

// Keys of limits in the configuration.
const (
	keyTokens  = "pii.tokens"
	keyNew     = "pii.tokens_per_hour"
	keyQueries = "pii.queries_per_hour"
)

// exceededLimit returns the key of the limit that prevents storing a new value, "" if none.
func (b *batch) exceededLimit(session string) string {
	cfg := b.v.cfg
	switch {
	case b.counts[countRecords].n >= cfg.MaxRecords:
		return keyTokens
	case b.counts[countNew].n >= cfg.MaxNew:
		return keyNew
	case session != "":
		return b.exceededDisclosures()
	}
	return ""
}

func (b *batch) exceededDisclosures() string {
	if b.counts[countDisclosed].n >= disclosuresPerRecord*b.v.cfg.MaxRecords {
		return keyTokens
	}
	return ""
}

// reportRedacted counts that values are redacted, and logs at most once per minute which limit is
// reached.
func (v *Vault) reportRedacted(b *batch) {
	if b.limit == "" {
		return
	}
	v.cfg.refused(b.limit)
	if v.warnings.begin(b.now, time.Minute) {
		v.cfg.Log.Warn("vault limit reached: new values are redacted and cannot be restored", "limit", b.limit)
	}
}

// refused calls OnRefused.
func (c *Config) refused(key string) {
	if c.OnRefused != nil {
		c.OnRefused(key)
	}
}

// ConsumeQuota takes n, or nothing, from the hourly quota of values tokenized on
// request: tokenizing guesses reveals the value of a token.
func (v *Vault) ConsumeQuota(ctx context.Context, n int) error {
	err := v.consume(ctx, n)
	if fault.KindOf(err) == fault.Exhausted {
		v.cfg.refused(keyQueries)
	}
	return err
}

func (v *Vault) consume(ctx context.Context, n int) error {
	if n < 0 || n > v.cfg.MaxOnRequest {
		return fault.New(fault.Exhausted, "cannot tokenize %d values on request: the limit is %d per hour", n, v.cfg.MaxOnRequest).
			WithHint("tokenize fewer; answers to the model are tokenized automatically")
	}
	if n == 0 {
		return nil
	}
	if err := v.db.writeLock.lock(ctx); err != nil {
		return err
	}
	defer v.db.writeLock.unlock()
	now := v.cfg.Now()
	return v.db.UpdateDeferredSync(ctx, func(tx *store.Tx) error {
		c, err := readCounts(ctx, tx, now)
		if err != nil {
			return err
		}
		if requested := c[countRequested]; requested.n+n > v.cfg.MaxOnRequest {
			return quotaExceeded(requested, v.cfg.MaxOnRequest, now)
		}
		c.add(countRequested, n)
		return c.write(ctx, tx)
	})
}

func quotaExceeded(requested count, most int, now time.Time) error {
	wait := (requested.remaining(now) + time.Minute - 1).Truncate(time.Minute)
	return fault.New(fault.Exhausted, "%d of the %d values per hour were tokenized on request; try again in %d minutes", requested.n, most,
		int(wait.Minutes())).
		WithHint("answers to the model are tokenized automatically")
}
