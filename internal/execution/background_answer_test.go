package execution_test

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/sandpiper-mcp/sandpiper/internal/execution/live"
	"github.com/sandpiper-mcp/sandpiper/internal/execution/question"
	"github.com/sandpiper-mcp/sandpiper/internal/fault"
	"github.com/sandpiper-mcp/sandpiper/internal/home/journal"
	"github.com/sandpiper-mcp/sandpiper/internal/tool"
)

// Answers reach a question of a background execution by the database.
func TestBackgroundQuestionIsAnswered(t *testing.T) {
	l := newRestarts(t)
	s, h := l.restart(t, nil)
	id := dispatch(t, s, h, `call ask {"question":"Go on?","schema":{"type":"boolean"}}`, journal.ResumeOnRestart)
	if _, err := live.Questions(t.Context(), h.Runs, id); fault.KindOf(err) != fault.Invalid {
		t.Errorf("before it runs: %v", err)
	}
	ended := make(chan bool)
	go func() { ended <- runDue(t, s, h) }()
	for {
		if open, err := live.Questions(t.Context(), h.Runs, id); err == nil && len(open) == 1 && open[0].ID == "q1" {
			break
		}
		time.Sleep(5 * time.Millisecond)
	}
	answer := func(id, content string) error {
		return live.Answer(t.Context(), h.Runs, id, question.Answer{"q1": {Action: tool.Accept, Content: json.RawMessage(content)}})
	}
	if err := answer(id, `{"answer":"perhaps"}`); fault.KindOf(err) != fault.Invalid {
		t.Errorf("an answer of another type: %v", err)
	}
	if err := live.Answer(t.Context(), h.Runs, id, question.Answer{"q2": {Action: tool.Decline}}); fault.KindOf(err) != fault.NotFound {
		t.Errorf("another question: %v", err)
	}
	if err := answer("exec_none", `{"answer":true}`); fault.KindOf(err) != fault.NotFound {
		t.Errorf("another execution: %v", err)
	}
	if err := s.Signal(t.Context(), h, id, "\x00answer", json.RawMessage(`{"q1":{"action":"accept","content":{"answer":true}}}`)); fault.KindOf(err) != fault.Invalid {
		t.Errorf("an answer as a signal: %v", err)
	}
	if err := answer(id, `{"answer":true}`); err != nil {
		t.Fatal(err)
	}
	if err := answer(id, `{"answer":false}`); err != nil && fault.KindOf(err) != fault.Invalid { // it may have ended; the first one counts
		t.Errorf("a second answer: %v", err)
	}
	<-ended
	if e, r := entry(t, h, id); e.Outcome != journal.Succeeded || string(r.Value) != `{"action":"accept","value":true}` {
		t.Errorf("%+v %s", e, r.Value)
	}
}

// An execution that has ended and is resumed by hand waits again like any other.
func TestEndedExecutionWaitsAgain(t *testing.T) {
	l := newRestarts(t)
	_, h := l.restart(t, nil)
	add := func() {
		t.Helper()
		err := h.Runs.Add(t.Context(), journal.Run{Execution: "exec_1", State: journal.Running, OnRestart: journal.ReportOnRestart,
			Request: []byte("{}")})
		if err != nil {
			t.Fatal(err)
		}
	}
	record := h.Journal.NewRecord("exec_1", func() ([]byte, error) { return []byte("{}"), nil }, false)
	if err := record.Flush(t.Context()); err != nil {
		t.Fatal(err)
	}
	add()
	if err := record.End(t.Context(), journal.End{State: journal.Ended, Outcome: journal.Interrupted, Result: []byte(`{}`)}); err != nil {
		t.Fatal(err)
	}
	if _, _, err := h.Journal.OpenRecord(t.Context(), "exec_1", func([]byte) bool { return false }); err != nil {
		t.Fatal(err)
	}
	add()
	if err := h.Journal.End(t.Context(), "exec_1", journal.End{State: journal.Waiting,
		Wait: journal.Wait{Events: []string{"go"}}}); err != nil {
		t.Fatal(err)
	}
	if e, err := h.Runs.Find(t.Context(), "exec_1"); err != nil || e.State != journal.Waiting || e.Outcome != "" || e.Result != nil {
		t.Errorf("%+v %v", e, err)
	}
}
