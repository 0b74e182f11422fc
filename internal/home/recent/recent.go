// Package recent stores the code of a tenant's successful executions for a day, so that a person
// can make a skill of it.
//
// Code is encrypted and bound to the id of its execution. It is kept in memory and written to the
// tenant's database within two seconds, after the answer of the execution: a crash loses what was
// not written. Age, number and size are limited; the oldest code is deleted first. A Store is
// safe for concurrent use, and several processes may have one for the same database.
package recent

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"log/slog"
	"sync"
	"time"

	"github.com/sandpiper-mcp/sandpiper/internal/fault"
	"github.com/sandpiper-mcp/sandpiper/internal/store"
	"github.com/sandpiper-mcp/sandpiper/internal/store/sealed"
)

// Tables creates the table of recent code.
const Tables = `
CREATE TABLE recent_code (
	execution TEXT    NOT NULL PRIMARY KEY,
	ended     INTEGER NOT NULL, -- Unix milliseconds
	encrypted BLOB    NOT NULL
) STRICT;
CREATE INDEX recent_code_ended ON recent_code (ended);
`

// Config of a Store.
type Config struct {
	DB       *store.DB        // with Tables in it. Required
	Key      []byte           // encryption key of the tenant, 32 bytes. Required
	Keep     time.Duration    // age of the oldest code; 0 means 24 hours, negative keeps none
	Number   int              // of executions; 0 means 500
	MaxBytes int64            // of all code, encrypted; 0 means 16 MiB
	Now      func() time.Time // nil means time.Now
	Log      *slog.Logger     // nil discards
}

func (c Config) withDefaults() Config {
	if c.Keep == 0 {
		c.Keep = 24 * time.Hour
	}
	if c.Number == 0 {
		c.Number = 500
	}
	if c.MaxBytes == 0 {
		c.MaxBytes = 16 << 20
	}
	if c.Now == nil {
		c.Now = time.Now
	}
	if c.Log == nil {
		c.Log = slog.New(slog.DiscardHandler)
	}
	return c
}

// Code is the code of an execution.
type Code struct {
	Execution string    `json:"-"`
	Ended     time.Time `json:"-"`
	Session   string    `json:"session,omitempty"`
	Code      string    `json:"code"` // with tokens, as the model wrote it
}

// Store contains the recent code of one tenant.
type Store struct {
	cfg Config
	box sealed.Box

	mu     sync.Mutex
	added  []Code // not written yet, oldest first
	bytes  int    // of added
	timer  *time.Timer
	closed bool
	writes sync.WaitGroup
	// since the limits were last enforced; they may be exceeded by a tenth
	unpruned      int
	unprunedBytes int
}

// New returns the Store of a database. It does no I/O.
func New(cfg Config) (*Store, error) {
	if cfg.DB == nil {
		return nil, errors.New("recent: Config needs a DB")
	}
	box, err := sealed.New(cfg.Key, "")
	return &Store{cfg: cfg.withDefaults(), box: box}, err
}

const (
	writeAfter = 2 * time.Second
	maxAdded   = 4 << 20 // bytes that wait to be written; more code is not stored
)

// Add stores the code of an execution that has succeeded.
func (s *Store) Add(c Code) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed || s.cfg.Keep < 0 || s.bytes+len(c.Code) > maxAdded {
		return
	}
	c.Ended = s.cfg.Now()
	s.added = append(s.added, c)
	s.bytes += len(c.Code)
	if s.timer == nil {
		s.writes.Add(1)
		s.timer = time.AfterFunc(writeAfter, func() { defer s.writes.Done(); s.write() })
	}
}

// write writes what was added and deletes what exceeds the limits.
func (s *Store) write() {
	s.mu.Lock()
	added := s.added
	s.unpruned, s.unprunedBytes = s.unpruned+len(added), s.unprunedBytes+s.bytes
	prune := s.unpruned > s.cfg.Number/10 || int64(s.unprunedBytes) > s.cfg.MaxBytes/10
	if prune {
		s.unpruned, s.unprunedBytes = 0, 0
	}
	s.added, s.bytes, s.timer = nil, 0, nil
	s.mu.Unlock()
	if len(added) == 0 {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	err := s.cfg.DB.UpdateDeferredSync(ctx, func(tx *store.Tx) error {
		for _, c := range added {
			text, err := json.Marshal(c)
			if err != nil {
				return err
			}
			_, err = tx.ExecContext(ctx, "INSERT OR REPLACE INTO recent_code (execution, ended, encrypted) VALUES (?, ?, ?)",
				c.Execution, c.Ended.UnixMilli(), s.box.Seal(content, text, c.Execution))
			if err != nil {
				return err
			}
		}
		if !prune {
			return nil
		}
		return s.prune(ctx, tx)
	})
	if err != nil {
		s.cfg.Log.Warn("store the code of executions", "error", err)
	}
}

var content = sealed.Column{Table: "recent_code", Name: "encrypted", Keys: []string{"execution"}}

// prune deletes code that is too old, and the oldest beyond the other limits.
func (s *Store) prune(ctx context.Context, tx *store.Tx) error {
	oldest := s.cfg.Now().Add(-max(s.cfg.Keep, 0)).UnixMilli()
	_, err := tx.ExecContext(ctx, `DELETE FROM recent_code WHERE ended < ?1 OR rowid IN (
		SELECT row FROM (SELECT rowid AS row, row_number() OVER latest AS number, sum(octet_length(encrypted)) OVER latest AS bytes
			FROM recent_code WINDOW latest AS (ORDER BY ended DESC, rowid DESC)) WHERE number > ?2 OR bytes > ?3)`, oldest, s.cfg.Number, s.cfg.MaxBytes)
	return err
}

// Prune deletes expired code.
func (s *Store) Prune(ctx context.Context) error {
	oldest, old := s.cfg.Now().Add(-max(s.cfg.Keep, 0)).UnixMilli(), false
	err := s.cfg.DB.View(ctx, func(tx *store.Tx) error {
		return tx.QueryRowContext(ctx, "SELECT EXISTS (SELECT 1 FROM recent_code WHERE ended < ?)", oldest).Scan(&old)
	})
	if err != nil || !old {
		return err
	}
	return s.cfg.DB.Update(ctx, func(tx *store.Tx) error { return s.prune(ctx, tx) })
}

// Find returns the code of an execution.
func (s *Store) Find(ctx context.Context, execution string) (Code, error) {
	c := Code{Execution: execution}
	var encrypted []byte
	var ended int64
	err := s.cfg.DB.View(ctx, func(tx *store.Tx) error {
		return tx.QueryRowContext(ctx, "SELECT ended, encrypted FROM recent_code WHERE execution = ?", execution).Scan(&ended, &encrypted)
	})
	c.Ended = time.UnixMilli(ended).UTC()
	switch {
	case errors.Is(err, sql.ErrNoRows), err == nil && c.Ended.Before(s.cfg.Now().Add(-s.cfg.Keep)):
		return Code{}, fault.New(fault.NotFound, "the code of execution %.60q is not stored", execution).
			WithHint("that of successful executions is kept for a limited time: `sandpiper skills promote` lists them")
	case err != nil:
		return Code{}, err
	}
	return c, s.decrypt(encrypted, &c)
}

func (s *Store) decrypt(encrypted []byte, c *Code) error {
	text, err := s.box.Open(content, encrypted, c.Execution)
	if err != nil {
		return fault.Wrap(fault.Internal, err, "the code of execution %q is damaged or was encrypted with another key", c.Execution)
	}
	return json.Unmarshal(text, c)
}

// List returns the stored code, latest first, except damaged code.
func (s *Store) List(ctx context.Context) ([]Code, error) {
	all := []Code{}
	err := s.cfg.DB.View(ctx, func(tx *store.Tx) error {
		rows, err := tx.QueryContext(ctx, "SELECT execution, ended, encrypted FROM recent_code WHERE ended >= ? ORDER BY ended DESC, rowid DESC", s.cfg.Now().Add(-s.cfg.Keep).UnixMilli())
		if err != nil {
			return err
		}
		defer rows.Close()
		for rows.Next() {
			var c Code
			var ended int64
			var encrypted []byte
			if err := rows.Scan(&c.Execution, &ended, &encrypted); err != nil {
				return err
			}
			c.Ended = time.UnixMilli(ended).UTC()
			if s.decrypt(encrypted, &c) == nil {
				all = append(all, c)
			}
		}
		return rows.Err()
	})
	return all, err
}

// Rekey encrypts the code of s for the store to, which has the same database and another key. It
// returns the number of damaged records, which remain damaged.
func (s *Store) Rekey(ctx context.Context, to *Store) (damaged int, err error) {
	err = s.cfg.DB.Update(ctx, func(tx *store.Tx) error {
		damaged, err = s.box.Rekey(ctx, tx, to.box, content)
		return err
	})
	return damaged, err
}

// Close writes what was added.
func (s *Store) Close() error {
	s.mu.Lock()
	s.closed = true
	if s.timer != nil && s.timer.Stop() {
		s.writes.Done()
	}
	s.mu.Unlock()
	s.writes.Wait()
	s.write()
	return nil
}
