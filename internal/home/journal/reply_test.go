package journal_test

import (
	"context"
	"encoding/json"
	"errors"
	"maps"
	"strconv"
	"testing"
	"time"

	"github.com/sandpiper-mcp/sandpiper/internal/fault"
	"github.com/sandpiper-mcp/sandpiper/internal/home/journal"
)

// addQuestion opens a question and returns its number.
func addQuestion(ctx context.Context, t *testing.T, r *journal.Record, name int) int {
	t.Helper()
	number, err := r.AddQuestion(ctx, name, "question_"+strconv.Itoa(name), time.Now().Add(time.Hour))
	if err != nil {
		t.Fatal(err)
	}
	return number
}

// takes checks the reply that a record has to a question.
func takes(ctx context.Context, t *testing.T, r *journal.Record, of, want string) {
	t.Helper()
	got, ok := journal.TakeReply(ctx, r, of)
	if ok != (want != "") || string(got) != want {
		t.Errorf("the reply to %q is %s %t, want %q", of, got, ok, want)
	}
}

// A reply is on disk when SetReply returns. It answers the question that it was given to, once in each run
// until the call that asks is answered, whatever another thread writes meanwhile.
func TestReplySurvivesKill(t *testing.T) {
	dir := t.TempDir()
	d := start(t, dir)
	r := d.NewRecord("exec_1", nothing, false)
	ask := journal.HostCall{Method: "ask", Args: json.RawMessage(`{}`)}
	begin := func() (call int, in context.Context) {
		t.Helper()
		c := next(t, r, ask)
		if c.Answer != nil {
			t.Fatalf("the call has the answer %+v", c.Answer)
		}
		return c.Number, journal.WithCall(t.Context(), c.Number)
	}
	flush := func() {
		t.Helper()
		if err := r.Flush(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	journal.EndQuestion(r, addQuestion(t.Context(), t, r, 1))
	call, in := begin()
	number := addQuestion(in, t, r, 2)
	addQuestion(t.Context(), t, r, 3)
	if err := journal.SetReply(t.Context(), r, number, "colour", json.RawMessage(`"blue"`)); err != nil {
		t.Fatal(err)
	}
	for _, want := range []map[int]string{{3: "question_3"}, nil} { // the first run that is resumed ends the question without a reply
		journal.EndQuestion(r, number)
		flush()
		d.Process.Close()
		d = start(t, dir)
		r = resume(t, d, "exec_1")
		if last, open := r.Questions(); last != 3 || !maps.Equal(open, want) {
			t.Errorf("the last question is %d, those without an answer are %v, want %v", last, open, want)
		}
		call, in = begin()
		takes(in, t, r, "size", "")
		takes(in, t, r, "colour", `"blue"`)
		takes(in, t, r, "colour", "")
	}
	if err := r.SetAnswerNow(t.Context(), call, value(`"blue"`)); err != nil {
		t.Fatal(err)
	}
	if err := journal.SetReply(t.Context(), r, number, "colour", json.RawMessage(`"red"`)); fault.KindOf(err) != fault.NotFound {
		t.Errorf("a second answer: %v", err)
	}
	d.Process.Close()
	r = resume(t, start(t, dir), "exec_1")
	takes(t.Context(), t, r, "colour", "")
	if c := next(t, r, ask); c.Answer == nil || string(c.Answer.Value) != `"blue"` {
		t.Errorf("the call is %+v", c)
	}
}

// A reply to a question that no call asks is used up when it is taken.
func TestReplyWithoutCallIsUsedUp(t *testing.T) {
	dir := t.TempDir()
	d := start(t, dir)
	r := d.NewRecord("exec_1", nothing, false)
	number := addQuestion(t.Context(), t, r, 1)
	if err := journal.SetReply(t.Context(), r, number, "colour", json.RawMessage(`"blue"`)); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{`"blue"`, ""} {
		d.Process.Close()
		d = start(t, dir)
		r = resume(t, d, "exec_1")
		takes(t.Context(), t, r, "colour", want)
		if err := r.Flush(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
}

// A reply that cannot be written is not on record later either.
func TestReplyThatIsNotWritten(t *testing.T) {
	dir := t.TempDir()
	d := start(t, dir)
	r := d.NewRecord("exec_1", nothing, false)
	number := addQuestion(t.Context(), t, r, 1)
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
	takes(t.Context(), t, r, "colour", "")
	if _, open := r.Questions(); !maps.Equal(open, map[int]string{1: "question_1"}) {
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
		err := journal.DeliverSignals(t.Context(), d.Runs(), "exec_1", "answer", func(value json.RawMessage) error {
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

// A reply that was given in another way is on disk when AddReply returns, until the commit after it is taken.
func TestAddedReplySurvivesKill(t *testing.T) {
	dir := t.TempDir()
	d := start(t, dir)
	r := d.NewRecord("exec_1", nothing, false)
	if err := journal.AddReply(t.Context(), r, "colour", json.RawMessage(`"blue"`)); err != nil {
		t.Fatal(err)
	}
	for n, want := range []string{`"blue"`, `"blue"`, ""} {
		d.Process.Close()
		d = start(t, dir)
		r = resume(t, d, "exec_1")
		if last, open := r.Questions(); last != 0 || len(open) != 0 {
			t.Errorf("the last question is %d, those without an answer are %v", last, open)
		}
		takes(t.Context(), t, r, "colour", want)
		if n == 0 { // it is killed before the next commit
			continue
		}
		if err := r.Flush(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
}
