package skilltest

import (
	"cmp"
	"context"
	"encoding/json"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/sandpiper-mcp/sandpiper/internal/fault"
	"github.com/sandpiper-mcp/sandpiper/internal/home"
	"github.com/sandpiper-mcp/sandpiper/internal/home/journal"
	"github.com/sandpiper-mcp/sandpiper/internal/home/skill"
	"github.com/sandpiper-mcp/sandpiper/internal/store"
	"github.com/sandpiper-mcp/sandpiper/internal/store/sealed"
	"github.com/sandpiper-mcp/sandpiper/internal/tool/shape"
)

// Test is a recorded call of a skill.
type Test struct {
	Number   int        `json:"-"` // from 1
	Recorded time.Time  `json:"-"`
	Code     string     `json:"code"`    // the call, as it was written
	Answers  []Answer   `json:"answers"` // in the order of the calls
	Result   shape.Type `json:"result"`  // type of the value
}

// Answer is the recorded answer of a call to the outside, with tokens in place of private
// values in both.
type Answer struct {
	Method string          `json:"method"`
	Args   json.RawMessage `json:"args"`
	journal.Answer
}

// Limits of tests.
const (
	maxTests = 20      // of a skill
	maxBytes = 1 << 20 // of one test
)

// Store contains the tests of the skills of one tenant, encrypted. Several processes may have one.
type Store struct {
	skills *skill.Store
	table  sealed.Table
}

// Open returns the Store of a home. It does no I/O.
func Open(h *home.Home) *Store { return newStore(h.Skills, h.Sealed(), h.CheckRoom) }

// newStore returns the Store in a database. room fails if the disk has no room for so many more bytes; nil
// means always.
func newStore(skills *skill.Store, in sealed.Store, room func(bytes int64) error) *Store {
	return &Store{skills, sealed.Table{Store: in, Kind: "skill_test", Room: room, Noun: "test"}}
}

// prefix begins the names of the bodies of the tests of a skill; their numbers follow.
func prefix(name string) string { return name + "/" }

// Add stores a test of a skill. It replaces one with the same code. It returns its number.
func (s *Store) Add(ctx context.Context, name string, t Test) (number int, err error) {
	text, err := json.Marshal(t)
	if err != nil {
		return 0, err
	}
	if len(text) > maxBytes {
		return 0, fault.New(fault.Exhausted, "the recorded answers have %d bytes; at most %d are allowed", len(text), maxBytes).
			WithHint("call the skill with less data")
	}
	if _, err := s.skills.Find(ctx, name, 0); err != nil {
		return 0, err
	}
	err = s.table.DB.Update(ctx, func(tx *store.Tx) error {
		known, err := s.list(ctx, tx, name)
		if err != nil {
			return err
		}
		number = 1
		for _, k := range known {
			if number = k.Number + 1; k.Code == t.Code {
				number = k.Number
				break
			}
		}
		if number > maxTests {
			return fault.New(fault.Exhausted, "skill %q has %d tests, which is the maximum", name, len(known)).
				WithHint("delete them with `sandpiper skills test %s --delete`", name)
		}
		_, err = s.table.Put(ctx, tx, prefix(name)+strconv.Itoa(number), text)
		return err
	})
	return number, err
}

// List returns the tests of a skill, by number.
func (s *Store) List(ctx context.Context, name string) (all []Test, err error) {
	err = s.table.DB.View(ctx, func(tx *store.Tx) error {
		all, err = s.list(ctx, tx, name)
		return err
	})
	return all, err
}

func (s *Store) list(ctx context.Context, tx *store.Tx, name string) (all []Test, err error) {
	bodies, err := s.table.WithPrefix(ctx, tx, prefix(name))
	for _, b := range bodies {
		t := Test{Recorded: b.Updated}
		if t.Number, err = strconv.Atoi(strings.TrimPrefix(b.Name, prefix(name))); err != nil {
			return nil, err
		}
		if b.Damaged != nil {
			return nil, fault.Wrap(fault.Internal, b.Damaged, "test %d of skill %q is damaged or was encrypted with another key", t.Number,
				name).
				WithHint("delete the tests of the skill and record them again")
		}
		if err := json.Unmarshal(b.Text, &t); err != nil {
			return nil, err
		}
		all = append(all, t)
	}
	slices.SortFunc(all, func(a, b Test) int { return cmp.Compare(a.Number, b.Number) })
	return all, err
}

// Delete deletes the tests of a skill and returns how many there were.
func (s *Store) Delete(ctx context.Context, name string) (n int, err error) {
	err = s.table.DB.Update(ctx, func(tx *store.Tx) error {
		n, err = s.table.DeletePrefix(ctx, tx, prefix(name))
		return err
	})
	return n, err
}
