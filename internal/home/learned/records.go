package learned

import (
	"context"
	"encoding/json"
	"regexp"
	"slices"
	"time"

	"github.com/sandpiper-mcp/sandpiper/internal/store"
	"github.com/sandpiper-mcp/sandpiper/internal/store/sealed"
	"github.com/sandpiper-mcp/sandpiper/internal/tool"
	"github.com/sandpiper-mcp/sandpiper/internal/tool/catalog/search"
)

// record describes the calls of a tool after searches with the same words.
type record struct {
	content
	id              int64 // 0 if it is not stored
	last            time.Time
	searches, lower int
	bytes           int
	changed         bool
}

// content is the encrypted part of a record.
type content struct {
	Server string   `json:"server"`
	Tool   string   `json:"tool"`
	Words  []string `json:"words"`
}

var ofRecord = sealed.Column{Table: "tool_uses", Name: "encrypted", Keys: []string{"id"}}

// write writes the calls, and deletes what exceeds the limits.
func (s *Store) write() {
	s.mu.Lock()
	called := s.called
	s.called, s.timer = nil, nil
	s.mu.Unlock()
	if len(called) == 0 {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	words := s.words(ctx, called)
	err := s.cfg.DB.UpdateDeferredSync(ctx, func(tx *store.Tx) error {
		records, err := s.readAll(ctx, tx)
		if err != nil {
			return err
		}
		for _, c := range called {
			if w := words[c.text]; len(w) > 0 {
				records = add(records, c, w)
			}
		}
		return s.save(ctx, tx, records)
	})
	if err != nil {
		s.cfg.Log.Warn("store which tools were used", "error", err)
	}
	s.reading.Lock()
	s.read = time.Time{}
	s.reading.Unlock()
}

// words returns the words of the texts that are stored: none of a private value, and none if a text
// cannot be redacted.
func (s *Store) words(ctx context.Context, called []call) map[string][]string {
	all := map[string][]string{}
	for _, c := range called {
		if _, ok := all[c.text]; ok {
			continue
		}
		text, err := c.text, error(nil)
		if s.cfg.Redact != nil {
			text, err = s.cfg.Redact(ctx, text)
		}
		if err != nil {
			s.cfg.Log.Warn("redact a search", "error", err)
			text = ""
		}
		all[c.text] = search.Terms(tokens.ReplaceAllString(text, " "))
	}
	return all
}

// tokens matches the tokens of private values, and the replacements of values without a token.
var tokens = regexp.MustCompile(`\[~*[A-Z][A-Z0-9_]*_[a-z0-9]+\]`)

// Limits of what one loop of searches and calls can change.
const (
	countEvery = 10 * time.Minute // a record counts one search in this time
	maxNew     = 3                // records of one tool in this time
)

// add adds a call to the record of its tool and words.
func add(records []record, c call, words []string) []record {
	recent := 0
	for i := range records {
		r := &records[i]
		if r.Server != c.ref.Server || r.Tool != c.ref.Tool {
			continue
		}
		counts := c.at.Sub(r.last) >= countEvery
		switch {
		case slices.Equal(r.Words, words) && counts:
			r.count(c)
			return records
		case slices.Equal(r.Words, words):
			return records
		case !counts:
			recent++
		}
	}
	if recent < maxNew {
		r := record{content: content{c.ref.Server, c.ref.Tool, words}}
		r.count(c)
		records = append(records, r)
	}
	return records
}

func (r *record) count(c call) {
	r.last, r.changed = c.at, true
	r.searches++
	if c.lower {
		r.lower++
	}
}

// save writes the changed records and deletes those that exceed the limits, the oldest first.
func (s *Store) save(ctx context.Context, tx *store.Tx, records []record) error {
	slices.SortStableFunc(records, func(a, b record) int { return b.last.Compare(a.last) })
	number, bytes, of := 0, 0, map[tool.Ref]int{}
	oldest := s.cfg.Now().Add(-s.cfg.Age)
	var last int64 // id
	if err := tx.QueryRowContext(ctx, "SELECT coalesce(max(id), 0) FROM tool_uses").Scan(&last); err != nil {
		return err
	}
	for _, r := range records {
		var encrypted []byte
		if r.id == 0 {
			text, err := json.Marshal(r.content)
			if err != nil {
				return err
			}
			encrypted = s.box.Seal(ofRecord, text, last+1)
			r.bytes = len(encrypted)
		}
		ref := tool.Ref{Server: r.Server, Tool: r.Tool}
		keep := number < maxRecords && bytes+r.bytes <= maxBytes && of[ref] < maxOfTool && !r.last.Before(oldest)
		if keep {
			number, bytes, of[ref] = number+1, bytes+r.bytes, of[ref]+1
		}
		var err error
		switch {
		case !keep && r.id != 0:
			_, err = tx.ExecContext(ctx, "DELETE FROM tool_uses WHERE id = ?", r.id)
		case keep && r.id == 0:
			last++
			_, err = tx.ExecContext(ctx, "INSERT INTO tool_uses (id, last, searches, lower, encrypted) VALUES (?, ?, ?, ?, ?)", last, r.last.UnixMilli(), r.searches, r.lower, encrypted)
		case keep && r.changed:
			_, err = tx.ExecContext(ctx, "UPDATE tool_uses SET last = ?, searches = ?, lower = ? WHERE id = ?", r.last.UnixMilli(), r.searches, r.lower, r.id)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// load returns all records.
func (s *Store) load(ctx context.Context) (all []record, err error) {
	err = s.cfg.DB.View(ctx, func(tx *store.Tx) error {
		all, err = s.readAll(ctx, tx)
		return err
	})
	return all, err
}

// readAll returns all records but damaged ones.
func (s *Store) readAll(ctx context.Context, tx *store.Tx) (all []record, err error) {
	rows, err := tx.QueryContext(ctx, "SELECT id, last, searches, lower, encrypted FROM tool_uses")
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	for rows.Next() {
		var r record
		var last int64
		var encrypted []byte
		if err := rows.Scan(&r.id, &last, &r.searches, &r.lower, &encrypted); err != nil {
			return nil, err
		}
		r.last, r.bytes = time.UnixMilli(last), len(encrypted)
		text, err := s.box.Open(ofRecord, encrypted, r.id)
		if err == nil && json.Unmarshal(text, &r.content) == nil {
			all = append(all, r)
		}
	}
	return all, rows.Err()
}

// Forgotten counts the deletions of Forget.
type Forgotten struct {
	Records int `json:"records"` // each is a tool and the words of searches for it
	Uses    int `json:"uses"`    // calls that the records counted
}

// Forget deletes all records in the database of a tenant, also damaged ones. A Store, which may be in
// another process, uses those that it has read for up to readEvery, and may write those of the last
// moment.
func Forget(ctx context.Context, db *store.DB) (Forgotten, error) {
	var f Forgotten
	err := db.Update(ctx, func(tx *store.Tx) error {
		if err := tx.QueryRowContext(ctx, "SELECT count(*), coalesce(sum(searches), 0) FROM tool_uses").Scan(&f.Records, &f.Uses); err != nil {
			return err
		}
		_, err := tx.ExecContext(ctx, "DELETE FROM tool_uses")
		return err
	})
	return f, err
}

// Rekey encrypts the records of s for the store to, which has the same database and another key. It
// returns the number of damaged records, which remain damaged.
func (s *Store) Rekey(ctx context.Context, to *Store) (damaged int, err error) {
	err = s.cfg.DB.Update(ctx, func(tx *store.Tx) error {
		damaged, err = s.box.Rekey(ctx, tx, to.box, ofRecord)
		return err
	})
	return damaged, err
}
