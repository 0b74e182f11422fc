package state

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/sandpiper-mcp/sandpiper/internal/fault"
	"github.com/sandpiper-mcp/sandpiper/internal/store"
	"github.com/sandpiper-mcp/sandpiper/internal/store/sealed"
)

func openDB(t *testing.T, path string) *store.DB {
	t.Helper()
	db, err := store.Open(t.Context(), path, []store.Migration{{Number: 1, Name: "states", SQL: sealed.Tables}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { db.Close() })
	return db
}

func openStore(t *testing.T, db *store.DB, key byte) *Store {
	t.Helper()
	cipher, err := sealed.New(bytes.Repeat([]byte{key}, 32), "alice")
	if err != nil {
		t.Fatal(err)
	}
	return open(sealed.Store{DB: db, Cipher: cipher}, nil)
}

func openNew(t *testing.T) *Store {
	return openStore(t, openDB(t, filepath.Join(t.TempDir(), "t.db")), 1)
}

func put(t *testing.T, s *Store, name, value string) int64 {
	t.Helper()
	v, err := s.Put(t.Context(), Draft{Name: name, Value: json.RawMessage(value)})
	if err != nil {
		t.Fatal(err)
	}
	return v
}

func get(t *testing.T, s *Store, name string) State {
	t.Helper()
	v, err := s.Get(t.Context(), name)
	if err != nil {
		t.Fatal(err)
	}
	return v
}

func putIf(s *Store, ctx context.Context, name, value string, version int64) (int64, error) {
	return s.Put(ctx, Draft{Name: name, Value: json.RawMessage(value), Version: &version})
}

func TestPutReplacesOnlyTheExpectedVersion(t *testing.T) {
	s := openNew(t)
	first, err := putIf(s, t.Context(), "cursor", `{"page":1}`, 0)
	if err != nil || first < 1 {
		t.Fatal(first, err)
	}
	conflict := func(version int64) {
		t.Helper()
		_, err := putIf(s, t.Context(), "cursor", `{"page":9}`, version)
		if c, ok := errors.AsType[*Conflict](err); !ok || fault.KindOf(err) != fault.Denied {
			t.Errorf("version %d: %v", version, err)
		} else if have, _ := s.Get(t.Context(), "cursor"); c.Version != have.Version {
			t.Errorf("the conflict has version %d, the state %d", c.Version, have.Version)
		}
	}
	conflict(0)
	second, err := putIf(s, t.Context(), "cursor", `{"page":2}`, first)
	if err != nil || second <= first {
		t.Fatal(second, err)
	}
	conflict(first)
	if v := get(t, s, "cursor"); string(v.Value) != `{"page":2}` || v.Version != second || v.Size != 10 || v.Updated.IsZero() {
		t.Errorf("%+v", v)
	}

	// A version is not used again, also after a deletion.
	if v, err := putIf(s, t.Context(), "cursor", " null ", second); v != 0 || err != nil {
		t.Fatal(v, err)
	}
	conflict(second)
	if third := put(t, s, "cursor", "3"); third <= second {
		t.Errorf("version %d after %d", third, second)
	}
	conflict(second)
}

func TestOneOfConcurrentWritersSucceeds(t *testing.T) {
	path := filepath.Join(t.TempDir(), "t.db")
	stores := []*Store{openStore(t, openDB(t, path), 1), openStore(t, openDB(t, path), 1)} // two processes
	put(t, stores[0], "n", "0")
	const writers, each = 8, 10
	var wg sync.WaitGroup
	for i := range writers {
		wg.Go(func() {
			for range each {
				for {
					v, err := stores[i%2].Get(t.Context(), "n")
					if err != nil {
						t.Error(err)
						return
					}
					n, _ := strconv.Atoi(string(v.Value))
					_, err = putIf(stores[i%2], t.Context(), "n", strconv.Itoa(n+1), v.Version)
					if _, again := errors.AsType[*Conflict](err); again {
						continue
					}
					if err != nil {
						t.Error(err)
						return
					}
					break
				}
			}
		})
	}
	wg.Wait()
	if v := get(t, stores[0], "n"); string(v.Value) != strconv.Itoa(writers*each) {
		t.Errorf("%s after %d increments", v.Value, writers*each)
	}
}

func TestInvalidStatesAreRejected(t *testing.T) {
	s := openNew(t)
	for name, d := range map[string]Draft{
		"no name":   {Value: []byte("1")},
		"space":     {Name: " a", Value: []byte("1")},
		"control":   {Name: "a\x00b", Value: []byte("1")},
		"not UTF-8": {Name: "\xff", Value: []byte("1")},
		"long name": {Name: strings.Repeat("ü", MaxName+1), Value: []byte("1")},
		"no JSON":   {Name: "a", Value: []byte("{")},
		"no value":  {Name: "a"},
		"version":   {Name: "a", Value: []byte("1"), Version: new(int64(-1))},
		"too large": {Name: "a", Value: []byte(`"` + strings.Repeat("x", MaxBytes) + `"`)},
	} {
		if _, err := s.Put(t.Context(), d); fault.KindOf(err) != fault.Invalid && fault.KindOf(err) != fault.Exhausted {
			t.Errorf("%s: %v", name, err)
		}
	}
	if all, err := s.List(t.Context()); len(all) != 0 || err != nil {
		t.Error(all, err)
	}
	for _, name := range []string{"a/b.json", strings.Repeat("ü", MaxName), "kunde@example.com"} {
		put(t, s, name, "1")
	}
	_, err := s.Get(t.Context(), "a/b.jsn")
	if fault.KindOf(err) != fault.NotFound || fault.Hint(err) != "there is a/b.json" {
		t.Errorf("%v, %s", err, fault.Hint(err))
	}
}

func TestNumberAndSizeAreLimited(t *testing.T) {
	s := openNew(t)
	large := `"` + strings.Repeat("x", MaxBytes-2) + `"`
	full := MaxStored / MaxBytes
	for i := range full {
		put(t, s, fmt.Sprint(i), large)
	}
	if _, err := s.Put(t.Context(), Draft{Name: "more", Value: []byte("1")}); fault.KindOf(err) != fault.Exhausted {
		t.Error(err)
	}
	put(t, s, "0", large) // the size of the replaced value does not count
	for i := range full {
		put(t, s, fmt.Sprint(i), "null")
	}
	for i := range MaxNames {
		put(t, s, fmt.Sprint(i), "1")
	}
	if _, err := s.Put(t.Context(), Draft{Name: "more", Value: []byte("1")}); fault.KindOf(err) != fault.Exhausted {
		t.Error(err)
	}
}

func TestStatesAreEncryptedAndBoundToTheirName(t *testing.T) {
	path := filepath.Join(t.TempDir(), "t.db")
	db := openDB(t, path)
	s, other := openStore(t, db, 1), openStore(t, db, 2)
	put(t, s, "a", `"secret text"`)
	put(t, s, "b", `"another"`)
	for _, file := range []string{path, path + "-wal"} {
		if b, err := os.ReadFile(file); err != nil || bytes.Contains(b, []byte("secret")) {
			t.Error(file, err)
		}
	}
	if _, err := other.Get(t.Context(), "a"); fault.KindOf(err) != fault.Internal {
		t.Error(err)
	}
	err := db.Update(t.Context(), func(tx *store.Tx) error {
		_, err := tx.ExecContext(t.Context(), "UPDATE sealed SET body = (SELECT body FROM sealed WHERE name = 'b') WHERE name = 'a'")
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.Get(t.Context(), "a"); fault.KindOf(err) != fault.Internal {
		t.Error("a has the value of b:", err)
	}
}
