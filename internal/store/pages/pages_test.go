package pages_test

import (
	"bytes"
	"context"
	"database/sql"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"

	"github.com/sandpiper-mcp/sandpiper/internal/store"
	"github.com/sandpiper-mcp/sandpiper/internal/store/pages"
)

var tables = []store.Migration{{Number: 1, Name: "initial", SQL: "CREATE TABLE t (id INTEGER PRIMARY KEY, text TEXT)"}}

type database struct {
	*store.DB
	t    *testing.T
	path string
}

func open(t *testing.T, path string) database {
	t.Helper()
	d, err := store.Open(t.Context(), path, tables)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { d.Close() })
	return database{d, t, path}
}

func (d database) insert(rows, size int) {
	d.t.Helper()
	if err := d.Update(d.t.Context(), func(tx *store.Tx) error {
		for range rows {
			if _, err := tx.ExecContext(d.t.Context(), "INSERT INTO t (text) VALUES (?)",
				fmt.Sprintf("%0*d", size, rand.Uint64())); err != nil {
				return err
			}
		}
		_, err := tx.ExecContext(d.t.Context(), "DELETE FROM t WHERE id % 5 = ?", rand.IntN(20))
		return err
	}); err != nil {
		d.t.Fatal(err)
	}
}

// rows describes the content of a database file.
func rows(t *testing.T, path string) (all string) {
	t.Helper()
	db, err := sql.Open("sqlite", path)
	if err == nil {
		err = db.QueryRow("SELECT count(*) || ' ' || total(id) || ' ' || coalesce(group_concat(substr(text, -20)), '') FROM (SELECT * " +
			"FROM t ORDER BY id)").Scan(&all)
		defer db.Close()
	}
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// write writes a file and keeps it.
func write(t *testing.T, w *pages.Writer, snapshot bool) (*pages.File, []byte) {
	t.Helper()
	var b bytes.Buffer
	f, err := w.Write(t.Context(), &b, snapshot)
	if err != nil {
		t.Fatal(err)
	}
	if f != nil {
		f.Keep()
	} else if b.Len() > 0 {
		t.Fatal("nothing has changed, and something was written")
	}
	return f, b.Bytes()
}

func newCopy(t *testing.T) (*pages.Copy, string) {
	f, err := os.Create(filepath.Join(t.TempDir(), "copy.db"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { f.Close() })
	return pages.NewCopy(f), f.Name()
}

func TestCopyHasEachTransaction(t *testing.T) {
	d := open(t, filepath.Join(t.TempDir(), "tenant.db"))
	w := pages.NewWriter(d.DB)
	files, want := [][]byte{}, []string{}
	for i := range 40 {
		d.insert(1+rand.IntN(30), 10+rand.IntN(5000))
		if i%9 == 4 {
			if err := d.Compact(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
		if i%11 == 6 { // another process, after this one; its files begin with a snapshot if it did not see all
			w = pages.NewWriter(d.DB)
			c, _ := newCopy(t)
			for _, f := range files {
				if err := c.Apply(bytes.NewReader(f)); err != nil {
					t.Fatal(err)
				}
			}
			if _, err := w.Continue(t.Context(), c.Pos()); err != nil {
				t.Fatal(err)
			}
		}
		if _, b := write(t, w, i == 20); len(b) > 0 {
			files, want = append(files, b), append(want, rows(t, d.path))
		}
	}
	if f, _ := write(t, w, false); f != nil {
		t.Error("there is a file without changes")
	}
	c, path := newCopy(t)
	for i, f := range files {
		if err := c.Apply(bytes.NewReader(f)); err != nil {
			t.Fatalf("file %d: %v", i, err)
		}
		if got := rows(t, path); got != want[i] {
			t.Fatalf("after file %d the copy has other rows: %.100s, want %.100s", i, got, want[i])
		}
	}
	if err := store.CheckIntegrity(t.Context(), path); err != nil {
		t.Error(err)
	}
}

func TestDroppedFileIsPartOfTheNextOne(t *testing.T) {
	d := open(t, filepath.Join(t.TempDir(), "tenant.db"))
	w := pages.NewWriter(d.DB)
	c, path := newCopy(t)
	_, b := write(t, w, false)
	if err := c.Apply(bytes.NewReader(b)); err != nil {
		t.Fatal(err)
	}
	d.insert(100, 1000)
	f, err := w.Write(t.Context(), &bytes.Buffer{}, false)
	if err != nil {
		t.Fatal(err)
	}
	f.Drop()
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := w.Write(ended, &bytes.Buffer{}, false); err == nil {
		t.Error("a file was written after the context had ended")
	}
	d.insert(1, 10)
	_, b = write(t, w, false)
	if err := c.Apply(bytes.NewReader(b)); err != nil {
		t.Fatal(err)
	}
	if got, want := rows(t, path), rows(t, d.path); got != want {
		t.Errorf("the copy has other rows: %.100s, want %.100s", got, want)
	}
}

func TestApplyRefusesWhatDoesNotFollow(t *testing.T) {
	d := open(t, filepath.Join(t.TempDir(), "tenant.db"))
	w := pages.NewWriter(d.DB)
	_, first := write(t, w, false)
	d.insert(10, 100)
	_, second := write(t, w, false)
	d.insert(10, 100)
	_, third := write(t, w, false)
	altered := bytes.Clone(second)
	altered[len(altered)/2] ^= 1
	for name, files := range map[string][][]byte{
		"no snapshot": {second},
		"one missing": {first, third},
		"one twice":   {first, second, second},
		"altered":     {first, altered},
		"truncated":   {first, second[:len(second)-1]},
		"empty":       {first, {}},
	} {
		c, _ := newCopy(t)
		var err error
		for _, f := range files {
			if err = c.Apply(bytes.NewReader(f)); err != nil {
				break
			}
		}
		if err == nil {
			t.Errorf("%s: no error", name)
		}
	}
}
