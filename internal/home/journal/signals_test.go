package journal_test

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/sandpiper-mcp/sandpiper/internal/fault"
	"github.com/sandpiper-mcp/sandpiper/internal/home/journal"
	"github.com/sandpiper-mcp/sandpiper/internal/store"
)

func signalValue(v json.RawMessage) journal.Answer { return journal.Answer{Value: v} }

// Threads that wait for one event take its signals at the same time, while other threads write to the
// record. Each signal goes to one thread, and is on disk with the answer of that thread.
func TestThreadsTakeEachSignalOnce(t *testing.T) {
	const threads, signals = 8, 5
	dir := t.TempDir()
	first := start(t, dir)
	r := first.NewRecord("exec_1", nothing, true)
	numbers := make([]int, threads)
	for i := range numbers {
		numbers[i] = next(t, r, ask("wait", fmt.Sprint(i))).Number
	}
	if err := r.Flush(t.Context()); err != nil {
		t.Fatal(err)
	}
	for v := range signals {
		if err := first.Runs().Signal(t.Context(), "exec_1", "go", json.RawMessage(fmt.Sprint(v))); err != nil {
			t.Fatal(err)
		}
	}
	var mu sync.Mutex
	got := map[int]string{} // by number of the wait
	var all sync.WaitGroup
	for _, number := range numbers {
		all.Go(func() {
			for range signals { // another thread may be faster each time
				taken, err := journal.TakeSignal(t.Context(), r, number, "go", signalValue)
				if err != nil {
					t.Errorf("wait %d: %v", number, err)
					return
				}
				if taken != nil {
					mu.Lock()
					got[number] = string(taken.Value)
					mu.Unlock()
					return
				}
			}
		})
		all.Go(func() {
			if err := r.Flush(t.Context()); err != nil {
				t.Errorf("another thread: %v", err)
			}
		})
	}
	all.Wait()
	var values []string
	for _, v := range got {
		values = append(values, v)
	}
	slices.Sort(values)
	if fmt.Sprint(values) != "[0 1 2 3 4]" {
		t.Errorf("the threads got %v", values)
	}
	first.Process.Close()
	again := resume(t, start(t, dir), "exec_1")
	for i, number := range numbers {
		c := next(t, again, ask("wait", fmt.Sprint(i)))
		if want, ok := got[number]; ok != (c.Answer != nil) || ok && string(c.Answer.Value) != want {
			t.Errorf("wait %d got %q, and its record is %+v", number, want, c)
		}
	}
}

// A signal that cannot be taken stays for the next attempt.
func TestSignalIsNotAnsweredBeforeTheCommit(t *testing.T) {
	d := start(t, t.TempDir())
	r := d.NewRecord("exec_1", nothing, false)
	number := next(t, r, ask("wait", `{}`)).Number
	if err := r.Flush(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := d.Runs().Signal(t.Context(), "exec_1", "go", json.RawMessage(`1`)); err != nil {
		t.Fatal(err)
	}
	runSQL(t, d, "CREATE TRIGGER full BEFORE DELETE ON run_events BEGIN SELECT RAISE(ABORT, 'the disk is full'); END")
	if taken, err := journal.TakeSignal(t.Context(), r, number, "go", signalValue); err == nil {
		t.Fatalf("it was taken: %+v", taken)
	}
	if err := r.Flush(t.Context()); err != nil { // as with the next call
		t.Fatal(err)
	}
	runSQL(t, d, "DROP TRIGGER full")
	taken, err := journal.TakeSignal(t.Context(), r, number, "go", signalValue)
	if err != nil || taken == nil || string(taken.Value) != "1" {
		t.Errorf("the second attempt gave %+v, %v", taken, err)
	}
}

// A signal that is taken while it is delivered in another way leaves those that were sent since, also one that
// has got its number.
func TestDeliveredSignalIsDeletedItself(t *testing.T) {
	d := start(t, t.TempDir())
	r := d.NewRecord("exec_1", nothing, false)
	number := next(t, r, ask("wait", `{}`)).Number
	if err := r.Flush(t.Context()); err != nil {
		t.Fatal(err)
	}
	send := func(value string) {
		t.Helper()
		if err := d.Runs().Signal(t.Context(), "exec_1", "go", json.RawMessage(value)); err != nil {
			t.Fatal(err)
		}
	}
	send(`1`)
	err := journal.DeliverSignals(t.Context(), d.Runs(), "exec_1", "go", func(value json.RawMessage) error {
		taken, err := journal.TakeSignal(t.Context(), r, number, "go", signalValue)
		if err != nil || taken == nil || string(value) != "1" {
			t.Errorf("%s was delivered, and %+v, %v taken", value, taken, err)
		}
		send(`2`)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	taken, err := journal.TakeSignal(t.Context(), r, next(t, r, ask("wait", `{}`)).Number, "go", signalValue)
	if err != nil || taken == nil || string(taken.Value) != "2" {
		t.Errorf("the second signal gave %+v, %v", taken, err)
	}
}

// runSQL changes the database of d from outside.
func runSQL(t *testing.T, d daemon, sql string) {
	t.Helper()
	db, err := store.Open(t.Context(), d.path, []store.Migration{{Number: 1, Name: "journal", SQL: journal.Tables}})
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	err = db.Update(t.Context(), func(tx *store.Tx) error {
		_, err := tx.ExecContext(t.Context(), sql)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}

// An answer that cannot be committed is not recorded with the next commit either: the code has not seen it.
func TestAnswerIsNotSetBeforeTheCommit(t *testing.T) {
	dir := t.TempDir()
	d := start(t, dir)
	r := d.NewRecord("exec_1", nothing, false)
	number := next(t, r, ask("ask", `{}`)).Number
	if err := r.Flush(t.Context()); err != nil {
		t.Fatal(err)
	}
	whileUnwritable(t, d, func() {
		if err := r.SetAnswerNow(t.Context(), number, value(`1`)); err == nil {
			t.Fatal("it was committed")
		}
	})
	next(t, r, ask("later", `{}`))
	if err := r.Flush(t.Context()); err != nil {
		t.Fatal(err)
	}
	d.Process.Close()
	again := resume(t, start(t, dir), "exec_1")
	if c := next(t, again, ask("ask", `{}`)); c.Answer != nil {
		t.Fatalf("the answer is on record: %s", c.Answer.Value)
	}
	if err := again.SetAnswerNow(t.Context(), number, value(`2`)); err != nil {
		t.Fatal(err)
	}
	if err := again.SetAnswerNow(t.Context(), number, value(`3`)); err == nil {
		t.Error("a call was answered twice")
	}
}

// Answers that are committed at once count as the others do.
func TestAnswersOfSignalsCount(t *testing.T) {
	dir := t.TempDir()
	d := start(t, dir)
	r := d.NewRecord("exec_1", nothing, false)
	if err := r.Flush(t.Context()); err != nil {
		t.Fatal(err)
	}
	big := json.RawMessage(`"` + strings.Repeat("x", 15<<20) + `"`)
	for n := range 5 {
		number := next(t, r, ask("wait", fmt.Sprint(n))).Number
		if err := d.Runs().Signal(t.Context(), "exec_1", "go", big); err != nil {
			t.Fatal(err)
		}
		taken, err := journal.TakeSignal(t.Context(), r, number, "go", signalValue)
		if err != nil || taken == nil || len(taken.Value) != len(big) {
			t.Fatalf("wait %d: %v", n, err)
		}
		if r.TooLarge() != (n == 4) {
			t.Errorf("after %d answers of 15 MiB, too large: %t", n+1, r.TooLarge())
		}
	}
	if err := r.End(t.Context(), journal.End{State: journal.Ended, Outcome: journal.Unsuccessful, Reason: "failed"}); err != nil {
		t.Fatal(err)
	}
	if _, _, err := d.OpenRecord(t.Context(), "exec_1", func([]byte) bool { return false }); fault.KindOf(err) != fault.Exhausted {
		t.Errorf("opened again: %v", err)
	}
}

// An event that is no signal wakes a run that waits for it, also if it happens while the run gives up its process.
func TestEventWithoutSignalWakes(t *testing.T) {
	l := start(t, t.TempDir())
	runs := l.Runs()
	db, err := store.Open(t.Context(), l.path, []store.Migration{{Number: 1, Name: "journal", SQL: journal.Tables}})
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	for _, tc := range []struct {
		id, event string
		arrived   bool
		want      bool
	}{
		{"exec_1", journal.ApprovalEvent("a"), false, true}, {"exec_2", journal.ApprovalEvent("b"), false, false}, {"exec_3", "", true,
			true},
	} {
		err := runs.Add(t.Context(), journal.Run{Execution: tc.id, State: journal.Running, OnRestart: journal.ResumeOnRestart,
			Request: []byte("{}")})
		if err == nil {
			err = l.End(t.Context(), tc.id, journal.End{State: journal.Waiting, Live: []byte(`{"a":1}`),
				Wait: journal.Wait{Until: time.Now().Add(time.Hour), Events: []string{journal.ApprovalEvent("a")},
					Arrived: func(context.Context, *store.Tx) (bool, error) { return tc.arrived, nil }}})
		}
		if err == nil && tc.event != "" {
			err = db.Update(t.Context(), func(tx *store.Tx) error { return runs.WakeIn(t.Context(), tx, tc.id, tc.event) })
		}
		if err != nil {
			t.Fatal(err)
		}
		if _, err := runs.SetLive(t.Context(), tc.id, []byte(`{"a":2}`)); err != nil { // by the process that has given it up
			t.Fatal(err)
		}
		e, err := runs.Find(t.Context(), tc.id)
		if err != nil || string(e.Live) != `{"a":1}` || e.Due.After(time.Now()) == tc.want {
			t.Errorf("%s: %+v %s %v", tc.id, e, e.Live, err)
		}
	}
}
