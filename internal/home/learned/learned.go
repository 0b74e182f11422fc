// Package learned stores which tools a tenant has called after which searches, so that a search
// ranks them higher. See search.Uses for the ranking.
//
// A search and the calls that follow it are matched in memory. Records are written to the tenant's
// database within a second, without delaying the call: a crash loses what was not written. Words are
// redacted before they are stored, and encrypted. Age, number and size of the records are limited: they
// are one small text, which is written as a whole.
//
// A Store is safe for concurrent use, and several processes may have one for the same database. The
// nil Store records nothing and has no records.
package learned

import (
	"context"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/sandpiper-mcp/sandpiper/internal/store/sealed"
	"github.com/sandpiper-mcp/sandpiper/internal/tool"
	"github.com/sandpiper-mcp/sandpiper/internal/tool/catalog/search"
)

// Limits of the records of a tenant.
const (
	maxRecords = 500
	maxOfTool  = 20
	maxBytes   = 128 << 10
)

// Limits of the searches that wait for a call.
const (
	maxSearches = 16
	maxShown    = 20 // results of a search that a call may follow
	maxCredited = 3  // tools of a search that are recorded
	searchAge   = 10 * time.Minute
)

// DefaultAge is how long records are kept.
const DefaultAge = 90 * 24 * time.Hour

// writeAfter is the delay of writes, which groups them.
const writeAfter = time.Second

// readEvery is how long records of other processes may be missing.
const readEvery = 10 * time.Second

// Config of a Store.
type Config struct {
	In sealed.Store // required
	// Redact removes private values from the text of a search; nil leaves it unchanged.
	Redact func(ctx context.Context, text string) (string, error)
	Age    time.Duration    // of the oldest record; 0 means DefaultAge
	Now    func() time.Time // nil means time.Now
	Log    *slog.Logger     // nil discards
}

// Store has the records of one tenant.
type Store struct {
	cfg   Config
	table sealed.Table

	mu       sync.Mutex
	searches []*made // latest last
	called   []call  // not written yet
	timer    *time.Timer
	closed   bool
	writes   sync.WaitGroup

	reading sync.Mutex // held while the database is read
	uses    *search.Uses
	read    time.Time // of uses; zero if they are out of date
}

// made is a search.
type made struct {
	at       time.Time
	text     string
	shown    []tool.Ref
	credited []tool.Ref
}

// call is a call that followed a search.
type call struct {
	ref  tool.Ref
	text string
	at   time.Time
	// lower means that another tool was the first result.
	lower bool
}

// New returns the Store of a tenant. It does no I/O.
func New(cfg Config) *Store {
	if cfg.Age == 0 {
		cfg.Age = DefaultAge
	}
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	if cfg.Log == nil {
		cfg.Log = slog.New(slog.DiscardHandler)
	}
	return &Store{cfg: cfg, table: table(cfg.In)}
}

// AddSearch notes the tools that a search for a text returned, best first.
func (s *Store) AddSearch(text string, shown []tool.Ref) {
	if s == nil || text == "" || len(shown) == 0 {
		return
	}
	m := &made{s.cfg.Now(), text, slices.Clone(shown[:min(len(shown), maxShown)]), nil}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.searches = append(s.searches, m)
	if n := len(s.searches) - maxSearches; n > 0 {
		s.searches = slices.Delete(s.searches, 0, n)
	}
}

// AddCall notes a call of a tool. It is recorded for the latest search that returned the
// tool, once.
func (s *Store) AddCall(ref tool.Ref) {
	if s == nil {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	now := s.cfg.Now()
	for _, m := range slices.Backward(s.searches) {
		at := slices.Index(m.shown, ref)
		if at < 0 || now.Sub(m.at) > searchAge {
			continue
		}
		if s.closed || len(m.credited) == maxCredited || slices.Contains(m.credited, ref) {
			return
		}
		m.credited = append(m.credited, ref)
		s.called = append(s.called, call{ref, m.text, now, at > 0})
		if s.timer == nil {
			s.writes.Add(1)
			s.timer = time.AfterFunc(writeAfter, func() { defer s.writes.Done(); s.write() })
		}
		return
	}
}

// Uses returns the records. It returns those that it has if the database cannot be read.
func (s *Store) Uses(ctx context.Context) *search.Uses {
	if s == nil {
		return nil
	}
	s.reading.Lock()
	defer s.reading.Unlock()
	now := s.cfg.Now()
	if !s.read.IsZero() && now.Sub(s.read) < readEvery {
		return s.uses
	}
	records, err := load(ctx, &s.table)
	if err != nil {
		if ctx.Err() == nil {
			s.cfg.Log.Warn("read which tools were used", "error", err)
		}
		return s.uses
	}
	var all []search.Use
	for _, r := range records {
		if !r.Last.Before(now.Add(-s.cfg.Age)) {
			all = append(all, search.Use{Server: r.Server, Tool: r.Tool, Terms: r.Words, Searches: r.Searches, Lower: r.Lower})
		}
	}
	s.uses, s.read = search.NewUses(all), now
	return s.uses
}

// Close writes what was recorded.
func (s *Store) Close() error {
	if s == nil {
		return nil
	}
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
