package journal_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/sandpiper-mcp/sandpiper/internal/fault"
	"github.com/sandpiper-mcp/sandpiper/internal/home/journal"
	"github.com/sandpiper-mcp/sandpiper/internal/store"
)

func beginStep(t testing.TB, r *journal.Record, parent int, name string, n int) journal.RecordedStep {
	t.Helper()
	s, err := journal.BeginStep(t.Context(), r, journal.StepKey{Parent: parent, Name: name, N: n})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// runStep runs a step that is not on record.
func runStep(t testing.TB, r *journal.Record, parent int, name string, n int, value string, inside func(number int)) {
	t.Helper()
	s := beginStep(t, r, parent, name, n)
	if s.Value != nil {
		t.Fatalf("step %s %d is on record: %s", name, n, s.Value.JSON)
	}
	if inside != nil {
		inside(s.Number)
	}
	if err := journal.EndStep(t.Context(), r, s.Number, journal.StepValue{JSON: json.RawMessage(value)}); err != nil {
		t.Fatal(err)
	}
}

// skips expects that a step is on record.
func skips(t testing.TB, r *journal.Record, parent int, name string, n int, value string) {
	t.Helper()
	if s := beginStep(t, r, parent, name, n); s.Value == nil || string(s.Value.JSON) != value {
		t.Errorf("step %s %d gave %+v, want %s", name, n, s.Value, value)
	}
}

func in(step int, a journal.HostCall) journal.HostCall {
	a.Step = step
	return a
}

func stop(t testing.TB, r *journal.Record, d daemon) {
	t.Helper()
	if err := r.End(t.Context(), journal.End{State: journal.Ended, Outcome: journal.Unsuccessful, Reason: "crashed"}); err != nil {
		t.Fatal(err)
	}
	d.Process.Close()
}

func rows(t testing.TB, path string) (n, size int) {
	t.Helper()
	db, err := store.Open(t.Context(), path, []store.Migration{{Number: 1, Name: "journal", SQL: journal.Tables}})
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	err = db.View(t.Context(), func(tx *store.Tx) error {
		return tx.QueryRowContext(t.Context(), "SELECT (SELECT count(*) FROM run_events), (SELECT bytes FROM runs)").Scan(&n, &size)
	})
	if err != nil {
		t.Fatal(err)
	}
	return n, size
}

func TestReplaySkipsEndedSteps(t *testing.T) {
	dir := t.TempDir()
	first := start(t, dir)
	r := first.NewRecord("exec_1", nothing, false)
	runStep(t, r, 0, "fetch", 1, `[1]`, func(n int) {
		r.AddClockReadings(n, []int64{100})
		write(t, r, in(n, ask("send", `{"to":"a"}`)), "1")
		runStep(t, r, n, "part", 1, `"inner"`, func(m int) { write(t, r, in(m, ask("send", `{"to":"b"}`)), "2") })
	})
	r.AddClockReadings(0, []int64{200})
	write(t, r, ask("send", `{"to":"a"}`), "3")
	for i := range 1000 {
		runStep(t, r, 0, "row", i+1, fmt.Sprint(i), nil)
	}
	s := beginStep(t, r, 0, "open", 1)
	write(t, r, in(s.Number, ask("send", `{"to":"c"}`)), "4")
	runStep(t, r, s.Number, "row", 1, `"of open"`, nil)
	stop(t, r, first)

	second := start(t, dir)
	r = resume(t, second, "exec_1")
	if c := r.ClockReadings(); fmt.Sprint(c) != "[200]" {
		t.Errorf("clock readings are %v", c)
	}
	skips(t, r, 0, "fetch", 1, `[1]`)
	gives(t, r, ask("send", `{"to":"a"}`), "3")
	for i := range 1000 {
		skips(t, r, 0, "row", i+1, fmt.Sprint(i))
	}
	again := beginStep(t, r, 0, "open", 1)
	if again.Value != nil || again.Number != s.Number {
		t.Fatalf("an open step is %+v", again)
	}
	gives(t, r, in(again.Number, ask("send", `{"to":"c"}`)), "4")
	skips(t, r, again.Number, "row", 1, `"of open"`)
	if r.Replays() {
		t.Error("calls are left")
	}
	if err := journal.EndStep(t.Context(), r, again.Number, journal.StepValue{JSON: []byte("true"), Drew: 1}); err != nil {
		t.Fatal(err)
	}
	runStep(t, r, 0, "row", 1001, "1000", nil)
	stop(t, r, second)
	if n, size := rows(t, second.path); n > 100 || size > 40_000 { // a commit every 20 ms makes a row
		t.Errorf("%d rows and %d bytes are left", n, size)
	}

	r = resume(t, start(t, dir), "exec_1")
	skips(t, r, 0, "fetch", 1, `[1]`)
	gives(t, r, ask("send", `{"to":"a"}`), "3")
	for i := range 1000 {
		skips(t, r, 0, "row", i+1, fmt.Sprint(i))
	}
	if s := beginStep(t, r, 0, "open", 1); s.Value == nil || string(s.Value.JSON) != "true" || s.Value.Drew != 1 {
		t.Errorf("%+v", s)
	}
	skips(t, r, 0, "row", 1001, "1000")
}

func TestStepsDiverge(t *testing.T) {
	dir := t.TempDir()
	first := start(t, dir)
	r := first.NewRecord("exec_1", nothing, false)
	runStep(t, r, 0, "pay", 1, "1", func(n int) { write(t, r, in(n, ask("send", `{}`)), "1") })
	runStep(t, r, 0, "mail", 1, "2", nil)
	stop(t, r, first)
	for what, do := range map[string]func(*journal.Record) error{
		`asks for crm.send, and the first run asked for step "pay"`: func(r *journal.Record) error {
			_, err := r.Next(t.Context(), ask("send", `{}`))
			return err
		},
		`asks for step "other", and the first run asked for step "pay"`: func(r *journal.Record) error {
			_, err := journal.BeginStep(t.Context(), r, journal.StepKey{Name: "other", N: 1})
			return err
		},
	} {
		d := start(t, dir)
		r := resume(t, d, "exec_1")
		err := do(r)
		if _, ok := errors.AsType[*journal.Divergence](err); !ok || !strings.Contains(err.Error(), what) {
			t.Errorf("got %v, want %s", err, what)
		}
		stop(t, r, d)
	}
}

func TestStepsBeyondLimitsAreRefusedBeforeTheyRun(t *testing.T) {
	dir := t.TempDir()
	first := start(t, dir)
	r := first.NewRecord("exec_1", nothing, false)
	large := `"` + strings.Repeat("x", journal.MaxStepValue-2) + `"`
	s := beginStep(t, r, 0, "huge", 1)
	if err := journal.EndStep(t.Context(), r, s.Number, journal.StepValue{JSON: json.RawMessage(large +
		" ")}); fault.KindOf(err) != fault.Exhausted {
		t.Errorf("a value over the limit: %v", err)
	}
	n := 0
	for ; n < 100; n++ {
		s, err := journal.BeginStep(t.Context(), r, journal.StepKey{Name: "large", N: n + 1})
		if fault.KindOf(err) == fault.Exhausted && strings.Contains(err.Error(),
			`step "large" was not run: the record of this execution has reached 62 of at most 64 MiB`) {
			break
		}
		if err == nil {
			err = journal.EndStep(t.Context(), r, s.Number, journal.StepValue{JSON: json.RawMessage(large)})
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	if n < 60 || n > 63 {
		t.Errorf("%d steps were run", n)
	}
	stop(t, r, first)
	r = resume(t, start(t, dir), "exec_1") // what is on record can be resumed
	for i := range n {
		skips(t, r, 0, "large", i+1, large)
	}
}

func TestEndStepRejectsUnknownNumbers(t *testing.T) {
	r := start(t, t.TempDir()).NewRecord("exec_1", nothing, false)
	read(t, r, ask("look", `{}`), "1")
	begin(t, r, ask("send", `{}`))
	for _, n := range []int{-1, 0, 1, 2, 99} {
		if err := journal.EndStep(t.Context(), r, n, journal.StepValue{JSON: []byte("1")}); fault.KindOf(err) != fault.Invalid {
			t.Errorf("step %d: %v", n, err)
		}
	}
}

// BenchmarkStep measures a step whose commits are batched, and one that is committed alone.
func BenchmarkStep(b *testing.B) {
	r := start(b, b.TempDir()).NewRecord("exec_1", nothing, false)
	n := 0
	for b.Loop() {
		n++
		s := beginStep(b, r, 0, "row", n)
		if err := journal.EndStep(b.Context(), r, s.Number, journal.StepValue{JSON: []byte("1")}); err != nil {
			b.Fatal(err)
		}
	}
}

// A step that raised an error has not ended. What is on record of it is deleted with the step around it.
func TestReplaySkipsStepsThatRaised(t *testing.T) {
	for _, flush := range []bool{false, true} {
		dir := t.TempDir()
		first := start(t, dir)
		r := first.NewRecord("exec_1", nothing, false)
		runStep(t, r, 0, "outer", 1, `1`, func(outer int) {
			inner := beginStep(t, r, outer, "inner", 1).Number
			deepest := beginStep(t, r, inner, "deepest", 1).Number
			read(t, r, in(inner, ask("look", `{"at":"a"}`)), "1")
			read(t, r, in(deepest, ask("look", `{"at":"b"}`)), "2")
			if !flush {
				return
			}
			if err := r.Flush(t.Context()); err != nil {
				t.Fatal(err)
			}
		})
		write(t, r, ask("send", `{"to":"c"}`), "3")
		stop(t, r, first)
		r = resume(t, start(t, dir), "exec_1")
		skips(t, r, 0, "outer", 1, `1`)
		gives(t, r, ask("send", `{"to":"c"}`), "3")
		if r.Replays() {
			t.Errorf("flushed %t: calls of ended steps are left", flush)
		}
	}
}
