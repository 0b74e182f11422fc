// Package skill stores the Python code that a tenant saves for later use.
//
// A skill has a name, under which code imports it, its code, a description, tags, and the tools
// that it uses with their schemas. Saving an existing name creates a new version; Config limits
// how many versions are kept. A skill is stale when one of its tools has changed since it was
// saved. The tenant's database is authoritative. Code sees a projection of it: a directory of
// modules.
//
// A Store is safe for concurrent use, and several processes may have one for the same database
// and projection. The package does not compile code: callers check it in a sandbox before Save.
package skill

import (
	"context"
	"crypto/sha256"
	"database/sql"
	"encoding/hex"
	"encoding/json"
	"errors"
	"strings"
	"time"

	"github.com/sandpiper-mcp/sandpiper/internal/fault"
	"github.com/sandpiper-mcp/sandpiper/internal/store"
	"github.com/sandpiper-mcp/sandpiper/internal/store/projection"
)

// Tables creates the tables of skills, and of their use. The row of skill_changes counts
// saves and deletions, so that a process detects those of others.
const Tables = `
CREATE TABLE skills (
	name         TEXT    NOT NULL,
	version      INTEGER NOT NULL,
	code         TEXT    NOT NULL,
	code_hash    TEXT    NOT NULL,
	description  TEXT    NOT NULL,
	tags         TEXT    NOT NULL, -- a JSON array of strings
	created      INTEGER NOT NULL, -- when version 1 was saved, in Unix milliseconds
	updated      INTEGER NOT NULL, -- when this version was saved
	tools        TEXT    NOT NULL, -- a JSON array of Tool
	instructions TEXT    NOT NULL, -- of an imported skill
	PRIMARY KEY (name, version)
) STRICT;
CREATE TABLE skill_changes (count INTEGER NOT NULL) STRICT;
INSERT INTO skill_changes VALUES (0);
CREATE TABLE skill_uses (
	name      TEXT    NOT NULL PRIMARY KEY,
	uses      INTEGER NOT NULL, -- executions that imported it
	successes INTEGER NOT NULL, -- of them
	last      INTEGER NOT NULL  -- Unix milliseconds
) STRICT, WITHOUT ROWID;
`

// NameQuery selects the skills with their descriptions; see home.Names.
const NameQuery = "SELECT name, description FROM skills AS s WHERE version = (SELECT max(version) FROM skills WHERE name = s.name) ORDER " +
	"BY name"

// Config of a Store.
type Config struct {
	DB         *store.DB // with Tables in it. Required
	Projection string    // directory of the modules; it must exist. Required
	Lock       string    // lock file for changes of the projection; outside of it, because code sees the projection. Required
	MaxBytes   int64     // all code of all versions; 0 means 64 MiB
	Versions   int       // kept of one skill; 0 means 20
	// Reserve reserves space for a skill of that size until done is called, or returns an
	// error; nil means no limit.
	Reserve func(ctx context.Context, bytes int64) (done func(), err error)
}

// Draft is a skill to be saved.
type Draft struct {
	Name        string
	Code        string
	Description string
	Tags        []string
	Tools       Tools // that the code uses
	// Instructions describe the use of the skill to an agent, in Markdown; "" if there are none.
	Instructions string
}

// Store contains the skills of one tenant.
type Store struct {
	modules
	cfg Config
}

// New returns the Store. The first Refresh updates the projection.
func New(cfg Config) *Store {
	if cfg.MaxBytes == 0 {
		cfg.MaxBytes = 64 << 20
	}
	if cfg.Versions == 0 {
		cfg.Versions = 20
	}
	return &Store{modules{cfg.DB, projection.New(cfg.Projection, cfg.Lock)}, cfg}
}

// Save stores a skill and returns its metadata. It is on disk and in the projection when Save
// returns. Saving an identical skill changes nothing.
func (s *Store) Save(ctx context.Context, d Draft) (Metadata, error) {
	if err := d.Check(); err != nil {
		return Metadata{}, err
	}
	if s.cfg.Reserve != nil {
		done, err := s.cfg.Reserve(ctx, int64(len(d.Code)+len(d.Description)+len(d.Instructions)))
		if err != nil {
			return Metadata{}, err
		}
		defer done()
	}
	var m Metadata
	err := s.cfg.DB.Update(ctx, func(tx *store.Tx) (err error) {
		m, err = s.save(ctx, tx, d)
		return err
	})
	if err != nil {
		return Metadata{}, err
	}
	if err := s.show(ctx, d.Name); err != nil {
		return m, fault.Wrap(fault.Unavailable, err, "skill %q is saved, but code cannot import it yet: the directory of the modules "+
			"cannot be written", d.Name)
	}
	return m, nil
}

// Find returns a version of a skill; 0 means the current one.
func (s *Store) Find(ctx context.Context, name string, version int) (sk Skill, err error) {
	if err := CheckName(name); err != nil {
		return Skill{}, err
	}
	err = s.cfg.DB.View(ctx, func(tx *store.Tx) error {
		sk, err = load(ctx, tx, name, version)
		if errors.Is(err, sql.ErrNoRows) {
			return notFound(ctx, tx, name, version)
		}
		return err
	})
	return sk, err
}

// List returns all skills, by name.
func (s *Store) List(ctx context.Context) ([]Metadata, error) {
	all := []Metadata{}
	err := s.cfg.DB.View(ctx, func(tx *store.Tx) error {
		return each(ctx, tx, "SELECT "+metadata+" FROM "+from+" WHERE "+current+" ORDER BY s.name", func(r scanner) error {
			m, err := scanMetadata(r)
			all = append(all, m)
			return err
		})
	})
	return all, err
}

// Delete removes a skill with all its versions.
func (s *Store) Delete(ctx context.Context, name string) error {
	if err := CheckName(name); err != nil {
		return err
	}
	err := s.cfg.DB.Update(ctx, func(tx *store.Tx) error {
		r, err := tx.ExecContext(ctx, "DELETE FROM skills WHERE name = ?", name)
		if err != nil {
			return err
		}
		if n, err := r.RowsAffected(); err != nil || n == 0 {
			return errors.Join(err, notFound(ctx, tx, name, 0))
		}
		if _, err := tx.ExecContext(ctx, "DELETE FROM skill_uses WHERE name = ?", name); err != nil {
			return err
		}
		return changed(ctx, tx)
	})
	if err != nil {
		return err
	}
	if err := s.show(ctx, name); err != nil {
		return fault.Wrap(fault.Unavailable, err, "skill %q is deleted, but code can still import it: the directory of the modules "+
			"cannot be written", name)
	}
	return nil
}

func (s *Store) save(ctx context.Context, tx *store.Tx, d Draft) (Metadata, error) {
	now := time.UnixMilli(time.Now().UnixMilli()).UTC()
	sum := sha256.Sum256([]byte(d.Code))
	m := Metadata{Name: d.Name, Description: d.Description, Tags: append([]string{}, d.Tags...), Tools: append(Tools{}, d.Tools...),
		Version: 1,
		Created: now, Updated: now, CodeHash: hex.EncodeToString(sum[:])}
	old, err := load(ctx, tx, d.Name, 0)
	switch was := old.Metadata; {
	case errors.Is(err, sql.ErrNoRows):
	case err != nil:
		return Metadata{}, err
	case old.Code == d.Code && was.sameDescription(m) && was.Tools.equal(m.Tools) && old.Instructions == d.Instructions:
		return was, nil
	default:
		m.Version, m.Created = was.Version+1, was.Created
		m.Uses, m.Successes, m.LastUsed = was.Uses, was.Successes, was.LastUsed
	}
	if err := s.insert(ctx, tx, m, d); err != nil {
		return Metadata{}, err
	}
	return m, changed(ctx, tx)
}

// insert adds a version, deletes versions beyond the limit and then checks the total size.
func (s *Store) insert(ctx context.Context, tx *store.Tx, m Metadata, d Draft) error {
	tags, err := json.Marshal(m.Tags)
	if err != nil {
		return err
	}
	tools, err := json.Marshal([]Tool(m.Tools))
	if err != nil {
		return err
	}
	_, err = tx.ExecContext(ctx, "DELETE FROM skills WHERE name = ? AND version <= ?", m.Name, m.Version-s.cfg.Versions)
	if err != nil {
		return err
	}
	_, err = tx.ExecContext(ctx, `INSERT INTO skills (name, version, code, code_hash, description, tags, created, updated, tools, instructions)
		VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`,
		m.Name, m.Version, d.Code, m.CodeHash, m.Description, string(tags), m.Created.UnixMilli(), m.Updated.UnixMilli(), string(tools),
		d.Instructions)
	if err != nil {
		return err
	}
	return s.checkLimits(ctx, tx)
}

func (s *Store) checkLimits(ctx context.Context, tx *store.Tx) error {
	var bytes int64
	var names int
	err := tx.QueryRowContext(ctx, "SELECT sum(octet_length(code)), count(DISTINCT name) FROM skills").Scan(&bytes, &names)
	switch {
	case err != nil:
		return err
	case names > maxSkills:
		return fault.New(fault.Exhausted, "the limit of %d skills is reached", maxSkills).
			WithHint("delete skills that are not needed")
	case bytes > s.cfg.MaxBytes:
		return fault.New(fault.Exhausted, "the skills and their old versions would have %d bytes of code; at most %d are allowed", bytes,
			s.cfg.MaxBytes).
			WithHint("delete skills that are not needed")
	}
	return nil
}

func changed(ctx context.Context, tx *store.Tx) error {
	_, err := tx.ExecContext(ctx, "UPDATE skill_changes SET count = count + 1")
	return err
}

func (m Metadata) sameDescription(o Metadata) bool {
	return m.Description == o.Description && strings.Join(m.Tags, "\x00") == strings.Join(o.Tags, "\x00")
}

// SetTools replaces the tools of a version, once the skill has worked with their present
// schemas.
func (s *Store) SetTools(ctx context.Context, name string, version int, tools Tools) error {
	text, err := json.Marshal([]Tool(tools))
	if err != nil {
		return err
	}
	return s.cfg.DB.Update(ctx, func(tx *store.Tx) error {
		_, err := tx.ExecContext(ctx, "UPDATE skills SET tools = ? WHERE name = ? AND version = ?", string(text), name, version)
		return err
	})
}

// AddUses counts an execution that imported the named skills. Names without a skill are ignored.
func (s *Store) AddUses(ctx context.Context, names []string, success bool) error {
	good := 0
	if success {
		good = 1
	}
	return s.cfg.DB.Update(ctx, func(tx *store.Tx) error {
		for _, name := range names {
			_, err := tx.ExecContext(ctx, `INSERT INTO skill_uses SELECT ?1, 1, ?2, ?3 WHERE EXISTS (SELECT 1 FROM skills WHERE name = ?1)
				ON CONFLICT (name) DO UPDATE SET uses = uses + 1, successes = successes + ?2, last = ?3`, name, good, time.Now().UnixMilli())
			if err != nil {
				return err
			}
		}
		return nil
	})
}
