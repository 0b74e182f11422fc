// Package workflow stores the workflows that a tenant saved, and the runs of workflows.
//
// A run is an execution. Its row has what the execution's own record has not, or not for long:
// which workflow it runs, its inputs, the compiled code, and how it ended. Texts and values are
// encrypted and bound to their name or execution. A Store is safe for concurrent use, and
// several processes may have one for the same database. It does not parse workflows.
package workflow

import (
	"context"
	"database/sql"
	"errors"
	"strings"
	"time"

	"github.com/sandpiper-mcp/sandpiper/internal/fault"
	"github.com/sandpiper-mcp/sandpiper/internal/store"
	"github.com/sandpiper-mcp/sandpiper/internal/store/sealed"
)

// Tables creates the tables of workflows and runs.
const Tables = `
CREATE TABLE workflows (
	name      TEXT    NOT NULL PRIMARY KEY,
	updated   INTEGER NOT NULL, -- Unix milliseconds
	size      INTEGER NOT NULL, -- bytes of the source
	encrypted BLOB    NOT NULL
) STRICT;
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
	NameQuery    = "SELECT name, '' FROM workflows ORDER BY name"
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
	DB  *store.DB // with Tables in it. Required
	Key []byte    // encryption key of the tenant, 32 bytes. Required
	// Room fails if the disk has no room for so many more bytes; nil means always.
	Room func(bytes int64) error
	// Changed is called after a workflow was saved or deleted; nil means no call.
	Changed func()
}

// Store contains the workflows and runs of one tenant.
type Store struct {
	cfg Config
	box sealed.Box
}

// New returns the Store of a database. It does no I/O.
func New(cfg Config) (*Store, error) {
	if cfg.DB == nil {
		return nil, errors.New("workflow: Config needs a DB")
	}
	box, err := sealed.New(cfg.Key, "")
	return &Store{cfg, box}, err
}

// The encrypted columns.
var (
	ofSource  = sealed.Column{Table: "workflows", Name: "encrypted", Keys: []string{"name"}}
	ofRequest = sealed.Column{Table: "workflow_runs", Name: "encrypted", Keys: []string{"execution"}}
	ofResult  = sealed.Column{Table: "workflow_runs", Name: "result", Keys: []string{"execution"}}
)

// open decrypts a column. what names it in the error.
func (s *Store) open(c sealed.Column, what, name string, encrypted []byte) ([]byte, error) {
	text, err := s.box.Open(c, encrypted, name)
	if err != nil {
		return nil, fault.Wrap(fault.Internal, err, "%s of %q is damaged or was encrypted with another key", what, name).
			WithHint("save it again, or restore a backup")
	}
	return text, nil
}

// Saved describes a saved workflow.
type Saved struct {
	Name    string    `json:"name"`
	Updated time.Time `json:"updated"`
	Size    int       `json:"size"`
}

// Save saves the source of a workflow, and replaces one of that name. It is on disk when Save
// returns.
func (s *Store) Save(ctx context.Context, name string, source []byte) error {
	if s.cfg.Room != nil {
		if err := s.cfg.Room(int64(len(source))); err != nil {
			return err
		}
	}
	err := s.cfg.DB.Update(ctx, func(tx *store.Tx) error {
		var names, bytes int64
		if err := tx.QueryRowContext(ctx, "SELECT count(*), coalesce(sum(size), 0) FROM workflows WHERE name <> ?", name).Scan(&names, &bytes); err != nil {
			return err
		}
		if names >= MaxNames || bytes+int64(len(source)) > MaxStored {
			return fault.New(fault.Exhausted, "workflow %q cannot be saved: %d others have %d bytes; at most %d and %d bytes are allowed", name, names, bytes, MaxNames, MaxStored).
				WithHint("delete some with `sandpiper workflow delete`")
		}
		_, err := tx.ExecContext(ctx, "INSERT OR REPLACE INTO workflows (name, updated, size, encrypted) VALUES (?, ?, ?, ?)",
			name, time.Now().UnixMilli(), len(source), s.box.Seal(ofSource, source, name))
		return err
	})
	if err == nil && s.cfg.Changed != nil {
		s.cfg.Changed()
	}
	return err
}

// Find returns the source of a saved workflow; NotFound if there is none.
func (s *Store) Find(ctx context.Context, name string) (source []byte, err error) {
	var encrypted []byte
	err = s.cfg.DB.View(ctx, func(tx *store.Tx) error {
		err := tx.QueryRowContext(ctx, "SELECT encrypted FROM workflows WHERE name = ?", name).Scan(&encrypted)
		if errors.Is(err, sql.ErrNoRows) {
			return notFound(ctx, tx, name)
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	return s.open(ofSource, "the source", name, encrypted)
}

func notFound(ctx context.Context, tx *store.Tx, name string) error {
	all, err := list(ctx, tx)
	if err != nil {
		return err
	}
	e := fault.New(fault.NotFound, "there is no saved workflow %.60q", name)
	names := make([]string, len(all))
	for i, a := range all {
		names[i] = a.Name
	}
	if near := fault.Nearest(name, names, 3); near != nil {
		return e.WithHint("there is %s", strings.Join(near, ", "))
	}
	return e
}

// List describes the saved workflows, by name.
func (s *Store) List(ctx context.Context) (all []Saved, err error) {
	err = s.cfg.DB.View(ctx, func(tx *store.Tx) error {
		all, err = list(ctx, tx)
		return err
	})
	return all, err
}

func list(ctx context.Context, tx *store.Tx) ([]Saved, error) {
	rows, err := tx.QueryContext(ctx, "SELECT name, updated, size FROM workflows ORDER BY name")
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	all := []Saved{}
	for rows.Next() {
		var w Saved
		var updated int64
		if err := rows.Scan(&w.Name, &updated, &w.Size); err != nil {
			return nil, err
		}
		w.Updated = time.UnixMilli(updated).UTC()
		all = append(all, w)
	}
	return all, rows.Err()
}

// Delete deletes a saved workflow; NotFound if there is none.
func (s *Store) Delete(ctx context.Context, name string) error {
	err := s.cfg.DB.Update(ctx, func(tx *store.Tx) error {
		done, err := tx.ExecContext(ctx, "DELETE FROM workflows WHERE name = ?", name)
		if err != nil {
			return err
		}
		if n, err := done.RowsAffected(); err != nil || n > 0 {
			return err
		}
		return notFound(ctx, tx, name)
	})
	if err == nil && s.cfg.Changed != nil {
		s.cfg.Changed()
	}
	return err
}
