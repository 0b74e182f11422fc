package question_test

import (
	"context"
	"encoding/json"
	"testing"
	"time"

	"github.com/sandpiper-mcp/sandpiper/internal/execution/question"
	"github.com/sandpiper-mcp/sandpiper/internal/fault"
	"github.com/sandpiper-mcp/sandpiper/internal/tool"
)

func add(t *testing.T, s *question.Set, id string, until time.Time) *question.Open {
	t.Helper()
	form, err := question.ParseForm(nil)
	if err != nil {
		t.Fatal(err)
	}
	same := func(_ context.Context, content json.RawMessage) (json.RawMessage, error) { return content, nil }
	o, err := s.Add(question.Question{ID: id, Schema: form.Schema, Expires: until}, form, same, nil)
	if err != nil {
		t.Fatal(err)
	}
	return o
}

var declined = tool.Reply{Action: tool.Decline}

// Closed questions accept no answer, and are expected again; one that was answered prevents that they are closed.
func TestCloseAll(t *testing.T) {
	var s question.Set
	a, _ := add(t, &s, "q1", time.Time{}), add(t, &s, "q2", time.Time{})
	if err := s.Answer(t.Context(), question.Answer{"q1": declined}); err != nil {
		t.Fatal(err)
	}
	if _, ok := s.CloseAll(); ok || s.Expects("q2") {
		t.Error("a question was closed that has an answer")
	}
	s.Remove(a)
	if open, ok := s.CloseAll(); !ok || len(open) != 1 || open[0].ID != "q2" || !s.Expects("q2") {
		t.Errorf("%+v %t", open, ok)
	}
	if err := s.Answer(t.Context(), question.Answer{"q2": declined}); fault.KindOf(err) != fault.NotFound {
		t.Errorf("an answer to a closed question: %v", err)
	}
	if open, _ := s.List(); len(open) != 0 {
		t.Errorf("%+v", open)
	}
}

// A question whose time is over in an earlier run has the reply that was given to it, or none.
func TestQuestionAfterItsTime(t *testing.T) {
	var s question.Set
	past := time.Now().Add(-time.Second)
	if r, err := add(t, &s, "q1", past).Wait(t.Context()); err != nil || r.Action != tool.Cancel {
		t.Errorf("%+v %v", r, err)
	}
	for range 20 { // the timer has fired too
		var s question.Set
		o := add(t, &s, "q2", past)
		if err := s.Answer(t.Context(), question.Answer{"q2": declined}); err != nil {
			t.Fatal(err)
		}
		if r, err := o.Wait(t.Context()); err != nil || r.Action != tool.Decline {
			t.Errorf("%+v %v", r, err)
		}
	}
}

// No answer is accepted that the code does not get: one that comes when the time of its question ends is either refused or
// returned.
func TestAnswerWhenTimeEnds(t *testing.T) {
	var s question.Set
	o := add(t, &s, "q1", time.Now().Add(-time.Second))
	if r, err := o.Wait(t.Context()); err != nil || r.Action != tool.Cancel {
		t.Errorf("%+v %v", r, err)
	}
	if err := s.Answer(t.Context(), question.Answer{"q1": declined}); fault.KindOf(err) != fault.NotFound {
		t.Errorf("an answer before the question is removed: %v", err)
	}
	if open, _ := s.List(); len(open) != 0 {
		t.Errorf("open are %+v", open)
	}
}
