package vault

import (
	"context"
	"crypto/hmac"
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

// Allow stores an exception, for the given value unless that is "". To store it again
// changes nothing.
func (v *Vault) Allow(ctx context.Context, e Exception, value string) (Exception, error) {
	err := v.withKeys(ctx, true, func(k *keys) error {
		if e.ForValue = value != ""; e.ForValue {
			e.mark = k.exceptionMark(value)
		}
		e.CreatedAt = v.cfg.Now()
		e.ID = encoding.EncodeToString(k.sum("exception id", e.Type, e.Tool, e.Key, string(e.mark))[:5])
		return v.update(ctx, func(tx *store.Tx) error {
			if err := k.check(ctx, tx); err != nil {
				return err
			}
			return e.insert(ctx, tx)
		})
	})
	v.exceptions.expire()
	return e, err
}

func (e Exception) insert(ctx context.Context, tx *store.Tx) error {
	var n int
	if err := tx.QueryRowContext(ctx, "SELECT count(*) FROM vault_exceptions WHERE id <> ?", e.ID).Scan(&n); err != nil {
		return err
	}
	if n >= maxExceptions {
		return fault.New(fault.Exhausted, "the tenant has %d exceptions, which is the limit", n).WithHint("remove some with `sandpiper pii disallow`")
	}
	_, err := tx.ExecContext(ctx, "INSERT INTO vault_exceptions (id, type, tool, key, mark, created) VALUES (?, ?, ?, ?, ?, ?) ON CONFLICT DO NOTHING",
		e.ID, string(e.Type), e.Tool, e.Key, e.mark, e.CreatedAt.UnixMilli())
	return err
}

// exceptionMark is equal for spellings of a value that differ in case and blanks only.
func (k *keys) exceptionMark(value string) []byte {
	return k.sum("exception", "", strings.ToLower(strings.Join(strings.Fields(value), " ")))[:16]
}

// Disallow deletes an exception.
func (v *Vault) Disallow(ctx context.Context, id string) error {
	defer v.exceptions.expire()
	return v.update(ctx, func(tx *store.Tx) error {
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

// Exceptions returns the stored exceptions, oldest first.
func (v *Vault) Exceptions(ctx context.Context) (all []Exception, err error) {
	err = v.cfg.DB.View(ctx, func(tx *store.Tx) error {
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

// exceptionCache holds the exceptions as of the last refresh.
type exceptionCache struct {
	mu        sync.Mutex
	all       []Exception
	keys      *keys // nil if no exception is for a value
	refreshed time.Time
}

// exceptionsRefreshEvery is how long changes by other processes may be unnoticed.
const exceptionsRefreshEvery = time.Second

func (c *exceptionCache) expire() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.refreshed = time.Time{}
}

// ExceptionsFor returns the stored exceptions for a value or for every value. After an error
// there are none: everything is private.
func (v *Vault) ExceptionsFor(value string) []Exception {
	c := &v.exceptions
	c.mu.Lock()
	defer c.mu.Unlock()
	v.refreshExceptions()
	if len(c.all) == 0 {
		return nil
	}
	var mark []byte
	if c.keys != nil {
		mark = c.keys.exceptionMark(value)
	}
	return slices.DeleteFunc(slices.Clone(c.all), func(e Exception) bool { return e.ForValue && !hmac.Equal(e.mark, mark) })
}

// HasException reports whether an exception with such a tool and key is stored.
func (v *Vault) HasException(accept func(tool, key string) bool) bool {
	c := &v.exceptions
	c.mu.Lock()
	defer c.mu.Unlock()
	v.refreshExceptions()
	return slices.ContainsFunc(c.all, func(e Exception) bool { return accept(e.Tool, e.Key) })
}

// refreshExceptions reads the exceptions if the last refresh is too long ago. The caller
// holds the lock.
func (v *Vault) refreshExceptions() {
	c, now := &v.exceptions, v.cfg.Now()
	if since := now.Sub(c.refreshed); !c.refreshed.IsZero() && since >= 0 && since < exceptionsRefreshEvery {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), exceptionsRefreshEvery)
	defer cancel()
	all, err := v.Exceptions(ctx)
	var k *keys
	if err == nil && slices.ContainsFunc(all, func(e Exception) bool { return e.ForValue }) {
		k, err = v.keys(ctx, false)
	}
	if err != nil {
		v.cfg.Log.Warn("read the exceptions for private values; none applies", "error", err)
		all, k = nil, nil
	}
	c.all, c.keys, c.refreshed = all, k, now
}
