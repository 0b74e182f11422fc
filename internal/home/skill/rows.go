package skill

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"strings"
	"time"

	"github.com/sandpiper-mcp/sandpiper/internal/fault"
	"github.com/sandpiper-mcp/sandpiper/internal/store"
)

// Metadata describes a skill.
type Metadata struct {
	Name        string    `json:"name"`
	Description string    `json:"description"`
	Tags        []string  `json:"tags"`
	Version     int       `json:"version"`
	Created     time.Time `json:"created"`
	Updated     time.Time `json:"updated"`
	CodeHash    string    `json:"code_hash"` // SHA-256, hexadecimal
	Tools       Tools     `json:"tools,omitempty"`
	Stale       []string  `json:"stale,omitempty"`       // how the tools have changed: see Mark
	Unavailable []string  `json:"unavailable,omitempty"` // tools whose server is disabled, missing or not connected
	Uses        int       `json:"uses,omitempty"`        // executions that imported any version
	Successes   int       `json:"successes,omitempty"`   // of them, those that succeeded
	LastUsed    time.Time `json:"last_used,omitzero"`
}

// Skill is a skill with its code.
type Skill struct {
	Name     string   `json:"name"`
	Code     string   `json:"code"`
	Metadata Metadata `json:"metadata"`
	// Instructions describe the use of an imported skill to an agent, in Markdown.
	Instructions string `json:"instructions,omitempty"`
}

// Parts of queries: the columns of a Metadata and their tables, and the condition for the current
// version in skills.
const (
	metadata = "s.name, s.description, s.tags, s.version, s.created, s.updated, s.code_hash, s.tools, u.uses, u.successes, u.last"
	from     = "skills AS s LEFT JOIN skill_uses AS u ON u.name = s.name"
	current  = "s.version = (SELECT max(version) FROM skills AS o WHERE o.name = s.name)"
)

type scanner interface{ Scan(...any) error }

func scanMetadata(r scanner, more ...any) (Metadata, error) {
	var m Metadata
	var tags, tools string
	var created, updated int64
	var uses, successes, last sql.NullInt64
	err := r.Scan(append([]any{&m.Name, &m.Description, &tags, &m.Version, &created, &updated, &m.CodeHash, &tools, &uses, &successes,
		&last}, more...)...)
	if err != nil {
		return Metadata{}, err
	}
	m.Created, m.Updated = time.UnixMilli(created).UTC(), time.UnixMilli(updated).UTC()
	m.Uses, m.Successes = int(uses.Int64), int(successes.Int64)
	if last.Valid {
		m.LastUsed = time.UnixMilli(last.Int64).UTC()
	}
	err = errors.Join(json.Unmarshal([]byte(tags), &m.Tags), json.Unmarshal([]byte(tools), (*[]Tool)(&m.Tools)))
	return m, err
}

// load returns a version of a skill, 0 meaning the current one, or sql.ErrNoRows.
func load(ctx context.Context, tx *store.Tx, name string, version int) (sk Skill, err error) {
	row := tx.QueryRowContext(ctx, "SELECT "+metadata+", s.code, s.instructions FROM "+from+
		" WHERE s.name = ? AND (? = 0 OR s.version = ?) ORDER BY s.version DESC LIMIT 1", name, version, version)
	sk.Name = name
	sk.Metadata, err = scanMetadata(row, &sk.Code, &sk.Instructions)
	return sk, err
}

func each(ctx context.Context, tx *store.Tx, query string, f func(scanner) error) error {
	rows, err := tx.QueryContext(ctx, query)
	if err != nil {
		return err
	}
	defer rows.Close()
	for rows.Next() {
		if err := f(rows); err != nil {
			return err
		}
	}
	return rows.Err()
}

// notFound returns the error for a missing version of a skill, or for a missing skill.
func notFound(ctx context.Context, tx *store.Tx, name string, version int) error {
	var oldest, newest sql.NullInt64
	if err := tx.QueryRowContext(ctx, "SELECT min(version), max(version) FROM skills WHERE name = ?", name).
		Scan(&oldest, &newest); err != nil {
		return err
	}
	if newest.Valid {
		missing := fault.New(fault.NotFound, "skill %q has no version %d", name, version)
		if oldest.Int64 == newest.Int64 {
			return missing.WithHint("only version %d is kept", newest.Int64)
		}
		return missing.WithHint("versions %d to %d are kept", oldest.Int64, newest.Int64)
	}
	var some []string
	err := each(ctx, tx, "SELECT DISTINCT name FROM skills ORDER BY name LIMIT 20", func(r scanner) error {
		var n string
		err := r.Scan(&n)
		some = append(some, n)
		return err
	})
	if err != nil {
		return err
	}
	missing := fault.New(fault.NotFound, "there is no skill %q", name)
	if len(some) == 0 {
		return missing.WithHint("no skill has been saved yet")
	}
	return missing.WithHint("saved skills: %s", strings.Join(some, ", "))
}
