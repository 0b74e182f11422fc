package sealed_test

import (
	"bytes"
	"path/filepath"
	"testing"

	"github.com/sandpiper-mcp/sandpiper/internal/store"
	"github.com/sandpiper-mcp/sandpiper/internal/store/sealed"
)

var (
	first  = sealed.Column{Table: "t", Name: "first", Keys: []string{"name", "number"}}
	second = sealed.Column{Table: "t", Name: "second", Keys: []string{"name", "number"}}
)

func newCipher(t *testing.T, key byte, owner string) sealed.Cipher {
	t.Helper()
	b, err := sealed.New(bytes.Repeat([]byte{key}, sealed.KeySize), owner)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func TestOpensInItsPlaceOnly(t *testing.T) {
	b := newCipher(t, 1, "a")
	c := b.Seal(first, []byte("text"), "x", 1)
	if text, err := b.Open(first, c, "x", int64(1)); err != nil || string(text) != "text" {
		t.Errorf("%q, %v", text, err)
	}
	damaged := bytes.Clone(c)
	damaged[len(damaged)-1]++
	for name, open := range map[string]func() ([]byte, error){
		"other column":  func() ([]byte, error) { return b.Open(second, c, "x", 1) },
		"other row":     func() ([]byte, error) { return b.Open(first, c, "x", 2) },
		"shifted keys":  func() ([]byte, error) { return b.Open(first, c, "x\x001 1", "") },
		"other owner":   func() ([]byte, error) { return newCipher(t, 1, "b").Open(first, c, "x", 1) },
		"other key":     func() ([]byte, error) { return newCipher(t, 2, "a").Open(first, c, "x", 1) },
		"damaged":       func() ([]byte, error) { return b.Open(first, damaged, "x", 1) },
		"shortened":     func() ([]byte, error) { return b.Open(first, c[:5], "x", 1) },
		"no ciphertext": func() ([]byte, error) { return b.Open(first, nil, "x", 1) },
		"row of a table": func() ([]byte, error) {
			return b.Open(sealed.Column{Table: "tf", Name: "irst", Keys: first.Keys}, c, "x", 1)
		},
	} {
		if text, err := open(); err == nil {
			t.Errorf("%s: %q", name, text)
		}
	}
	for _, key := range [][]byte{nil, make([]byte, 16), make([]byte, 33)} {
		if _, err := sealed.New(key, ""); err == nil {
			t.Errorf("a key of %d bytes is accepted", len(key))
		}
	}
}

func TestRekey(t *testing.T) {
	db, err := store.Open(t.Context(), filepath.Join(t.TempDir(), "t.db"),
		[]store.Migration{{Number: 1, Name: "t", SQL: "CREATE TABLE t (name TEXT, number INTEGER, first BLOB, second BLOB, PRIMARY KEY " +
			"(name, number)) STRICT, WITHOUT ROWID;"}})
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	from, to := newCipher(t, 1, "a"), newCipher(t, 2, "b")
	foreign := newCipher(t, 3, "c").Seal(first, []byte("foreign"), "z", 3)
	err = db.Update(t.Context(), func(tx *store.Tx) error {
		for _, row := range [][]any{
			{"x", 1, from.Seal(first, []byte("one"), "x", 1), from.Seal(second, nil, "x", 1)},
			{"x", 2, from.Seal(first, []byte("two"), "x", 2), nil},
			{"z", 3, foreign, []byte{}},
		} {
			if _, err := tx.ExecContext(t.Context(), "INSERT INTO t VALUES (?, ?, ?, ?)", row...); err != nil {
				return err
			}
		}
		damaged, err := from.Rekey(t.Context(), tx, to, first, second)
		if damaged != 1 {
			t.Errorf("%d damaged values, not 1", damaged)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	read := func(name string, number int) (a, b []byte) {
		err := db.View(t.Context(), func(tx *store.Tx) error {
			return tx.QueryRowContext(t.Context(), "SELECT first, second FROM t WHERE name = ? AND number = ?", name, number).Scan(&a, &b)
		})
		if err != nil {
			t.Fatal(err)
		}
		return a, b
	}
	a, b := read("x", 1)
	if text, err := to.Open(first, a, "x", 1); err != nil || string(text) != "one" {
		t.Errorf("%q, %v", text, err)
	}
	if text, err := to.Open(second, b, "x", 1); err != nil || len(text) > 0 {
		t.Errorf("an empty text is now %q, %v", text, err)
	}
	if a, b = read("x", 2); b != nil {
		t.Errorf("NULL is now %x", b)
	}
	if text, err := to.Open(first, a, "x", 2); err != nil || string(text) != "two" {
		t.Errorf("%q, %v", text, err)
	}
	if a, b = read("z", 3); !bytes.Equal(a, foreign) || len(b) > 0 {
		t.Errorf("a value of another key is now %x, %x", a, b)
	}
}
