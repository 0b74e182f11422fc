// Package state stores small JSON values of a tenant by name, for code that continues where
// earlier code stopped.
//
// Each change gives a name a new version, so that a writer can replace only what it has read.
// Values are encrypted and bound to their name. A Store is safe for concurrent use, and several
// processes may have one for the same database.
package state

import (
	"bytes"
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/sandpiper-mcp/sandpiper/internal/fault"
	"github.com/sandpiper-mcp/sandpiper/internal/store"
	"github.com/sandpiper-mcp/sandpiper/internal/store/sealed"
)

// Tables creates the table of the values. AUTOINCREMENT never uses a version again, also for a
// name that was deleted.
const Tables = `
CREATE TABLE states (
	version   INTEGER NOT NULL PRIMARY KEY AUTOINCREMENT,
	name      TEXT    NOT NULL UNIQUE,
	updated   INTEGER NOT NULL, -- Unix milliseconds
	size      INTEGER NOT NULL, -- bytes of JSON
	encrypted BLOB    NOT NULL
) STRICT;
`

// NameQuery selects the names of the values; see home.Names.
const NameQuery = "SELECT name, size || ' bytes' FROM states ORDER BY name"

// Limits of a tenant's values.
const (
	MaxName   = 200       // characters of a name
	MaxBytes  = 256 << 10 // of one value in JSON
	MaxNames  = 1000
	MaxStored = 16 << 20 // bytes of all values
)

// Config of a Store.
type Config struct {
	DB  *store.DB // with Tables in it. Required
	Key []byte    // encryption key of the tenant, 32 bytes. Required
	// Room fails if the disk has no room for so many more bytes; nil means always.
	Room func(bytes int64) error
}

// Entry describes a value.
type Entry struct {
	Name    string    `json:"name"`
	Version int64     `json:"version"` // grows with each change; 0 means that there is no value
	Updated time.Time `json:"updated"`
	Size    int       `json:"size"` // bytes of JSON
}

// State is a value.
type State struct {
	Entry
	Value json.RawMessage `json:"value"`
}

// Draft is a change of a value.
type Draft struct {
	Name    string
	Value   json.RawMessage // JSON; null deletes
	Version *int64          // replace this version only, 0 if there is no value; nil replaces any
}

// Check reports what is wrong with d.
func (d Draft) Check() error {
	if err := CheckName(d.Name); err != nil {
		return err
	}
	switch {
	case len(d.Value) > MaxBytes:
		return fault.New(fault.Exhausted, "state %q would have %d bytes of JSON; at most %d are allowed", d.Name, len(d.Value), MaxBytes).
			WithHint("write large data to a file in /workspace, and save its name")
	case !json.Valid(d.Value):
		return fault.New(fault.Invalid, "the value of state %q is not JSON", d.Name)
	case d.Version != nil && *d.Version < 0:
		return fault.New(fault.Invalid, "the version of state %q is %d; it is 0 or more", d.Name, *d.Version)
	}
	return nil
}

// Deletes reports whether d deletes the value.
func (d Draft) Deletes() bool { return string(bytes.TrimSpace(d.Value)) == "null" }

// CheckName reports why a name is not allowed.
func CheckName(name string) error {
	const rule = "a name has 1 to %d characters, none of them a control character, and no space at its ends"
	n := utf8.RuneCountInString(name)
	if n < 1 || n > MaxName || !utf8.ValidString(name) || strings.TrimSpace(name) != name || strings.ContainsFunc(name, unicode.IsControl) {
		return fault.New(fault.Invalid, "state %.60q cannot be a name", name).WithHint(rule, MaxName)
	}
	return nil
}

// Conflict is the cause of an error of Put: the value has another version.
type Conflict struct{ Version int64 }

func (c *Conflict) Error() string { return fmt.Sprintf("the version is %d", c.Version) }

// CheckVersion returns an error with cause Conflict if d replaces another version than have.
func (d Draft) CheckVersion(have int64) error {
	if d.Version == nil || *d.Version == have {
		return nil
	}
	what := fmt.Sprintf("has version %d, not %d", have, *d.Version)
	if have == 0 {
		what = fmt.Sprintf("does not exist; version %d was expected", *d.Version)
	}
	return fault.Wrap(fault.Denied, &Conflict{have}, "state %q %s", d.Name, what).WithHint("it has changed since it was read: read it again, and repeat the change")
}

// Store contains the values of one tenant.
type Store struct {
	cfg Config
	box sealed.Box
}

// New returns the Store of a database. It does no I/O.
func New(cfg Config) (*Store, error) {
	if cfg.DB == nil {
		return nil, errors.New("state: Config needs a DB")
	}
	box, err := sealed.New(cfg.Key, "")
	return &Store{cfg, box}, err
}

var content = sealed.Column{Table: "states", Name: "encrypted", Keys: []string{"name"}}

// Put changes a value and returns its version, 0 if it was deleted. The change is on disk when Put
// returns.
func (s *Store) Put(ctx context.Context, d Draft) (version int64, err error) {
	if err := d.Check(); err != nil {
		return 0, err
	}
	var compact bytes.Buffer
	if err := json.Compact(&compact, d.Value); err != nil {
		return 0, err
	}
	d.Value = compact.Bytes()
	if s.cfg.Room != nil && !d.Deletes() {
		if err := s.cfg.Room(int64(len(d.Value))); err != nil {
			return 0, err
		}
	}
	err = s.cfg.DB.Update(ctx, func(tx *store.Tx) error {
		version, err = s.put(ctx, tx, d)
		return err
	})
	return version, err
}

func (s *Store) put(ctx context.Context, tx *store.Tx, d Draft) (version int64, err error) {
	have, err := find(ctx, tx, d.Name)
	if err != nil {
		return 0, err
	}
	if err := d.CheckVersion(have); err != nil {
		return 0, err
	}
	// A deletion first, so that the limits are those of the other values.
	if _, err := tx.ExecContext(ctx, "DELETE FROM states WHERE name = ?", d.Name); err != nil || d.Deletes() {
		return 0, err
	}
	var names, bytes int64
	if err := tx.QueryRowContext(ctx, "SELECT count(*), coalesce(sum(size), 0) FROM states").Scan(&names, &bytes); err != nil {
		return 0, err
	}
	if names >= MaxNames || bytes+int64(len(d.Value)) > MaxStored {
		return 0, fault.New(fault.Exhausted, "state %q cannot be saved: %d others have %d bytes; at most %d and %d bytes are allowed", d.Name, names, bytes, MaxNames, MaxStored).
			WithHint("delete some, with save_state(name, None) or `sandpiper state delete`")
	}
	done, err := tx.ExecContext(ctx, "INSERT INTO states (name, updated, size, encrypted) VALUES (?, ?, ?, ?)",
		d.Name, time.Now().UnixMilli(), len(d.Value), s.box.Seal(content, d.Value, d.Name))
	if err != nil {
		return 0, err
	}
	return done.LastInsertId()
}

// find returns the version of a value, 0 if there is none.
func find(ctx context.Context, tx *store.Tx, name string) (version int64, err error) {
	err = tx.QueryRowContext(ctx, "SELECT version FROM states WHERE name = ?", name).Scan(&version)
	if errors.Is(err, sql.ErrNoRows) {
		return 0, nil
	}
	return version, err
}

// Get returns a value.
func (s *Store) Get(ctx context.Context, name string) (State, error) {
	if err := CheckName(name); err != nil {
		return State{}, err
	}
	var encrypted []byte
	v := State{Entry: Entry{Name: name}}
	err := s.cfg.DB.View(ctx, func(tx *store.Tx) error {
		var updated int64
		err := tx.QueryRowContext(ctx, "SELECT version, updated, size, encrypted FROM states WHERE name = ?", name).Scan(&v.Version, &updated, &v.Size, &encrypted)
		if errors.Is(err, sql.ErrNoRows) {
			return notFound(ctx, tx, name)
		}
		v.Updated = time.UnixMilli(updated).UTC()
		return err
	})
	if err != nil {
		return State{}, err
	}
	if v.Value, err = s.box.Open(content, encrypted, name); err != nil {
		return State{}, fault.Wrap(fault.Internal, err, "state %q is damaged or was encrypted with another key", name).
			WithHint("save it again, or restore a backup")
	}
	return v, nil
}

func notFound(ctx context.Context, tx *store.Tx, name string) error {
	all, err := list(ctx, tx)
	if err != nil {
		return err
	}
	e := fault.New(fault.NotFound, "there is no state %.60q", name)
	names := make([]string, len(all))
	for i, a := range all {
		names[i] = a.Name
	}
	if near := fault.Nearest(name, names, 3); near != nil {
		return e.WithHint("there is %s", strings.Join(near, ", "))
	}
	return e
}

// List describes all values, by name.
func (s *Store) List(ctx context.Context) (all []Entry, err error) {
	err = s.cfg.DB.View(ctx, func(tx *store.Tx) error {
		all, err = list(ctx, tx)
		return err
	})
	return all, err
}

func list(ctx context.Context, tx *store.Tx) ([]Entry, error) {
	rows, err := tx.QueryContext(ctx, "SELECT name, version, updated, size FROM states ORDER BY name")
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	all := []Entry{}
	for rows.Next() {
		var e Entry
		var updated int64
		if err := rows.Scan(&e.Name, &e.Version, &updated, &e.Size); err != nil {
			return nil, err
		}
		e.Updated = time.UnixMilli(updated).UTC()
		all = append(all, e)
	}
	return all, rows.Err()
}

// Rekey encrypts the values of s for the store to, which has the same database and another key. It
// returns the number of damaged values, which remain damaged.
func (s *Store) Rekey(ctx context.Context, to *Store) (damaged int, err error) {
	err = s.cfg.DB.Update(ctx, func(tx *store.Tx) error {
		damaged, err = s.box.Rekey(ctx, tx, to.box, content)
		return err
	})
	return damaged, err
}
