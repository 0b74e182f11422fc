package store_test

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/sandpiper-mcp/sandpiper/internal/fault"
	"github.com/sandpiper-mcp/sandpiper/internal/store"
)

// Programs with different features use the same file; each adds the tables that it misses, once.
func TestFeatureTables(t *testing.T) {
	path := filepath.Join(t.TempDir(), "a.db")
	core := []store.Migration{{Number: 1, Name: "initial", SQL: "CREATE TABLE core (a TEXT)"}}
	feature := func(name string, tables ...string) store.Feature {
		f := store.Feature{Name: name}
		for i, table := range tables {
			f.Migrations = append(f.Migrations, store.Migration{Number: i + 1, Name: table,
				SQL: "CREATE TABLE " + table + " (a TEXT); INSERT INTO " + table + " VALUES ('first')"})
		}
		return f
	}
	count := func(table string, features ...store.Feature) (n int, err error) {
		t.Helper()
		db, err := store.Open(t.Context(), path, core, features...)
		if err != nil {
			return 0, err
		}
		defer db.Close()
		err = db.View(t.Context(), func(tx *store.Tx) error {
			return tx.QueryRowContext(t.Context(), "SELECT count(*) FROM "+table).Scan(&n)
		})
		return n, err
	}
	for _, c := range []struct {
		table    string
		features []store.Feature
	}{
		{"b1", []store.Feature{feature("b", "b1")}},
		{"b1", []store.Feature{feature("b", "b1")}}, // not again
		{"b1", nil}, // of a program without it
		{"c1", []store.Feature{feature("c", "c1")}},
		{"b2", []store.Feature{feature("b", "b1", "b2"), feature("c", "c1")}},
		{"b1", []store.Feature{feature("c", "c1")}},
	} {
		if n, err := count(c.table, c.features...); err != nil || n != 1 {
			t.Fatalf("%s with %v: %d rows, %v", c.table, c.features, n, err)
		}
	}
	_, err := count("b1", feature("b", "b1"))
	if fault.KindOf(err) != fault.Unavailable || !strings.Contains(fault.Message(err),
		"schema version 2 of the feature b, but this version of Sandpiper supports versions up to 1") {
		t.Error(err)
	}
	_, err = count("d", store.Feature{Name: "d", Migrations: []store.Migration{{Number: 1, Name: "wrong",
		SQL: "CREATE TABLE d (a TEXT); nonsense"}}})
	if err == nil {
		t.Error("a wrong migration was applied")
	}
	if _, err := count("d"); err == nil {
		t.Error("half of a migration was applied")
	}
}
