// Package grant stores what a person allowed when they approved a call: further calls of the same
// tool, with any arguments, by the same execution or live interpreter, or by all code of the tenant.
//
// A Grant covers calls of one definition of the tool; a changed one needs a new approval. Those of
// executions and sessions expire. The package does not decide: policy decides about each call first,
// and a Grant only replaces the question of a person, never a denial. A grant of scope Tool is a
// rule of the tenant that allows the tool.
//
// A Store is safe for concurrent use, also by several processes. When a method returns, its change
// is on disk.
package grant

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"

	"github.com/sandpiper-mcp/sandpiper/internal/fault"
	"github.com/sandpiper-mcp/sandpiper/internal/store"
	"github.com/sandpiper-mcp/sandpiper/internal/tool"
)

// Tables creates the table of grants. Times are Unix milliseconds.
const Tables = `
CREATE TABLE approval_grants (
	id       TEXT    NOT NULL PRIMARY KEY, -- of the approval
	scope    TEXT    NOT NULL, -- 'execution', 'session' or 'tool'
	subject  TEXT    NOT NULL, -- id of the execution or of the live interpreter; '' for 'tool'
	session  TEXT    NOT NULL, -- of the interpreter; '' for others
	server   TEXT    NOT NULL,
	tool     TEXT    NOT NULL,
	schema   TEXT    NOT NULL, -- hash of the tool's definition
	created  INTEGER NOT NULL,
	expires  INTEGER NOT NULL, -- 0 if it does not
	answerer TEXT    NOT NULL  -- as in approvals
) STRICT;
CREATE INDEX approval_grants_tools ON approval_grants (server, tool);
`

// Query selects the grants in force, see home.Names.
const Query = "SELECT id, server || '.' || tool || ', ' || scope FROM approval_grants WHERE expires = 0 OR expires > unixepoch() * 1000 " +
	"ORDER BY created DESC LIMIT 200"

// Scope is which calls an approval allows.
type Scope string

const (
	Once      Scope = ""          // the call that was shown
	Execution Scope = "execution" // and further ones of the tool by its execution
	Session   Scope = "session"   // by the live interpreter of its session, until that ends
	Tool      Scope = "tool"      // by all code and clients of the tenant, until the grant is revoked
)

// ParseScope parses the scope of an answer.
func ParseScope(s string) (Scope, error) {
	switch scope := Scope(s); scope {
	case Once, Execution, Session, Tool:
		return scope, nil
	case "once":
		return Once, nil
	case "always":
		return Tool, nil
	}
	return Once, fault.New(fault.Invalid, "an approval cannot be for %.40q", s).WithHint("use once, execution, session or tool")
}

// Grant is a permission that a person gave.
type Grant struct {
	ID       string // of the approval
	Scope    Scope
	Subject  string // ID of the execution or of the live interpreter; "" for Tool
	Session  string // of the interpreter; "" for others
	tool.Ref        // the tool
	Schema   string // hash of its definition
	Created  time.Time
	Expires  time.Time // zero if it does not
	By       string    // who gave it, as in package approval
}

// Rule returns the rule of a policy that a grant of scope Tool is.
func Rule(ref tool.Ref) string {
	return fmt.Sprintf("{tool: %q, decision: allow}", ref.String())
}

// Call is a call that may be covered.
type Call struct {
	tool.Ref
	Schema      string // hash of the definition
	Execution   string // "" if there is none
	Interpreter string // ID of the live interpreter; "" if there is none
}

// Covers reports whether a grant that is in force covers a call.
func (g Grant) Covers(c Call) bool {
	if g.Ref != c.Ref || g.Schema != c.Schema {
		return false
	}
	switch g.Scope {
	case Execution:
		return g.Subject != "" && g.Subject == c.Execution
	case Session:
		return g.Subject != "" && g.Subject == c.Interpreter
	}
	return g.Scope == Tool
}

// Store contains the grants of one tenant.
type Store struct {
	db  *store.DB
	now func() time.Time
}

// New returns the Store in a database with the tables of Tables.
func New(db *store.DB, now func() time.Time) *Store { return &Store{db, now} }

// Put stores a grant in a transaction, the one that records the answer.
func Put(ctx context.Context, tx *store.Tx, g Grant) error {
	var expires int64
	if !g.Expires.IsZero() {
		expires = g.Expires.UnixMilli()
	}
	_, err := tx.ExecContext(ctx, "INSERT INTO approval_grants ("+columns+") VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
		g.ID, g.Scope, g.Subject, g.Session, g.Server, g.Tool, g.Schema, g.Created.UnixMilli(), expires, g.By)
	return err
}

const columns = "id, scope, subject, session, server, tool, schema, created, expires, answerer"

// inForce is the condition for grants that have not expired, also if the clock was put back.
const inForce = "(expires = 0 OR expires > ?1 AND created <= ?1)"

func scan(row interface{ Scan(...any) error }) (g Grant, err error) {
	var created, expires int64
	err = row.Scan(&g.ID, &g.Scope, &g.Subject, &g.Session, &g.Server, &g.Tool, &g.Schema, &created, &expires, &g.By)
	g.Created = time.UnixMilli(created).UTC()
	if expires != 0 {
		g.Expires = time.UnixMilli(expires).UTC()
	}
	return g, err
}

// Find returns the grant that covers a call, if there is one.
func (s *Store) Find(ctx context.Context, c Call) (found Grant, ok bool, err error) {
	err = s.each(ctx, func(g Grant) {
		if !ok && g.Covers(c) {
			found, ok = g, true
		}
	}, " AND server = ?2 AND tool = ?3", c.Server, c.Tool)
	return found, ok, err
}

// List returns the grants in force, the oldest first.
func (s *Store) List(ctx context.Context) (all []Grant, err error) {
	err = s.each(ctx, func(g Grant) { all = append(all, g) }, "")
	return all, err
}

func (s *Store) each(ctx context.Context, f func(Grant), condition string, args ...any) error {
	return s.db.View(ctx, func(tx *store.Tx) error {
		rows, err := tx.QueryContext(ctx, "SELECT "+columns+" FROM approval_grants WHERE "+inForce+condition+" ORDER BY created, id",
			append([]any{s.now().UnixMilli()}, args...)...)
		if err != nil {
			return err
		}
		defer rows.Close()
		for rows.Next() {
			g, err := scan(rows)
			if err != nil {
				return err
			}
			f(g)
		}
		return rows.Err()
	})
}

// Revoke deletes a grant. record is called before the change is committed; an error prevents it.
func (s *Store) Revoke(ctx context.Context, id string, record func(Grant) error) (g Grant, err error) {
	err = s.db.Update(ctx, func(tx *store.Tx) error {
		g, err = scan(tx.QueryRowContext(ctx, "DELETE FROM approval_grants WHERE id = ? RETURNING "+columns, id))
		if errors.Is(err, sql.ErrNoRows) {
			return fault.New(fault.NotFound, "approval %.40q is for no further calls", id).
				WithHint("`sandpiper approvals grants` lists those that are")
		}
		if err != nil {
			return err
		}
		return record(g)
	})
	return g, err
}

// Sweep deletes grants that have expired.
func (s *Store) Sweep(ctx context.Context) error {
	now := s.now().UnixMilli()
	var due bool
	err := s.db.View(ctx, func(tx *store.Tx) error {
		return tx.QueryRowContext(ctx, "SELECT EXISTS (SELECT 1 FROM approval_grants WHERE NOT "+inForce+")", now).Scan(&due)
	})
	if err != nil || !due { // the usual case: no commit
		return err
	}
	return s.db.Update(ctx, func(tx *store.Tx) error {
		_, err := tx.ExecContext(ctx, "DELETE FROM approval_grants WHERE NOT "+inForce, now)
		return err
	})
}

// Clear deletes all grants in a transaction: they are not for another data directory.
func Clear(ctx context.Context, tx *store.Tx) error {
	_, err := tx.ExecContext(ctx, "DELETE FROM approval_grants")
	return err
}
