package learned_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/sandpiper-mcp/sandpiper/internal/home/learned"
	"github.com/sandpiper-mcp/sandpiper/internal/store"
	"github.com/sandpiper-mcp/sandpiper/internal/store/sealed"
	"github.com/sandpiper-mcp/sandpiper/internal/tool"
	"github.com/sandpiper-mcp/sandpiper/internal/tool/catalog/search"
)

var (
	create = tool.Ref{Server: "tracker", Tool: "create"}
	list   = tool.Ref{Server: "tracker", Tool: "list"}
)

// tenant has the database of a tenant and a clock.
type tenant struct {
	db   *store.DB
	path string
	cfg  learned.Config
	now  time.Time
}

func newTenant(t *testing.T) *tenant {
	t.Helper()
	path := filepath.Join(t.TempDir(), "t.db")
	db, err := store.Open(t.Context(), path, []store.Migration{{Number: 1, Name: "used tools", SQL: sealed.Tables}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { db.Close() })
	d := &tenant{db: db, path: path, now: time.Date(2026, 5, 1, 12, 0, 0, 0, time.UTC)}
	d.cfg = learned.Config{In: sealed.Store{DB: db, Cipher: newCipher(t, 7)}, Now: func() time.Time { return d.now }}
	return d
}

func newCipher(t *testing.T, key byte) sealed.Cipher {
	t.Helper()
	cipher, err := sealed.New(bytes.Repeat([]byte{key}, 32), "alice")
	if err != nil {
		t.Fatal(err)
	}
	return cipher
}

// do runs f with a store, and closes it, which writes the records.
func (d *tenant) do(t *testing.T, f func(s *learned.Store)) {
	t.Helper()
	s := learned.New(d.cfg)
	f(s)
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
}

// uses returns the stored records, by tool and words.
func (d *tenant) uses(t *testing.T) (all []search.Use) {
	t.Helper()
	d.do(t, func(s *learned.Store) { all = s.Uses(t.Context()).All() })
	slices.SortFunc(all, func(a, b search.Use) int {
		return strings.Compare(a.Tool+fmt.Sprint(a.Terms), b.Tool+fmt.Sprint(b.Terms))
	})
	return all
}

func TestCallIsRecordedForTheLatestSearchThatReturnedTheTool(t *testing.T) {
	t.Parallel()
	d := newTenant(t)
	d.do(t, func(s *learned.Store) {
		s.AddCall(create) // before any search
		s.AddSearch("file a bug", []tool.Ref{list, create})
		s.AddSearch("show bugs", []tool.Ref{list})
		for range 5 {
			s.AddCall(create)
			s.AddCall(list)
		}
		s.AddCall(tool.Ref{Server: "mail", Tool: "create"}) // not returned
	})
	want := []search.Use{
		{Server: "tracker", Tool: "create", Terms: []string{"file", "bug"}, Searches: 1, Lower: 1},
		{Server: "tracker", Tool: "list", Terms: []string{"show", "bug"}, Searches: 1},
	}
	if diff := cmp.Diff(want, d.uses(t)); diff != "" {
		t.Error(diff)
	}
}

func TestForgetDeletesAllRecords(t *testing.T) {
	t.Parallel()
	d, other := newTenant(t), newTenant(t)
	for _, d := range []*tenant{d, other} {
		d.do(t, func(s *learned.Store) {
			s.AddSearch("file a bug", []tool.Ref{list, create})
			s.AddCall(create)
			s.AddCall(list)
		})
	}
	if f, err := learned.Forget(t.Context(), d.cfg.In); err != nil || f != (learned.Forgotten{Records: 2, Uses: 2}) {
		t.Errorf("%+v, %v", f, err)
	}
	if f, err := learned.Forget(t.Context(), d.cfg.In); err != nil || f != (learned.Forgotten{}) {
		t.Errorf("the second time: %+v, %v", f, err)
	}
	if len(d.uses(t)) != 0 || len(other.uses(t)) != 2 {
		t.Errorf("%+v; another tenant has %+v", d.uses(t), other.uses(t))
	}
}

func TestCallLongAfterASearchIsNotRecorded(t *testing.T) {
	t.Parallel()
	d := newTenant(t)
	d.do(t, func(s *learned.Store) {
		s.AddSearch("file a bug", []tool.Ref{create})
		d.now = d.now.Add(11 * time.Minute)
		s.AddCall(create)
	})
	if all := d.uses(t); len(all) > 0 {
		t.Errorf("%+v", all)
	}
}

// A record counts a search once in ten minutes, and a tool gets few records in that time, so that
// code which searches and calls in a loop changes little.
func TestLoopIsRecordedOnce(t *testing.T) {
	t.Parallel()
	d := newTenant(t)
	d.do(t, func(s *learned.Store) {
		for i := range 200 {
			s.AddSearch("file a bug", []tool.Ref{list, create})
			s.AddCall(create)
			s.AddSearch("topic "+strings.Repeat("x", i%30+1), []tool.Ref{list, create})
			s.AddCall(create)
		}
	})
	all := d.uses(t)
	if len(all) != 3 {
		t.Errorf("%d records: %+v", len(all), all)
	}
	for _, u := range all {
		if u.Searches != 1 {
			t.Errorf("%+v", u)
		}
	}
	d.now = d.now.Add(11 * time.Minute)
	d.do(t, func(s *learned.Store) {
		s.AddSearch("a bug: file it", []tool.Ref{create})
		s.AddSearch("file a bug", []tool.Ref{create})
		s.AddCall(create)
	})
	if u := d.uses(t)[0]; u.Searches != 2 || u.Lower != 1 {
		t.Errorf("%+v", u)
	}
}

func TestRecordsAreLimited(t *testing.T) {
	t.Parallel()
	d := newTenant(t)
	words := func(i int) string { return strings.Repeat(string(rune('a'+i%26)), 3) + strings.Repeat("z", i/26) }
	for i := range 60 { // many searches for one tool, in hours
		d.do(t, func(s *learned.Store) {
			s.AddSearch(words(i), []tool.Ref{create})
			s.AddCall(create)
		})
		d.now = d.now.Add(time.Hour)
	}
	all := d.uses(t)
	if len(all) != 20 || !slices.ContainsFunc(all, func(u search.Use) bool { return u.Terms[0] == search.Terms(words(59))[0] }) {
		t.Errorf("%d records of one tool: %+v", len(all), all)
	}
	d.do(t, func(s *learned.Store) {
		for i := range 600 {
			ref := tool.Ref{Server: "many", Tool: fmt.Sprint("t", i)}
			s.AddSearch(strings.Repeat("long words of a search ", 20)+words(i%300), []tool.Ref{ref})
			s.AddCall(ref)
		}
	})
	if n := len(d.uses(t)); n != 500 {
		t.Errorf("%d records", n)
	}
	d.now = d.now.Add(91 * 24 * time.Hour)
	if all := d.uses(t); len(all) > 0 {
		t.Errorf("%d expired records", len(all))
	}
	d.do(t, func(s *learned.Store) {
		s.AddSearch("file a bug", []tool.Ref{create})
		s.AddCall(create)
	})
	d.now = d.now.Add(-time.Hour)
	if n := len(d.uses(t)); n != 1 {
		t.Errorf("%d records after expired ones were deleted", n)
	}
}

func TestPrivateValuesAreNotStored(t *testing.T) {
	t.Parallel()
	d := newTenant(t)
	d.cfg.Redact = func(_ context.Context, text string) (string, error) {
		if strings.Contains(text, "locked") {
			return "", errors.New("the vault is locked")
		}
		text = strings.ReplaceAll(text, "ada@example.com", "[EMAIL_k7q2m9x4d3w8n5rt]")
		return strings.ReplaceAll(text, "Lovelace", "[NAME_withheld]"), nil
	}
	d.do(t, func(s *learned.Store) {
		s.AddSearch("mail ada@example.com, Lovelace, 4711", []tool.Ref{create})
		s.AddCall(create)
		s.AddSearch("locked words", []tool.Ref{list})
		s.AddCall(list)
	})
	want := []search.Use{{Server: "tracker", Tool: "create", Terms: []string{"mail"}, Searches: 1}}
	if diff := cmp.Diff(want, d.uses(t)); diff != "" {
		t.Error(diff)
	}
}

func TestRecordsAreEncrypted(t *testing.T) {
	t.Parallel()
	d := newTenant(t)
	d.do(t, func(s *learned.Store) {
		s.AddSearch("quarterly forecast", []tool.Ref{create})
		s.AddCall(create)
	})
	for _, path := range []string{d.path, d.path + "-wal"} {
		data, err := os.ReadFile(path)
		if err != nil && !errors.Is(err, os.ErrNotExist) {
			t.Fatal(err)
		}
		if bytes.Contains(data, []byte("quarter")) || bytes.Contains(data, []byte(create.Server)) {
			t.Errorf("%s contains words or tools", filepath.Base(path))
		}
	}
	d.cfg.In.Cipher = newCipher(t, 8)
	if all := d.uses(t); len(all) > 0 {
		t.Errorf("with another key: %+v", all)
	}
}

// Two tenants have separate records, as they have separate databases.
func TestRecordsAreOfOneTenant(t *testing.T) {
	t.Parallel()
	a, b := newTenant(t), newTenant(t)
	a.do(t, func(one *learned.Store) {
		b.do(t, func(other *learned.Store) {
			one.AddSearch("file a bug", []tool.Ref{create})
			other.AddCall(create)
		})
	})
	if all := append(a.uses(t), b.uses(t)...); len(all) > 0 {
		t.Errorf("%+v", all)
	}
}

func TestNilStoreRecordsNothing(t *testing.T) {
	t.Parallel()
	var s *learned.Store
	s.AddSearch("file a bug", []tool.Ref{create})
	s.AddCall(create)
	if s.Uses(t.Context()) != nil || s.Close() != nil {
		t.Error("the nil store has records")
	}
}
