package journal_test

import (
	"encoding/json"
	"errors"
	"slices"
	"testing"

	"github.com/sandpiper-mcp/sandpiper/internal/fault"
	"github.com/sandpiper-mcp/sandpiper/internal/home/journal"
)

// addQuestion opens a question and returns its number.
func addQuestion(t *testing.T, r *journal.Record, name int) int {
	t.Helper()
	number, err := r.AddQuestion(t.Context(), name)
	if err != nil {
		t.Fatal(err)
	}
	return number
}

// takes checks the reply that a record has to a question.
func takes(t *testing.T, r *journal.Record, of, want string) (number int) {
	t.Helper()
	got, number, ok := journal.TakeReply(r, of)
	if ok != (want != "") || string(got) != want {
		t.Errorf("the reply to %q is %s %t, want %q", of, got, ok, want)
	}
	return number
}

// A reply is on disk when SetReply returns. It answers the question that it was given to, once, in the
// next run or a later one.
func TestReplySurvivesKill(t *testing.T) {
	dir := t.TempDir()
	d := start(t, dir)
	r := d.NewRecord("exec_1", nothing, false)
	r.SetAnswer(addQuestion(t, r, 1), journal.Answer{})
	number := addQuestion(t, r, 2)
	addQuestion(t, r, 3)
	if err := journal.SetReply(t.Context(), r, number, "colour", json.RawMessage(`"blue"`)); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		d.Process.Close()
		d = start(t, dir)
		r = resume(t, d, "exec_1")
		if last, open := r.Questions(); last != 3 || !slices.Equal(open, []int{3}) {
			t.Errorf("the last question is %d, those without an answer are %v", last, open)
		}
		takes(t, r, "size", "")
		number = takes(t, r, "colour", `"blue"`)
		takes(t, r, "colour", "")
	}
	r.SetAnswer(number, journal.Answer{})
	if err := r.Flush(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := journal.SetReply(t.Context(), r, number, "colour", json.RawMessage(`"red"`)); fault.KindOf(err) != fault.NotFound {
		t.Errorf("a second answer: %v", err)
	}
	d.Process.Close()
	takes(t, resume(t, start(t, dir), "exec_1"), "colour", "")
}

// A reply that cannot be written is not on record later either.
func TestReplyThatIsNotWritten(t *testing.T) {
	dir := t.TempDir()
	d := start(t, dir)
	r := d.NewRecord("exec_1", nothing, false)
	number := addQuestion(t, r, 1)
	whileUnwritable(t, d, func() {
		if err := journal.SetReply(t.Context(), r, number, "colour", json.RawMessage(`"blue"`)); err == nil {
			t.Fatal("it was written")
		}
	})
	if err := r.Flush(t.Context()); err != nil {
		t.Fatal(err)
	}
	d.Process.Close()
	r = resume(t, start(t, dir), "exec_1")
	takes(t, r, "colour", "")
	if _, open := r.Questions(); !slices.Equal(open, []int{1}) {
		t.Errorf("open are %v", open)
	}
}

// A signal that cannot be delivered stays on disk.
func TestSignalStaysUntilItIsDelivered(t *testing.T) {
	d := start(t, t.TempDir())
	if err := d.NewRecord("exec_1", nothing, false).Flush(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := d.Runs().Signal(t.Context(), "exec_1", "answer", json.RawMessage(`1`)); err != nil {
		t.Fatal(err)
	}
	full, times := errors.New("the disk is full"), 0
	for _, want := range []error{full, full, nil, nil} {
		err := journal.DeliverSignal(t.Context(), d.Runs(), "exec_1", "answer", func(value json.RawMessage) error {
			if times++; string(value) != "1" {
				t.Errorf("the value is %s", value)
			}
			return want
		})
		if !errors.Is(err, want) {
			t.Errorf("%v, want %v", err, want)
		}
	}
	if times != 3 {
		t.Errorf("it was delivered %d times", times)
	}
}
