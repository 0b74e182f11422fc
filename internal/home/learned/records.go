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
	Server   string    `json:"server"`
	Tool     string    `json:"tool"`
	Words    []string  `json:"words"`
	Last     time.Time `json:"last"`
	Searches int       `json:"searches"`
	Lower    int       `json:"lower,omitempty"` // searches whose first result was another tool
}

// textName is the name of the text with all records.
const textName = "all"

func table(in sealed.Store) sealed.Table {
	return sealed.Table{Store: in, Kind: "used tools"}
}

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
	err := s.table.DB.UpdateDeferredSync(ctx, func(tx *store.Tx) error {
		records, err := read(ctx, tx, &s.table)
		if err != nil {
			return err
		}
		changed := false
		for _, c := range called {
			if w := words[c.text]; len(w) > 0 && add(&records, c, w) {
				changed = true
			}
		}
		if !changed {
			return nil
		}
		text, err := s.limit(records)
		if err == nil {
			_, err = s.table.Put(ctx, tx, textName, text)
		}
		return err
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

// Limits of the changes by one loop of searches and calls.
const (
	countEvery = 10 * time.Minute // a record counts one search in this time
	maxNew     = 3                // records of one tool in this time
)

// add adds a call to the record of its tool and words. It reports whether the call counts.
func add(records *[]record, c call, words []string) bool {
	recent := 0
	for i := range *records {
		r := &(*records)[i]
		if r.Server != c.ref.Server || r.Tool != c.ref.Tool {
			continue
		}
		counts := c.at.Sub(r.Last) >= countEvery
		switch {
		case slices.Equal(r.Words, words):
			if counts {
				r.count(c)
			}
			return counts
		case !counts:
			recent++
		}
	}
	if recent >= maxNew {
		return false
	}
	r := record{Server: c.ref.Server, Tool: c.ref.Tool, Words: words}
	r.count(c)
	*records = append(*records, r)
	return true
}

func (r *record) count(c call) {
	r.Last = c.at
	r.Searches++
	if c.lower {
		r.Lower++
	}
}

// limit returns the text of the records without those that exceed the limits, the oldest first.
func (s *Store) limit(records []record) ([]byte, error) {
	slices.SortStableFunc(records, func(a, b record) int { return b.Last.Compare(a.Last) })
	oldest, bytes, of := s.cfg.Now().Add(-s.cfg.Age), 0, map[tool.Ref]int{}
	var kept []json.RawMessage
	for _, r := range records {
		text, err := json.Marshal(r)
		if err != nil {
			return nil, err
		}
		ref := tool.Ref{Server: r.Server, Tool: r.Tool}
		if len(kept) < maxRecords && bytes+len(text) <= maxBytes && of[ref] < maxOfTool && !r.Last.Before(oldest) {
			kept, bytes = append(kept, text), bytes+len(text)
			of[ref]++
		}
	}
	return json.Marshal(kept)
}

// load returns all records.
func load(ctx context.Context, t *sealed.Table) (records []record, err error) {
	err = t.DB.View(ctx, func(tx *store.Tx) error {
		records, err = read(ctx, tx, t)
		return err
	})
	return records, err
}

// read returns all records, none if they are damaged: the next write replaces them.
func read(ctx context.Context, tx *store.Tx, t *sealed.Table) (records []record, err error) {
	bodies, err := t.All(ctx, tx)
	for _, b := range bodies {
		if b.Damaged == nil {
			err = json.Unmarshal(b.Text, &records)
		}
	}
	return records, err
}

// Forgotten counts the deletions of Forget.
type Forgotten struct {
	Records int `json:"records"` // each is a tool and the words of searches for it
	Uses    int `json:"uses"`    // calls that the records counted
}

// Forget deletes all records of a tenant, also damaged ones. A Store, which may be in another process,
// uses those that it has read for up to readEvery, and may write those of the last moment.
func Forget(ctx context.Context, in sealed.Store) (f Forgotten, err error) {
	t := table(in)
	err = in.DB.Update(ctx, func(tx *store.Tx) error {
		records, err := read(ctx, tx, &t)
		if err != nil {
			return err
		}
		f = Forgotten{Records: len(records)}
		for _, r := range records {
			f.Uses += r.Searches
		}
		_, err = t.Delete(ctx, tx, textName)
		return err
	})
	return f, err
}
