package sealed_test

import (
	"path/filepath"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/sandpiper-mcp/sandpiper/internal/fault"
	"github.com/sandpiper-mcp/sandpiper/internal/store"
	"github.com/sandpiper-mcp/sandpiper/internal/store/sealed"
)

func newStore(t *testing.T, owner string) sealed.Store {
	t.Helper()
	db, err := store.Open(t.Context(), filepath.Join(t.TempDir(), owner+".db"),
		[]store.Migration{{Number: 1, Name: "sealed", SQL: sealed.Tables}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { db.Close() })
	return sealed.Store{DB: db, Cipher: newCipher(t, 1, owner)}
}

func newTable(in sealed.Store, kind string) *sealed.Table {
	return &sealed.Table{Store: in, Kind: kind, Noun: kind, Missing: "there is no %.60q"}
}

func put(t *testing.T, table *sealed.Table, name, text string) (version int64) {
	t.Helper()
	err := table.DB.Update(t.Context(), func(tx *store.Tx) (err error) {
		version, err = table.Put(t.Context(), tx, name, []byte(text))
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return version
}

// find returns the text of a body, or the kind of the error.
func find(t *testing.T, table *sealed.Table, name string) string {
	t.Helper()
	b, err := table.Find(t.Context(), name)
	if err != nil {
		return fault.KindOf(err).String()
	}
	return string(b.Text)
}

func update(t *testing.T, db *store.DB, query string, args ...any) {
	t.Helper()
	err := db.Update(t.Context(), func(tx *store.Tx) error { _, err := tx.ExecContext(t.Context(), query, args...); return err })
	if err != nil {
		t.Fatal(err)
	}
}

// names returns the names in a table.
func names(t *testing.T, table *sealed.Table) []string {
	t.Helper()
	all, err := table.List(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, e := range all {
		names = append(names, e.Name)
	}
	return names
}

func TestKindsAndTenantsSeeNothingOfEachOther(t *testing.T) {
	alice, bob := newStore(t, "alice"), newStore(t, "bob")
	a, other, b := newTable(alice, "state"), newTable(alice, "workflow"), newTable(bob, "state")
	if first, second := put(t, a, "x", "secret text"), put(t, a, "x", "secret text 2"); first != 1 || second != 2 {
		t.Errorf("versions %d, %d", first, second)
	}
	if v := put(t, other, "y", "of another kind"); v != 1 {
		t.Errorf("the first version of another kind is %d", v)
	}
	for _, table := range []*sealed.Table{other, b} {
		if got := find(t, table, "x"); got != fault.NotFound.String() {
			t.Errorf("%s of another kind or tenant: %s", table.Kind, got)
		}
	}
	if d := cmp.Diff([]string{"x"}, names(t, a)); d != "" || len(names(t, b)) > 0 {
		t.Errorf("%s; the other tenant has %q", d, names(t, b))
	}
}

func TestCopiedBodyCannotBeOpened(t *testing.T) {
	alice, bob := newStore(t, "alice"), newStore(t, "bob")
	a, other, b := newTable(alice, "state"), newTable(alice, "workflow"), newTable(bob, "state")
	put(t, a, "x", "secret text")
	var body []byte
	err := alice.DB.View(t.Context(), func(tx *store.Tx) error {
		return tx.QueryRowContext(t.Context(), "SELECT body FROM sealed").Scan(&body)
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, to := range []struct {
		table *sealed.Table
		name  string
	}{{a, "y"}, {other, "x"}, {b, "x"}} {
		update(t, to.table.DB, "INSERT INTO sealed VALUES (?, ?, 1, 0, 11, ?)", to.table.Kind, to.name, body)
		if got := find(t, to.table, to.name); got != fault.Internal.String() {
			t.Errorf("copied to %s %s: %s", to.table.Kind, to.name, got)
		}
	}
	update(t, alice.DB, "UPDATE sealed SET body = x'' WHERE kind = 'state' AND name = 'x'")
	if got := find(t, a, "x"); got != fault.Internal.String() {
		t.Errorf("without a body: %s", got)
	}
}

func TestRekeyIncludesAllKinds(t *testing.T) {
	in := newStore(t, "alice")
	moved := sealed.Store{DB: in.DB, Cipher: newCipher(t, 2, "bob")}
	put(t, newTable(in, "state"), "x", "one")
	put(t, newTable(in, "workflow"), "x", "two")
	for _, damaged := range []int{0, 2} { // the second time with the wrong key
		err := in.DB.Update(t.Context(), func(tx *store.Tx) error {
			n, err := in.Cipher.Rekey(t.Context(), tx, moved.Cipher, sealed.Bodies)
			if n != damaged {
				t.Errorf("%d damaged, not %d", n, damaged)
			}
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
		if one, two := find(t, newTable(moved, "state"), "x"), find(t, newTable(moved, "workflow"), "x"); one != "one" || two != "two" {
			t.Errorf("the texts are now %s and %s", one, two)
		}
	}
	if got := find(t, newTable(in, "state"), "x"); got != fault.Internal.String() {
		t.Errorf("with the old key: %s", got)
	}
}

// A version is not used again, also after a deletion.
func TestDeletedNameGetsANewVersion(t *testing.T) {
	table := newTable(newStore(t, "alice"), "state")
	put(t, table, "x", "1")
	for _, want := range []bool{true, false} {
		err := table.DB.Update(t.Context(), func(tx *store.Tx) error {
			got, err := table.Delete(t.Context(), tx, "x")
			if got != want {
				t.Errorf("deleted: %t", got)
			}
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	if v := put(t, table, "x", "2"); v != 2 {
		t.Errorf("version %d", v)
	}
}

func TestBodiesExpireAndAreEvicted(t *testing.T) {
	now := time.Now()
	in := newStore(t, "alice")
	table, other := newTable(in, "recent"), newTable(in, "state")
	table.Keep, table.Now = time.Hour, func() time.Time { return now }
	put(t, other, "x", "1")
	put(t, table, "old", "1")
	now = now.Add(40 * time.Minute)
	for _, name := range []string{"c", "b", "a"} {
		put(t, table, name, "12")
	}
	now = now.Add(40 * time.Minute)
	if got := find(t, table, "old"); got != fault.NotFound.String() {
		t.Errorf("an expired body: %s", got)
	}
	if err := table.Expire(t.Context()); err != nil {
		t.Fatal(err)
	}
	now = now.Add(-80 * time.Minute)
	evict := func(number int, bytes int64) []string {
		err := table.DB.Update(t.Context(), func(tx *store.Tx) error { return table.Evict(t.Context(), tx, number, bytes) })
		if err != nil {
			t.Fatal(err)
		}
		return names(t, table)
	}
	for _, step := range []struct {
		number int
		bytes  int64
		want   []string
	}{{3, 6, []string{"a", "b", "c"}}, {2, 6, []string{"a", "b"}}, {2, 3, []string{"a"}}} {
		if d := cmp.Diff(step.want, evict(step.number, step.bytes)); d != "" {
			t.Error(d)
		}
	}
	if d := cmp.Diff([]string{"x"}, names(t, other)); d != "" {
		t.Errorf("another kind: %s", d)
	}
}
