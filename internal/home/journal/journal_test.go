package journal_test

import (
	"encoding/json"
	"fmt"
	"path/filepath"
	"sync"
	"testing"

	"github.com/sandpiper-mcp/sandpiper/internal/home/journal"
	"github.com/sandpiper-mcp/sandpiper/internal/store"
	"github.com/sandpiper-mcp/sandpiper/internal/tool"
)

func open(t testing.TB, path string, kept int) *journal.Log {
	t.Helper()
	db, err := store.Open(t.Context(), path, []store.Migration{{Number: 1, Name: "journal", SQL: journal.Tables}})
	if err != nil {
		t.Fatal(err)
	}
	l := journal.New(journal.Config{DB: db, MaxCalls: kept})
	t.Cleanup(func() { l.Close(); db.Close() })
	return l
}

func call(n int) tool.Call {
	return tool.Call{Ref: tool.Ref{Server: "crm", Tool: "send"}, Execution: "exec_1", Args: json.RawMessage(fmt.Sprintf(`{"n":%d}`, n))}
}

func TestUnfinishedCallIsUnknown(t *testing.T) {
	path := filepath.Join(t.TempDir(), "t.db")
	l := open(t, path, 0)
	first, err := l.Begin(t.Context(), call(1))
	if err != nil {
		t.Fatal(err)
	}
	second, err := l.Begin(t.Context(), call(2))
	if err != nil {
		t.Fatal(err)
	}
	if err := l.Done(t.Context(), first, journal.Failed); err != nil {
		t.Fatal(err)
	}
	entries, err := open(t, path, 0).List(t.Context(), 10) // as after a crash
	if err != nil || len(entries) != 2 {
		t.Fatal(entries, err)
	}
	if e := entries[0]; e.ID != second || e.Outcome != journal.Unknown || !e.Ended.IsZero() || e.Ref.String() != "crm.send" ||
		e.Execution != "exec_1" {
		t.Errorf("second call: %+v", e)
	}
	if e := entries[1]; e.Outcome != journal.Failed || e.Ended.Before(e.Began) || e.Arguments == entries[0].Arguments ||
		len(e.Arguments) != 64 {
		t.Errorf("first call: %+v", e)
	}
}

func TestConcurrentCallsAreRecorded(t *testing.T) {
	path := filepath.Join(t.TempDir(), "t.db")
	logs := []*journal.Log{open(t, path, 0), open(t, path, 0)} // two processes
	var wg sync.WaitGroup
	for i := range 400 {
		wg.Go(func() {
			l := logs[i%2]
			id, err := l.Begin(t.Context(), call(i))
			if err == nil {
				err = l.Done(t.Context(), id, journal.Answered)
			}
			if err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	entries, err := logs[0].List(t.Context(), 1000)
	seen := map[string]bool{}
	for _, e := range entries {
		if e.Outcome != journal.Answered {
			t.Errorf("%+v", e)
		}
		seen[e.Arguments] = true
	}
	if err != nil || len(seen) != 400 {
		t.Errorf("%d calls are there, %v", len(seen), err)
	}
}

func TestOldCallsAreDeleted(t *testing.T) {
	l := open(t, filepath.Join(t.TempDir(), "t.db"), 100)
	for i := range 350 {
		if _, err := l.Begin(t.Context(), call(i)); err != nil {
			t.Fatal(err)
		}
	}
	entries, err := l.List(t.Context(), 1000)
	if err != nil || len(entries) < 100 || len(entries) > 200 || entries[0].ID != 350 {
		t.Errorf("%d calls are kept, the latest is %+v, %v", len(entries), entries[0], err)
	}
}

func BenchmarkBeginAndDone(b *testing.B) {
	l := open(b, filepath.Join(b.TempDir(), "t.db"), 0)
	b.SetParallelism(16)
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			id, err := l.Begin(b.Context(), call(1))
			if err == nil {
				err = l.Done(b.Context(), id, journal.Answered)
			}
			if err != nil {
				b.Fatal(err)
			}
		}
	})
}
