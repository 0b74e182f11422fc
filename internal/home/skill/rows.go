package skill

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"time"

	"github.com/sandpiper-mcp/sandpiper/internal/store"
)

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
	err := r.Scan(append([]any{&m.Name, &m.Description, &tags, &m.Version, &created, &updated, &m.CodeHash, &tools, &uses, &successes, &last}, more...)...)
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
	row := tx.QueryRowContext(ctx, "SELECT "+metadata+", s.code, s.instructions FROM "+from+" WHERE s.name = ? AND (? = 0 OR s.version = ?) ORDER BY s.version DESC LIMIT 1", name, version, version)
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
