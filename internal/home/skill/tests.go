package skill

import (
	"context"
	"encoding/json"
	"time"

	"github.com/sandpiper-mcp/sandpiper/internal/fault"
	"github.com/sandpiper-mcp/sandpiper/internal/home/journal"
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
	maxTests     = 20      // of a skill
	MaxTestBytes = 1 << 20 // of one test
)

// tests are the tests of the skills of one tenant.
type tests struct {
	db      *store.DB
	cipher  sealed.Cipher
	reserve func(ctx context.Context, bytes int64) (done func(), err error) // see Config
}

var ofTest = sealed.Column{Table: "skill_tests", Name: "encrypted", Keys: []string{"skill", "number"}}

// AddTest stores a test of a skill. It replaces one with the same code. It returns its number.
func (s tests) AddTest(ctx context.Context, name string, t Test) (number int, err error) {
	text, err := json.Marshal(t)
	if err != nil {
		return 0, err
	}
	if len(text) > MaxTestBytes {
		return 0, fault.New(fault.Exhausted, "the recorded answers have %d bytes; at most %d are allowed", len(text), MaxTestBytes).
			WithHint("call the skill with less data")
	}
	if s.reserve != nil {
		done, err := s.reserve(ctx, int64(len(text)))
		if err != nil {
			return 0, err
		}
		defer done()
	}
	err = s.db.Update(ctx, func(tx *store.Tx) error {
		if _, err := load(ctx, tx, name, 0); err != nil {
			return notFound(ctx, tx, name, 0)
		}
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
		_, err = tx.ExecContext(ctx, "INSERT OR REPLACE INTO skill_tests (skill, number, recorded, encrypted) VALUES (?, ?, ?, ?)",
			name, number, time.Now().UnixMilli(), s.cipher.Seal(ofTest, text, name, number))
		return err
	})
	return number, err
}

// Tests returns the tests of a skill, by number.
func (s tests) Tests(ctx context.Context, name string) (all []Test, err error) {
	err = s.db.View(ctx, func(tx *store.Tx) error {
		all, err = s.list(ctx, tx, name)
		return err
	})
	return all, err
}

func (s tests) list(ctx context.Context, tx *store.Tx, name string) (all []Test, err error) {
	rows, err := tx.QueryContext(ctx, "SELECT number, recorded, encrypted FROM skill_tests WHERE skill = ? ORDER BY number", name)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	for rows.Next() {
		var t Test
		var recorded int64
		var encrypted []byte
		if err := rows.Scan(&t.Number, &recorded, &encrypted); err != nil {
			return nil, err
		}
		text, err := s.cipher.Open(ofTest, encrypted, name, t.Number)
		if err != nil {
			return nil, fault.Wrap(fault.Internal, err, "test %d of skill %q is damaged or was encrypted with another key", t.Number, name).
				WithHint("delete the tests of the skill and record them again")
		}
		if err := json.Unmarshal(text, &t); err != nil {
			return nil, err
		}
		t.Recorded = time.UnixMilli(recorded).UTC()
		all = append(all, t)
	}
	return all, rows.Err()
}

// DeleteTests deletes the tests of a skill and returns how many there were.
func (s tests) DeleteTests(ctx context.Context, name string) (n int64, err error) {
	err = s.db.Update(ctx, func(tx *store.Tx) error {
		r, err := tx.ExecContext(ctx, "DELETE FROM skill_tests WHERE skill = ?", name)
		if err != nil {
			return err
		}
		n, err = r.RowsAffected()
		return err
	})
	return n, err
}

// Rekey encrypts the tests of s for the store to, which has the same database and another key. It
// returns the number of damaged tests, which remain damaged.
func (s tests) Rekey(ctx context.Context, to *Store) (damaged int, err error) {
	err = s.db.Update(ctx, func(tx *store.Tx) error {
		damaged, err = s.cipher.Rekey(ctx, tx, to.cipher, ofTest)
		return err
	})
	return damaged, err
}
