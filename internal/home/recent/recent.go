// Package recent stores the code of a tenant's successful executions for a day, so that a person
// can make a skill of it.
//
// Code is encrypted and bound to the id of its execution. It is kept in memory and written to the
// tenant's database within two seconds, after the answer of the execution: a crash loses what was
// not written. Age, number and size are limited; the oldest code is deleted first. A Store is
// safe for concurrent use, and several processes may have one for the same database.
package recent

import (
	"cmp"
	"context"
	"encoding/json"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/sandpiper-mcp/sandpiper/internal/store"
	"github.com/sandpiper-mcp/sandpiper/internal/store/sealed"
)

// Config of a Store.
type Config struct {
	In       sealed.Store     // required
	Keep     time.Duration    // age of the oldest code; 0 means 24 hours, negative keeps none
	Number   int              // of executions; 0 means 500
	MaxBytes int64            // of all code; 0 means 16 MiB
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
	Ended     time.Time `json:"ended"`
	Session   string    `json:"session,omitempty"`
	Code      string    `json:"code"` // with tokens, as the model wrote it
}

// Store contains the recent code of one tenant.
type Store struct {
	cfg   Config
	table sealed.Table

	mu     sync.Mutex
	added  []Code // not written yet, oldest first
	bytes  int    // of added
	timer  *time.Timer
	closed bool
	writes sync.WaitGroup
}

// New returns the Store of a tenant. It does no I/O.
func New(cfg Config) *Store {
	cfg = cfg.withDefaults()
	return &Store{cfg: cfg, table: sealed.Table{Store: cfg.In, Kind: "recent", Keep: cfg.Keep, Now: cfg.Now,
		Noun: "the code of execution", Missing: "the code of execution %.60q is not stored",
		Hints: sealed.Hints{Missing: "that of successful executions is kept for a limited time: `sandpiper skills promote` lists them"}}}
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
	c.Ended = s.cfg.Now().UTC().Truncate(time.Millisecond)
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
	s.added, s.bytes, s.timer = nil, 0, nil
	s.mu.Unlock()
	if len(added) == 0 {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	err := s.table.DB.UpdateDeferredSync(ctx, func(tx *store.Tx) error {
		for _, c := range added {
			text, err := json.Marshal(c)
			if err == nil {
				_, err = s.table.Put(ctx, tx, c.Execution, text)
			}
			if err != nil {
				return err
			}
		}
		return s.table.Evict(ctx, tx, s.cfg.Number, s.cfg.MaxBytes)
	})
	if err != nil {
		s.cfg.Log.Warn("store the code of executions", "error", err)
	}
}

// Prune deletes expired code.
func (s *Store) Prune(ctx context.Context) error { return s.table.Expire(ctx) }

// Find returns the code of an execution.
func (s *Store) Find(ctx context.Context, execution string) (Code, error) {
	b, err := s.table.Find(ctx, execution)
	if err != nil {
		return Code{}, err
	}
	return decode(b)
}

func decode(b sealed.Body) (Code, error) {
	c := Code{Execution: b.Name}
	return c, json.Unmarshal(b.Text, &c)
}

// List returns the stored code, latest first, except damaged code.
func (s *Store) List(ctx context.Context) ([]Code, error) {
	all := []Code{}
	err := s.table.DB.View(ctx, func(tx *store.Tx) error {
		bodies, err := s.table.All(ctx, tx)
		slices.SortFunc(bodies, func(a, b sealed.Body) int { return cmp.Compare(b.Version, a.Version) })
		for _, b := range bodies {
			if c, err := decode(b); err == nil {
				all = append(all, c)
			}
		}
		return err
	})
	return all, err
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
