package usage_test

import (
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/sandpiper-mcp/sandpiper/internal/home/usage"
	"github.com/sandpiper-mcp/sandpiper/internal/store"
)

func open(t *testing.T, path string) (*usage.Counter, *store.DB) {
	t.Helper()
	db, err := store.Open(t.Context(), path, []store.Migration{{Number: 1, Name: "meter", SQL: usage.Tables}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { db.Close() })
	return usage.New(db, nil, nil), db
}

func find(t *testing.T, m *usage.Counter, session string) usage.Totals {
	t.Helper()
	r, err := m.Find(t.Context(), session)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func TestTokensAreCountedInTotalAndBySession(t *testing.T) {
	path := filepath.Join(t.TempDir(), "t.db")
	m, _ := open(t, path)
	m.AddModelText("a", "hello world", `{"success":true}`) // 2 and 5 tokens
	m.AddToolCall("a", "hello world", "")
	m.AddToolCall("", "hello world", "日本語")
	m.AddModelText("", "hello world")
	if err := m.Close(); err != nil {
		t.Fatal(err)
	}
	m.AddModelText("a", "too late")
	for session, want := range map[string]usage.Totals{
		"":        {Conversations: 1, Calls: 2, Saved: 6, Spent: 9},
		"a":       {Conversations: 1, Calls: 1, Saved: 2, Spent: 7},
		"unknown": {},
	} {
		if got := find(t, m, session); got != want {
			t.Errorf("%q: %+v, want %+v", session, got, want)
		}
	}
	other, _ := open(t, path) // another conversation, another process
	other.AddModelText("a", "hello world")
	other.Close()
	if got := find(t, m, ""); got.Conversations != 2 || got.Spent != 11 {
		t.Errorf("%+v", got)
	}
	if got := find(t, m, "a"); got.Conversations != 1 || got.Spent != 9 {
		t.Errorf("%+v", got)
	}
}

func TestFindCountsWaitingTexts(t *testing.T) {
	m, _ := open(t, filepath.Join(t.TempDir(), "t.db"))
	defer m.Close()
	for i := range int64(3) {
		m.AddToolCall("", "hello world")
		if got, want := find(t, m, ""), (usage.Totals{Calls: i + 1, Saved: 2 * (i + 1)}); got != want {
			t.Errorf("%+v, want %+v", got, want)
		}
	}
}

func TestLargeTextIsEstimated(t *testing.T) {
	m, _ := open(t, filepath.Join(t.TempDir(), "t.db"))
	text := strings.Repeat("hello world ", 100_000) // 12 bytes, about 2 tokens
	m.AddToolCall("", text)
	m.Close()
	if got := find(t, m, ""); !got.Estimated || got.Saved < 180_000 || got.Saved > 220_000 {
		t.Errorf("%+v", got)
	}
}

func TestWaitingTextsAreBounded(t *testing.T) {
	m, _ := open(t, filepath.Join(t.TempDir(), "t.db"))
	text := strings.Repeat("hello world ", 4_000) // 48 KB, 8,000 tokens
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			for range 50 {
				m.AddToolCall("s", text)
			}
		})
	}
	wg.Wait()
	m.Close()
	if got := find(t, m, "s"); got.Calls != 400 || got.Saved < 400*7_000 || got.Saved > 400*13_000 {
		t.Errorf("%+v", got)
	}
}

// Totals that could not be written are written later.
func TestFailedWriteLosesNoTokens(t *testing.T) {
	m, db := open(t, filepath.Join(t.TempDir(), "t.db"))
	rename := func(from, to string) {
		t.Helper()
		if err := db.Update(t.Context(), func(tx *store.Tx) error {
			_, err := tx.ExecContext(t.Context(), "ALTER TABLE "+from+" RENAME TO "+to)
			return err
		}); err != nil {
			t.Fatal(err)
		}
	}
	rename("usage", "away")
	m.AddModelText("a", "hello world")
	if _, err := m.Find(t.Context(), "a"); err == nil {
		t.Fatal("the table can be read")
	}
	rename("away", "usage")
	m.AddModelText("a", "hello world")
	if got := find(t, m, "a"); got != (usage.Totals{Conversations: 1, Spent: 4}) {
		t.Errorf("%+v", got)
	}
}
