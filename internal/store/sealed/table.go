package sealed

import (
	"context"
	"database/sql"
	"errors"
	"math"
	"strings"
	"time"

	"github.com/sandpiper-mcp/sandpiper/internal/fault"
	"github.com/sandpiper-mcp/sandpiper/internal/store"
)

// Tables creates the table of the bodies of all kinds, and that of the last version of each kind: a
// version is not used again, also for a name that was deleted.
const Tables = `
CREATE TABLE sealed (
	kind    TEXT    NOT NULL, -- as in Table
	name    TEXT    NOT NULL,
	version INTEGER NOT NULL, -- grows with each change of the kind
	updated INTEGER NOT NULL, -- Unix milliseconds
	size    INTEGER NOT NULL, -- bytes of the text
	body    BLOB    NOT NULL, -- encrypted
	PRIMARY KEY (kind, name)
) STRICT;
CREATE INDEX sealed_limits ON sealed (kind, version, updated, size, name);
CREATE TABLE sealed_versions (
	kind    TEXT    NOT NULL PRIMARY KEY,
	version INTEGER NOT NULL
) STRICT;
`

// Bodies is the encrypted column of all kinds.
var Bodies = Column{Table: "sealed", Name: "body", Keys: []string{"kind", "name"}}

// Store is a database that has Tables, and the Cipher of its owner.
type Store struct {
	DB     *store.DB
	Cipher Cipher
}

// Table contains the bodies of one kind, by name. Methods with a transaction are part of it; the
// others have their own.
type Table struct {
	Store
	Kind   string                  // bound to each body. Required
	Number int                     // of bodies; 0 means no limits
	Bytes  int                     // of all texts, if Number is set
	Keep   time.Duration           // after its last change, until a body expires; 0 means forever
	Now    func() time.Time        // nil means time.Now
	Room   func(bytes int64) error // fails if the disk has no room for so many more bytes; nil means always

	Noun    string // what errors call a body
	Missing string // format of the error for a name without a body
	Hints   Hints
}

// Hints are those of the errors of a Table.
type Hints struct {
	Missing string // "" means similar names
	Full    string // a limit is reached
	Damaged string
}

// Entry describes a body.
type Entry struct {
	Name    string    `json:"name"`
	Version int64     `json:"version"` // grows with each change; 0 means that there is no body
	Updated time.Time `json:"updated"`
	Size    int       `json:"size"` // bytes of the text
}

// Body is an entry with its text.
type Body struct {
	Entry
	Text    []byte
	Damaged error // why Text is missing
}

func (t *Table) now() time.Time {
	if t.Now != nil {
		return t.Now()
	}
	return time.Now()
}

// oldest returns the time of change, in Unix milliseconds, before which a body has expired.
func (t *Table) oldest() int64 {
	if t.Keep == 0 {
		return 0
	}
	return t.now().Add(-t.Keep).UnixMilli()
}

// Put stores a body in place of one of that name, and returns its version. The error is Exhausted if
// the other bodies leave no room.
func (t *Table) Put(ctx context.Context, tx *store.Tx, name string, text []byte) (version int64, err error) {
	if t.Room != nil {
		if err := t.Room(int64(len(text))); err != nil {
			return 0, err
		}
	}
	if t.Number > 0 {
		var number, bytes int
		if err := tx.QueryRowContext(ctx, "SELECT count(*), coalesce(sum(size), 0) FROM sealed WHERE kind = ? AND name <> ?", t.Kind, name).
			Scan(&number, &bytes); err != nil {
			return 0, err
		}
		if number >= t.Number || bytes+len(text) > t.Bytes {
			return 0, fault.New(fault.Exhausted, "%s %q cannot be saved: %d others have %d bytes; at most %d and %d bytes are allowed",
				t.Noun, name, number, bytes, t.Number, t.Bytes).
				WithHint("%s", t.Hints.Full)
		}
	}
	err = tx.QueryRowContext(ctx, "INSERT INTO sealed_versions (kind, version) VALUES (?, 1) ON CONFLICT (kind) DO UPDATE SET version = "+
		"version + 1 RETURNING version", t.Kind).Scan(&version)
	if err == nil {
		_, err = tx.ExecContext(ctx, "INSERT OR REPLACE INTO sealed (kind, name, version, updated, size, body) VALUES (?, ?, ?, ?, ?, ?)",
			t.Kind, name, version, t.now().UnixMilli(), len(text), t.Cipher.Seal(Bodies, text, t.Kind, name))
	}
	return version, err
}

// Delete deletes a body, and reports whether there was one.
func (t *Table) Delete(ctx context.Context, tx *store.Tx, name string) (bool, error) {
	done, err := tx.ExecContext(ctx, "DELETE FROM sealed WHERE kind = ? AND name = ?", t.Kind, name)
	if err != nil {
		return false, err
	}
	n, err := done.RowsAffected()
	return n > 0, err
}

// DeletePrefix deletes the bodies whose names have a prefix, and returns how many there were.
func (t *Table) DeletePrefix(ctx context.Context, tx *store.Tx, prefix string) (int, error) {
	done, err := tx.ExecContext(ctx, "DELETE FROM sealed WHERE kind = ? AND substr(name, 1, length(?)) = ?", t.Kind, prefix, prefix)
	if err != nil {
		return 0, err
	}
	n, err := done.RowsAffected()
	return int(n), err
}

// Version returns the version of a body, 0 if there is none.
func (t *Table) Version(ctx context.Context, tx *store.Tx, name string) (version int64, err error) {
	err = tx.QueryRowContext(ctx, "SELECT version FROM sealed WHERE kind = ? AND name = ?", t.Kind, name).Scan(&version)
	if errors.Is(err, sql.ErrNoRows) {
		return 0, nil
	}
	return version, err
}

// Find returns a body. The error is NotFound if there is none, and Internal if it is damaged.
func (t *Table) Find(ctx context.Context, name string) (b Body, err error) {
	err = t.DB.View(ctx, func(tx *store.Tx) error {
		all, err := t.read(ctx, tx, "body", " AND name = ?", name)
		if err != nil {
			return err
		}
		if len(all) == 0 {
			return t.NotFound(ctx, tx, name)
		}
		b = all[0]
		return b.Damaged
	})
	return b, err
}

// NotFound returns the error for a name without a body.
func (t *Table) NotFound(ctx context.Context, tx *store.Tx, name string) error {
	e := fault.New(fault.NotFound, t.Missing, name)
	if t.Hints.Missing != "" {
		return e.WithHint("%s", t.Hints.Missing)
	}
	all, err := t.read(ctx, tx, "NULL", "")
	if err != nil {
		return err
	}
	names := make([]string, len(all))
	for i, b := range all {
		names[i] = b.Name
	}
	if near := fault.Nearest(name, names, 3); near != nil {
		return e.WithHint("there is %s", strings.Join(near, ", "))
	}
	return e
}

// List describes all bodies, by name.
func (t *Table) List(ctx context.Context) ([]Entry, error) {
	all := []Entry{}
	err := t.DB.View(ctx, func(tx *store.Tx) error {
		bodies, err := t.read(ctx, tx, "NULL", "")
		for _, b := range bodies {
			all = append(all, b.Entry)
		}
		return err
	})
	return all, err
}

// All returns all bodies, by name, with the damaged ones.
func (t *Table) All(ctx context.Context, tx *store.Tx) ([]Body, error) {
	return t.read(ctx, tx, "body", "")
}

// WithPrefix returns the bodies whose names have a prefix, by name, with the damaged ones.
func (t *Table) WithPrefix(ctx context.Context, tx *store.Tx, prefix string) ([]Body, error) {
	return t.read(ctx, tx, "body", " AND substr(name, 1, length(?)) = ?", prefix, prefix)
}

// read returns the bodies that meet a condition; with the column "NULL" instead of "body", without texts.
func (t *Table) read(ctx context.Context, tx *store.Tx, column, condition string, args ...any) (all []Body, err error) {
	rows, err := tx.QueryContext(ctx, "SELECT name, version, updated, size, "+column+" FROM sealed WHERE kind = ? AND updated >= ?"+
		condition+" ORDER BY name",
		append([]any{t.Kind, t.oldest()}, args...)...)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	for rows.Next() {
		var b Body
		var updated int64
		var encrypted []byte
		if err := rows.Scan(&b.Name, &b.Version, &updated, &b.Size, &encrypted); err != nil {
			return nil, err
		}
		b.Updated = time.UnixMilli(updated).UTC()
		if column == "body" {
			b.Text, err = t.Cipher.Open(Bodies, encrypted, t.Kind, b.Name)
		}
		if err != nil {
			b.Damaged = fault.Wrap(fault.Internal, err, "%s %q is damaged or was encrypted with another key", t.Noun, b.Name).
				WithHint("%s", t.Hints.Damaged)
		}
		all = append(all, b)
	}
	return all, rows.Err()
}

// Expire deletes the bodies that have expired.
func (t *Table) Expire(ctx context.Context) error {
	old := false
	err := t.DB.View(ctx, func(tx *store.Tx) error {
		return tx.QueryRowContext(ctx, "SELECT EXISTS (SELECT 1 FROM sealed WHERE kind = ? AND updated < ?)", t.Kind, t.oldest()).Scan(&old)
	})
	if err != nil || !old { // the usual case: no commit
		return err
	}
	return t.DB.Update(ctx, func(tx *store.Tx) error { return t.Evict(ctx, tx, math.MaxInt, math.MaxInt64) })
}

// Evict deletes the bodies that have expired, and the oldest of more than a number or size.
func (t *Table) Evict(ctx context.Context, tx *store.Tx, number int, bytes int64) error {
	_, err := tx.ExecContext(ctx, `DELETE FROM sealed WHERE kind = ?1 AND (updated < ?2 OR version <= (SELECT max(version) FROM (
		SELECT version, count(*) OVER latest AS number, sum(size) OVER latest AS bytes FROM sealed WHERE kind = ?1
		WINDOW latest AS (ORDER BY version DESC ROWS UNBOUNDED PRECEDING)) WHERE number > ?3 OR bytes > ?4))`, t.Kind, t.oldest(), number, bytes)
	return err
}
