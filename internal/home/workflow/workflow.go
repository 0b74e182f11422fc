// Package workflow stores the workflows that a tenant saved, and the runs of workflows.
//
// A run is an execution. Its row has what the execution's own record has not, or not for long:
// which workflow it runs, its inputs, the compiled code, and how it ended. Texts and values are
// encrypted and bound to their name or execution. A Store is safe for concurrent use, and
// several processes may have one for the same database. It does not parse workflows.
package workflow

import (
	"context"

	"github.com/sandpiper-mcp/sandpiper/internal/store"
	"github.com/sandpiper-mcp/sandpiper/internal/store/sealed"
)

// Tables creates the table of runs.
const Tables = `
CREATE TABLE workflow_runs (
	execution TEXT    NOT NULL PRIMARY KEY,
	workflow  TEXT    NOT NULL,
	version   TEXT    NOT NULL,
	started   INTEGER NOT NULL, -- Unix milliseconds
	ended     INTEGER NOT NULL, -- 0 until it has ended
	state     TEXT    NOT NULL,
	encrypted BLOB    NOT NULL, -- its inputs and code
	result    BLOB              -- encrypted; NULL until it has ended
) STRICT;
CREATE INDEX workflow_runs_started ON workflow_runs (started);
`

// Queries for names, see home.Names: the saved workflows, the runs, and those that have not ended.
const (
	NameQuery    = "SELECT name, '' FROM sealed WHERE kind = 'workflow' ORDER BY name"
	RunQuery     = "SELECT execution, workflow || ', ' || state FROM workflow_runs ORDER BY started DESC LIMIT 200"
	RunningQuery = "SELECT execution, workflow FROM workflow_runs WHERE ended = 0 ORDER BY started DESC LIMIT 200"
)

// Limits of a tenant.
const (
	MaxNames  = 500
	MaxStored = 16 << 20 // bytes of all workflows
	MaxRuns   = 1000     // ended runs; the oldest are deleted first
)

// Config of a Store.
type Config struct {
	In sealed.Store // with Tables in its database. Required
	// Room fails if the disk has no room for so many more bytes; nil means always.
	Room func(bytes int64) error
	// Changed is called after a workflow was saved or deleted; nil means no call.
	Changed func()
}

// Store contains the workflows and runs of one tenant.
type Store struct {
	cfg     Config
	sources sealed.Table
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
		s.cfg.Changed()
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
