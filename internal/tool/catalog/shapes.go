package catalog

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"log/slog"
	"sync"
	"time"

	"github.com/sandpiper-mcp/sandpiper/internal/store"
	"github.com/sandpiper-mcp/sandpiper/internal/tool"
	"github.com/sandpiper-mcp/sandpiper/internal/tool/shape"
)

// ShapeTables creates the table of learned shapes.
const ShapeTables = `
CREATE TABLE shapes (
	server  TEXT    NOT NULL,
	tool    TEXT    NOT NULL,
	type    TEXT    NOT NULL, -- JSON
	changed INTEGER NOT NULL, -- Unix milliseconds
	PRIMARY KEY (server, tool)
) STRICT, WITHOUT ROWID;
`

// Shapes stores the types of tool results that were inferred for one tenant: names of
// fields and kinds, never a value. A crash loses what was inferred in the last second.
// Shapes is safe for concurrent use.
type Shapes struct {
	db  *store.DB
	log *slog.Logger

	mu    sync.Mutex
	known map[tool.Ref]learned
	count int               // changes of known
	fresh map[tool.Ref]bool // not written to the database yet
	due   *time.Timer
	runs  sync.WaitGroup
}

// learned is a type and its schema, which is compared to detect changes.
type learned struct {
	shape.Type
	schema string
}

// writeShapes is the delay of writes, which groups them.
const writeShapes = time.Second

// NewShapes returns the shapes of a tenant, whose database must have ShapeTables. A nil
// log discards.
func NewShapes(db *store.DB, log *slog.Logger) *Shapes {
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	return &Shapes{db: db, log: log, known: map[tool.Ref]learned{}, fresh: map[tool.Ref]bool{}}
}

// Observe merges the type of one result of a tool.
func (s *Shapes) Observe(ref tool.Ref, value json.RawMessage) {
	seen := shape.Learn(value)
	s.mu.Lock()
	defer s.mu.Unlock()
	before, ok := s.known[ref]
	now := before.Merge(seen)
	schema := string(now.Schema())
	if ok && schema == before.schema {
		return
	}
	s.known[ref], s.fresh[ref] = learned{now, schema}, true
	s.count++
	if s.due == nil {
		s.runs.Add(1)
		s.due = time.AfterFunc(writeShapes, s.run)
	}
}

// Find returns the inferred type of the results of a tool, and whether there is one.
func (s *Shapes) Find(ctx context.Context, ref tool.Ref) (shape.Type, bool, error) {
	var stored shape.Type
	err := s.db.View(ctx, func(tx *store.Tx) (err error) {
		stored, err = readShape(ctx, tx, ref)
		return err
	})
	if err != nil {
		return stored, false, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	t := stored.Merge(s.known[ref].Type)
	return t, len(t.Kinds) > 0, nil
}

// Changes returns a number that changes whenever a result changes an inferred type in this process.
func (s *Shapes) Changes() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.count
}

// Schemas returns the inferred types of the results of all tools.
func (s *Shapes) Schemas(ctx context.Context) (map[tool.Ref]json.RawMessage, error) {
	all := map[tool.Ref]shape.Type{}
	err := s.db.View(ctx, func(tx *store.Tx) error {
		rows, err := tx.QueryContext(ctx, "SELECT server, tool, type FROM shapes")
		if err != nil {
			return err
		}
		defer rows.Close()
		for rows.Next() {
			var ref tool.Ref
			var text string
			if err := rows.Scan(&ref.Server, &ref.Tool, &text); err != nil {
				return err
			}
			var t shape.Type
			if err := json.Unmarshal([]byte(text), &t); err != nil {
				return err
			}
			all[ref] = t
		}
		return rows.Err()
	})
	if err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for ref, t := range s.known {
		all[ref] = all[ref].Merge(t.Type)
	}
	schemas := make(map[tool.Ref]json.RawMessage, len(all))
	for ref, t := range all {
		if len(t.Kinds) > 0 {
			schemas[ref] = t.Schema()
		}
	}
	return schemas, nil
}

func readShape(ctx context.Context, tx *store.Tx, ref tool.Ref) (t shape.Type, err error) {
	var text string
	err = tx.QueryRowContext(ctx, "SELECT type FROM shapes WHERE server = ? AND tool = ?", ref.Server, ref.Tool).Scan(&text)
	if errors.Is(err, sql.ErrNoRows) {
		return t, nil
	}
	if err == nil {
		err = json.Unmarshal([]byte(text), &t)
	}
	return t, err
}

func (s *Shapes) run() {
	defer s.runs.Done()
	s.mu.Lock()
	s.due = nil
	fresh := map[tool.Ref]shape.Type{}
	for ref := range s.fresh {
		fresh[ref] = s.known[ref].Type
	}
	clear(s.fresh)
	s.mu.Unlock()
	if err := s.write(fresh); err != nil {
		s.log.Warn("cannot store the inferred types of tool results", "error", err)
	}
}

// write merges the new types into those of other processes.
func (s *Shapes) write(fresh map[tool.Ref]shape.Type) error {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	return s.db.UpdateDeferredSync(ctx, func(tx *store.Tx) error {
		for ref, t := range fresh {
			if err := mergeShape(ctx, tx, ref, t); err != nil {
				return err
			}
		}
		return nil
	})
}

// mergeShape merges a type into the database.
func mergeShape(ctx context.Context, tx *store.Tx, ref tool.Ref, t shape.Type) error {
	stored, err := readShape(ctx, tx, ref)
	if err != nil {
		return err
	}
	b, err := json.Marshal(stored.Merge(t))
	if err != nil {
		return err
	}
	_, err = tx.ExecContext(ctx, `INSERT INTO shapes (server, tool, type, changed) VALUES (?, ?, ?, ?)
		ON CONFLICT DO UPDATE SET type = excluded.type, changed = excluded.changed`, ref.Server, ref.Tool, string(b), time.Now().UnixMilli())
	return err
}

// Close writes pending types.
func (s *Shapes) Close() error {
	s.mu.Lock()
	stopped := s.due != nil && s.due.Stop()
	s.mu.Unlock()
	if stopped {
		s.run()
	}
	s.runs.Wait()
	return nil
}
