package approval_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/sandpiper-mcp/sandpiper/internal/fault"
	"github.com/sandpiper-mcp/sandpiper/internal/home/approval"
	"github.com/sandpiper-mcp/sandpiper/internal/tool"
)

func TestDecisionAboutACall(t *testing.T) {
	s := open(t, file(t), approval.Config{})
	q := question(1)
	q.Kind, q.Occurrence = approval.Outcome, 6
	r, err := s.Create(t.Context(), q)
	if err != nil {
		t.Fatal(err)
	}
	for _, a := range []approval.Answer{
		{}, {Approve: true}, {Note: "done"}, {Approve: true, Note: "maybe"}, {Approve: true, Note: "done {"},
		{Approve: true, Note: `done "` + strings.Repeat("x", 1000) + `"`},
	} {
		a.By = approval.CommandLine
		if _, err := s.Answer(t.Context(), r.ID, a); fault.KindOf(err) != fault.Invalid && fault.KindOf(err) != fault.Exhausted {
			t.Errorf("%+v: %v", a, err)
		}
	}
	want := tool.Decision{Outcome: tool.TookEffect, Answer: []byte(`{"id": 5}`)}
	if _, err := s.Answer(t.Context(), r.ID, approval.Answer{Approve: true, By: approval.WebPage,
		Note: approval.DecisionNote(want)}); err != nil {
		t.Fatal(err)
	}
	same, err := s.Create(t.Context(), q) // as of a process that resumes the execution
	if d := cmp.Diff(want, same.Decision()); err != nil || same.ID != r.ID || d != "" {
		t.Errorf("%s %v %s", same.ID, err, d)
	}
	if err := s.Use(t.Context(), r.ID, q.Binding); err != nil {
		t.Fatal(err)
	}
	used, err := s.Find(t.Context(), r.ID) // the page still shows it
	if d := cmp.Diff(want, used.Decision()); err != nil || d != "" {
		t.Errorf("%v %s", err, d)
	}
	// the call was interrupted again
	if again, err := s.Create(t.Context(), q); err != nil || again.ID == r.ID || again.Decision().Outcome != "" {
		t.Errorf("%+v, %v", again, err)
	}
}
