// Package saved stores the workflows that a tenant saved; their runs are in package journal.
//
// A Store is safe for concurrent use, and several processes may have one for the same database. It does
// not parse workflows.
package saved

import (
	"context"

	"github.com/sandpiper-mcp/sandpiper/internal/home"
	"github.com/sandpiper-mcp/sandpiper/internal/store"
	"github.com/sandpiper-mcp/sandpiper/internal/store/sealed"
)

// NameQuery selects the saved workflows; see home.Names.
const NameQuery = "SELECT name, '' FROM sealed WHERE kind = 'workflow' ORDER BY name"

// Limits of a tenant.
const (
	MaxNames  = 500
	MaxStored = 16 << 20 // bytes of all workflows
)

// Config of a Store.
type Config struct {
	In sealed.Store // required
	// Room fails if the disk has no room for so many more bytes; nil means always.
	Room func(bytes int64) error
	// Changed is called after a workflow was saved or deleted; nil means no call.
	Changed func() error
}

// Store contains the workflows of one tenant.
type Store struct {
	cfg     Config
	sources sealed.Table
}

// Feature is the name of the feature; see home.Homes.LastChange.
const Feature = "workflow"

// Open returns the workflows of a home. It does no I/O.
func Open(h *home.Home) *Store {
	return New(Config{In: h.Sealed(), Room: h.CheckRoom, Changed: func() error { return h.Changed(Feature) }})
}

// New returns the Store of a tenant. It does no I/O.
func New(cfg Config) *Store {
	return &Store{cfg, sealed.Table{Store: cfg.In, Kind: "workflow", Number: MaxNames, Bytes: MaxStored, Room: cfg.Room,
		Noun: "workflow", Missing: "there is no saved workflow %.60q", Hints: sealed.Hints{
			Full:    "delete some with `sandpiper workflow delete`",
			Damaged: "save it again, or restore a backup",
		}}}
}

// changed calls Config.Changed after a change that was made.
func (s *Store) changed(err error) error {
	if err == nil && s.cfg.Changed != nil {
		return s.cfg.Changed()
	}
	return err
}

// Save saves the source of a workflow, and replaces one of that name. It is on disk when Save
// returns.
func (s *Store) Save(ctx context.Context, name string, source []byte) error {
	return s.changed(s.cfg.In.DB.Update(ctx, func(tx *store.Tx) error {
		_, err := s.sources.Put(ctx, tx, name, source)
		return err
	}))
}

// Find returns the source of a saved workflow; NotFound if there is none.
func (s *Store) Find(ctx context.Context, name string) (source []byte, err error) {
	b, err := s.sources.Find(ctx, name)
	return b.Text, err
}

// List describes the saved workflows, by name.
func (s *Store) List(ctx context.Context) ([]sealed.Entry, error) { return s.sources.List(ctx) }

// Delete deletes a saved workflow; NotFound if there is none.
func (s *Store) Delete(ctx context.Context, name string) error {
	return s.changed(s.cfg.In.DB.Update(ctx, func(tx *store.Tx) error {
		if deleted, err := s.sources.Delete(ctx, tx, name); err != nil || deleted {
			return err
		}
		return s.sources.NotFound(ctx, tx, name)
	}))
}
