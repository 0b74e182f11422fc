package skill

import (
	"context"
	"encoding/json"
	"time"

	"github.com/sandpiper-mcp/sandpiper/internal/store"
)

// Parts of queries: the columns of a Metadata, and the condition for the current version in
// skills.
const (
	metadata = "s.name, s.description, s.tags, s.version, s.created, s.updated, s.code_hash"
	current  = "s.version = (SELECT max(version) FROM skills AS o WHERE o.name = s.name)"
)

type scanner interface{ Scan(...any) error }

func scanMetadata(r scanner, more ...any) (Metadata, error) {
	var m Metadata
	var tags string
	var created, updated int64
	err := r.Scan(append([]any{&m.Name, &m.Description, &tags, &m.Version, &created, &updated, &m.CodeHash}, more...)...)
	if err != nil {
		return Metadata{}, err
	}
	m.Created, m.Updated = time.UnixMilli(created).UTC(), time.UnixMilli(updated).UTC()
	err = json.Unmarshal([]byte(tags), &m.Tags)
	return m, err
}

// load returns the current version of a skill, or sql.ErrNoRows.
func load(ctx context.Context, tx *store.Tx, name string) (sk Skill, err error) {
	row := tx.QueryRowContext(ctx, "SELECT "+metadata+", s.code FROM skills AS s WHERE s.name = ? ORDER BY s.version DESC LIMIT 1", name)
	sk.Name = name
	sk.Metadata, err = scanMetadata(row, &sk.Code)
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
