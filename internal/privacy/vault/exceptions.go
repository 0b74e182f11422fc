package vault

import (
	"context"
	"crypto/hmac"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/sandpiper-mcp/sandpiper/internal/fault"
	"github.com/sandpiper-mcp/sandpiper/internal/privacy/detect"
	"github.com/sandpiper-mcp/sandpiper/internal/store"
)

// ExceptionQuery selects the ids of exceptions; see home.Names.
const ExceptionQuery = "SELECT id, trim(type || ' ' || tool || ' ' || key) FROM vault_exceptions ORDER BY created DESC"

// Exception is a rule of the operator for values that are detected and not private. Fields
// that are empty match everything. Only a keyed hash of a value is stored.
type Exception struct {
	ID        string // derived from the rest
	Type      detect.Type
	Tool      string // "server.tool", where * matches any letters
	Key       string
	ForValue  bool // it is for one value
	CreatedAt time.Time

	mark []byte
}

const maxExceptions = 1000

// Exceptions stores exceptions and finds them, as of the last refresh.
type Exceptions struct {
	db   *database
	ring *keyRing
	now  func() time.Time
	log  *slog.Logger

	mu        sync.Mutex
	all       []Exception
	keys      *keys // nil if no exception is for a value
	refreshed time.Time
}

// Allow stores an exception, for the given value unless that is "". To store it again
// changes nothing.
func (x *Exceptions) Allow(ctx context.Context, e Exception, value string) (Exception, error) {
	err := x.ring.with(ctx, true, func(k *keys) error {
		if e.ForValue = value != ""; e.ForValue {
			e.mark = k.exceptionMark(value)
		}
		e.CreatedAt = x.now()
		e.ID = encoding.EncodeToString(k.sum("exception id", e.Type, e.Tool, e.Key, string(e.mark))[:5])
		return x.db.update(ctx, func(tx *store.Tx) error {
			if err := k.check(ctx, tx); err != nil {
				return err
			}
			return e.insert(ctx, tx)
		})
	})
	x.expire()
	return e, err
}

func (e Exception) insert(ctx context.Context, tx *store.Tx) error {
	var n int
	if err := tx.QueryRowContext(ctx, "SELECT count(*) FROM vault_exceptions WHERE id <> ?", e.ID).Scan(&n); err != nil {
		return err
	}
	if n >= maxExceptions {
		return fault.New(fault.Exhausted, "the tenant has %d exceptions, which is the limit", n).
			WithHint("remove some with `sandpiper pii disallow`")
	}
	_, err := tx.ExecContext(ctx, "INSERT INTO vault_exceptions (id, type, tool, key, mark, created) VALUES (?, ?, ?, ?, ?, ?) ON "+
		"CONFLICT DO NOTHING",
		e.ID, string(e.Type), e.Tool, e.Key, e.mark, e.CreatedAt.UnixMilli())
	return err
}

// exceptionMark is equal for spellings of a value that differ in case and blanks only.
func (k *keys) exceptionMark(value string) []byte {
	return k.sum("exception", "", strings.ToLower(strings.Join(strings.Fields(value), " ")))[:16]
}

// Disallow deletes an exception.
func (x *Exceptions) Disallow(ctx context.Context, id string) error {
	defer x.expire()
	return x.db.update(ctx, func(tx *store.Tx) error {
		done, err := tx.ExecContext(ctx, "DELETE FROM vault_exceptions WHERE id = ?", id)
		if err != nil {
			return err
		}
		if n, err := done.RowsAffected(); err != nil || n > 0 {
			return err
		}
		return fault.New(fault.NotFound, "there is no exception %.40q", id).WithHint("list them with `sandpiper pii allowed`")
	})
}

// List returns the stored exceptions, oldest first.
func (x *Exceptions) List(ctx context.Context) (all []Exception, err error) {
	err = x.db.View(ctx, func(tx *store.Tx) error {
		rows, err := tx.QueryContext(ctx, "SELECT id, type, tool, key, mark, created FROM vault_exceptions ORDER BY created, id")
		if err != nil {
			return err
		}
		defer rows.Close()
		for rows.Next() {
			var e Exception
			var created int64
			if err := rows.Scan(&e.ID, (*string)(&e.Type), &e.Tool, &e.Key, &e.mark, &created); err != nil {
				return err
			}
			e.ForValue, e.CreatedAt = e.mark != nil, time.UnixMilli(created)
			all = append(all, e)
		}
		return rows.Err()
	})
	return all, err
}

// exceptionsRefreshEvery is how long changes by other processes may be unnoticed.
const exceptionsRefreshEvery = time.Second

func (x *Exceptions) expire() {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.refreshed = time.Time{}
}

// For returns the stored exceptions for a value or for every value. After an error
// there are none: everything is private.
func (x *Exceptions) For(value string) []Exception {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.refresh()
	if len(x.all) == 0 {
		return nil
	}
	var mark []byte
	if x.keys != nil {
		mark = x.keys.exceptionMark(value)
	}
	return slices.DeleteFunc(slices.Clone(x.all), func(e Exception) bool { return e.ForValue && !hmac.Equal(e.mark, mark) })
}

// Has reports whether an exception with such a tool and key is stored.
func (x *Exceptions) Has(accept func(tool, key string) bool) bool {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.refresh()
	return slices.ContainsFunc(x.all, func(e Exception) bool { return accept(e.Tool, e.Key) })
}

// refresh reads the exceptions if the last refresh is too long ago. The caller
// holds the lock.
func (x *Exceptions) refresh() {
	now := x.now()
	if since := now.Sub(x.refreshed); !x.refreshed.IsZero() && since >= 0 && since < exceptionsRefreshEvery {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), exceptionsRefreshEvery)
	defer cancel()
	all, err := x.List(ctx)
	var k *keys
	if err == nil && slices.ContainsFunc(all, func(e Exception) bool { return e.ForValue }) {
		k, err = x.ring.open(ctx, false)
	}
	if err != nil {
		x.log.Warn("read the exceptions for private values; none applies", "error", err)
		all, k = nil, nil
	}
	x.all, x.keys, x.refreshed = all, k, now
}
