package store

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"
)

// A copy that takes only the pages of Changes is equal to the database, whatever this process and others do meanwhile.
func TestChangesAreComplete(t *testing.T) {
	ctx, path := t.Context(), filepath.Join(t.TempDir(), "tenant.db")
	tables := []Migration{{Number: 1, Name: "initial", SQL: "CREATE TABLE t (id INTEGER PRIMARY KEY, text TEXT)"}}
	open := func() *DB {
		d, err := Open(ctx, path, tables)
		if err != nil {
			t.Fatal(err)
		}
		return d
	}
	d := open()
	defer d.Close()
	changes, all := TrackChanges(d), 0
	seed := rand.Uint64()
	random := rand.New(rand.NewPCG(seed, 1))
	insert := func(d *DB, rows int) {
		t.Helper()
		if err := d.UpdateDeferredSync(ctx, func(tx *Tx) error {
			for range rows {
				if _, err := tx.ExecContext(ctx, "INSERT INTO t (text) VALUES (?)",
					fmt.Sprintf("%0*d", 10+random.IntN(9000), random.Uint64())); err != nil {
					return err
				}
			}
			_, err := tx.ExecContext(ctx, "DELETE FROM t WHERE id % 7 = ?", random.IntN(7))
			return err
		}); err != nil {
			t.Fatal(err)
		}
	}
	copied := map[uint32][]byte{}
	compare := func(c Changed) error {
		file := filepath.Join(t.TempDir(), "copy.db")
		var all []byte
		for n := uint32(1); n <= c.Size; n++ {
			all = append(all, copied[n]...)
		}
		must(t, os.WriteFile(file, all, 0o600))
		var want, got string
		rows := "SELECT count(*) || ' ' || total(id) || ' ' || total(length(text)) || ' ' || coalesce(max(text), '') FROM t"
		if err := c.tx.QueryRowContext(ctx, rows).Scan(&want); err != nil {
			return err
		}
		// A page on the free list need not be the same.
		if err := CheckIntegrity(ctx, file); err != nil {
			return err
		}
		db, err := openExisting(file)
		if err == nil {
			err = errors.Join(db.QueryRow(rows).Scan(&got), db.Close())
		}
		if err == nil && got != want {
			err = fmt.Errorf("the copy has the rows %.60q, want %.60q", got, want)
		}
		return err
	}
	for step := range 400 {
		switch n := random.IntN(14); {
		case n < 7:
			insert(d, 1+random.IntN(20))
		case n == 7:
			other := open()
			insert(other, 3)
			if random.IntN(2) == 0 {
				must(t, other.checkpoint(ctx))
			}
			must(t, other.Close())
		case n == 8:
			must(t, d.checkpoint(ctx))
		case n == 9:
			must(t, Trim(d))
		case n == 10:
			must(t, d.checkpointAll())
		case n == 11 && step%3 == 0:
			must(t, d.Compact(ctx))
		default:
			failed := random.IntN(4) == 0
			err := changes.View(ctx, func(c Changed) error {
				if failed {
					return context.Canceled
				}
				if c.Pages == nil {
					all++
				}
				err := c.Each(ctx, func(n uint32, data []byte) error {
					if c.Pages == nil || c.Pages[n] {
						copied[n] = bytes.Clone(data)
					}
					return nil
				})
				return errors.Join(err, compare(c))
			})
			if failed != (err != nil) {
				t.Fatalf("seed %d, step %d: %v", seed, step, err)
			}
		}
	}
	if all < 2 || all > 60 {
		t.Errorf("seed %d: the pages were unknown in %d calls, want few", seed, all)
	}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
