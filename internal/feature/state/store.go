package state

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/sandpiper-mcp/sandpiper/internal/fault"
	"github.com/sandpiper-mcp/sandpiper/internal/home"
	"github.com/sandpiper-mcp/sandpiper/internal/store"
	"github.com/sandpiper-mcp/sandpiper/internal/store/sealed"
)

// NameQuery selects the names of the values; see home.Names.
const NameQuery = "SELECT name, size || ' bytes' FROM sealed WHERE kind = 'state' ORDER BY name"

// Limits of a tenant's values.
const (
	MaxName   = 200       // characters of a name
	MaxBytes  = 256 << 10 // of one value in JSON
	MaxNames  = 1000
	MaxStored = 16 << 20 // bytes of all values
)

// Entry describes a value.
type Entry = sealed.Entry

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
	return fault.Wrap(fault.Denied, &Conflict{have}, "state %q %s", d.Name, what).
		WithHint("it has changed since it was read: read it again, and repeat the change")
}

// Store contains the values of one tenant.
type Store struct{ table sealed.Table }

// Open returns the Store of a tenant.
func Open(h *home.Home) *Store { return open(h.Sealed(), h.CheckRoom) }

// open returns the Store in a database. room fails if the disk has no room for so many more bytes; nil
// means always.
func open(in sealed.Store, room func(bytes int64) error) *Store {
	return &Store{sealed.Table{Store: in, Kind: "state", Number: MaxNames, Bytes: MaxStored, Room: room,
		Noun: "state", Missing: "there is no state %.60q", Hints: sealed.Hints{
			Full:    "delete some, with save_state(name, None) or `sandpiper state delete`",
			Damaged: "save it again, or restore a backup",
		}}}
}

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
	err = s.table.DB.Update(ctx, func(tx *store.Tx) error {
		have, err := s.table.Version(ctx, tx, d.Name)
		if err == nil {
			err = d.CheckVersion(have)
		}
		switch {
		case err != nil:
		case d.Deletes():
			_, err = s.table.Delete(ctx, tx, d.Name)
		default:
			version, err = s.table.Put(ctx, tx, d.Name, compact.Bytes())
		}
		return err
	})
	return version, err
}

// Get returns a value.
func (s *Store) Get(ctx context.Context, name string) (State, error) {
	if err := CheckName(name); err != nil {
		return State{}, err
	}
	b, err := s.table.Find(ctx, name)
	if err != nil {
		return State{}, err
	}
	return State{b.Entry, b.Text}, nil
}

// List describes all values, by name.
func (s *Store) List(ctx context.Context) ([]Entry, error) { return s.table.List(ctx) }
