package journal_test

import (
	"fmt"
	"path/filepath"
	"testing"
	"time"

	"github.com/sandpiper-mcp/sandpiper/internal/home/journal"
	"github.com/sandpiper-mcp/sandpiper/internal/store"
	"github.com/sandpiper-mcp/sandpiper/internal/store/tenant"
)

// openDue opens the journal in a directory, as a process of its own.
func openDue(t testing.TB, dir string, due func(time.Time) error) (*journal.Log, *journal.Process, *store.DB) {
	t.Helper()
	db, err := store.Open(t.Context(), filepath.Join(dir, "t.db"), []store.Migration{{Number: 1, Name: "journal", SQL: journal.Tables}})
	if err != nil {
		t.Fatal(err)
	}
	p := journal.NewProcess(filepath.Join(dir, "processes"), func() ([]byte, error) { return make([]byte, 32), nil })
	t.Cleanup(func() { p.Close(); db.Close() })
	return journal.New(journal.Config{DB: db, Tenant: tenant.Local, Process: p, Due: due}), p, db
}

// An execution that began to wait in the future may be claimed at once: the clock was put back since.
func TestExecutionThatWaitsFromTheFutureIsClaimed(t *testing.T) {
	t.Parallel()
	l, _, db := openDue(t, t.TempDir(), func(time.Time) error { return nil })
	b := l.Runs()
	for id, w := range map[string]journal.Wait{"exec_time": {Until: time.Now().Add(time.Hour)}, "exec_event": {Events: []string{"a"}}} {
		if err := b.Add(t.Context(), journal.Run{Execution: id, State: journal.Running, OnRestart: journal.ResumeOnRestart,
			Request: []byte("{}")}); err != nil {
			t.Fatal(err)
		}
		if err := l.End(t.Context(), id, journal.End{State: journal.Waiting, Wait: w}); err != nil {
			t.Fatal(err)
		}
	}
	if e, err := b.Claim(t.Context()); err != nil || e != nil {
		t.Fatalf("claimed before: %+v %v", e, err)
	}
	err := db.Update(t.Context(), func(tx *store.Tx) error {
		_, err := tx.ExecContext(t.Context(), "UPDATE runs SET due = due + 3600000, changed = changed + 3600000")
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	if e, err := b.Claim(t.Context()); err != nil || e == nil || e.Execution != "exec_time" {
		t.Errorf("%+v %v", e, err)
	}
	if e, err := b.Claim(t.Context()); err != nil || e != nil {
		t.Errorf("%+v %v", e, err)
	}
}

// The execution of a process that has ended is due at once, however often others change something.
func TestExecutionOfEndedProcessIsDueNow(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	var due time.Time
	start := func() (*journal.Runs, *journal.Process) {
		l, p, _ := openDue(t, dir, func(at time.Time) error { due = at; return nil })
		return l.Runs(), p
	}
	first, process := start()
	if err := first.Add(t.Context(), journal.Run{Execution: "exec_1", State: journal.Running, OnRestart: journal.ResumeOnRestart,
		Request: []byte("{}")}); err != nil {
		t.Fatal(err)
	}
	if !due.After(time.Now()) {
		t.Errorf("while its process lives, it is due at %s", due)
	}
	if err := process.Close(); err != nil { // as the kernel does after a kill
		t.Fatal(err)
	}
	second, _ := start()
	for range 3 {
		if err := second.Sweep(t.Context(), time.Now().Add(-time.Hour)); err != nil {
			t.Fatal(err)
		}
		if due.After(time.Now()) {
			t.Fatalf("it is due at %s", due)
		}
	}
	if e, err := second.Claim(t.Context()); err != nil || e == nil {
		t.Errorf("%+v %v", e, err)
	}
}

// BenchmarkWake claims and ends runs that are due, of a thousand.
func BenchmarkWake(b *testing.B) {
	l, _, _ := openDue(b, b.TempDir(), func(time.Time) error { return nil })
	runs, left := l.Runs(), 0
	for b.Loop() {
		if left == 0 {
			b.StopTimer()
			for left = range 1000 {
				if err := runs.Add(b.Context(), journal.Run{Execution: fmt.Sprintf("exec_%d_%d", b.N, left), State: journal.Queued,
					OnRestart: journal.ResumeOnRestart, Request: make([]byte, 2000)}); err != nil {
					b.Fatal(err)
				}
			}
			left++
			b.StartTimer()
		}
		left--
		r, err := runs.Claim(b.Context())
		if err != nil || r == nil {
			b.Fatal(r, err)
		}
		if err := l.End(b.Context(), r.Execution, journal.End{State: journal.Ended, Outcome: journal.Succeeded,
			Result: []byte("1")}); err != nil {
			b.Fatal(err)
		}
	}
}
