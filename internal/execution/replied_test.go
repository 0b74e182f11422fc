package execution_test

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"testing"
	"time"

	"github.com/sandpiper-mcp/sandpiper/internal/execution"
	"github.com/sandpiper-mcp/sandpiper/internal/execution/background"
	"github.com/sandpiper-mcp/sandpiper/internal/execution/live"
	"github.com/sandpiper-mcp/sandpiper/internal/execution/question"
	"github.com/sandpiper-mcp/sandpiper/internal/home"
	"github.com/sandpiper-mcp/sandpiper/internal/home/approval"
	"github.com/sandpiper-mcp/sandpiper/internal/home/journal"
	"github.com/sandpiper-mcp/sandpiper/internal/sandbox/admit"
	"github.com/sandpiper-mcp/sandpiper/internal/tool"
)

// occupy starts an execution that takes the only slot of s and keeps it, so that the host cannot pass an
// answer on to the code of another.
func occupy(t *testing.T, s setup, h *home.Home) {
	t.Helper()
	s.start(t, t.Context(), h, execution.Request{Code: "sleep 1h"})
	for s.queue.Load().Running == 0 {
		time.Sleep(time.Millisecond)
	}
}

// questionsOf returns the texts of the questions that an execution asks until it ends, and its value.
// It declines them.
func questionsOf(t *testing.T, s setup, h *home.Home, x *execution.Execution) (asked []string, value string) {
	t.Helper()
	for {
		e, err := x.Next(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if e.Done != nil {
			return asked, string(e.Done.Value)
		}
		for _, q := range e.Questions {
			asked = append(asked, q.ID+" "+q.Text)
			if _, err := s.Attach(t.Context(), h, x.ID(), question.Answer{q.ID: {Action: "decline"}}); err != nil {
				t.Fatal(err)
			}
		}
	}
}

// An answer that was acknowledged is on record, also if the process is killed before the code gets it.
func TestAcknowledgedAnswerSurvivesKill(t *testing.T) {
	l := newRestarts(t)
	l.queue = admit.Config{Concurrent: 1}
	first, h := l.restart(t, nil)
	x := first.start(t, t.Context(), h, execution.Request{Code: callFind + "\n" + askColour})
	nextQuestions(t, x)
	occupy(t, first, h)
	if _, err := first.Attach(t.Context(), h, x.ID(), question.Answer{"q1": accept(`{"answer":"blue"}`)}); err != nil {
		t.Fatal(err)
	}
	l.kill(t)
	second, h := l.restart(t, nil)
	x, err := second.Resume(t.Context(), h, x.ID())
	if err != nil {
		t.Fatal(err)
	}
	if n := x.PendingQuestions(); n != 0 { // another answer would be used for another question
		t.Errorf("%d questions are open", n)
	}
	if asked, value := questionsOf(t, second, h, x); asked != nil || value != `{"action":"accept","value":"blue"}` {
		t.Errorf("asked %q, got %s", asked, value)
	}
}

// Threads ask in another order when they run again: each gets its own answer, and the open question
// keeps its name.
func TestAnswersOfThreadsSurviveKill(t *testing.T) {
	l := newRestarts(t)
	l.queue = admit.Config{Concurrent: 1}
	const head = "# ask spawn\n"
	first, h := l.restart(t, nil)
	code := head + `spawn ask {"question":"A"}` + "\n" + `spawn ask {"question":"B"}` + "\n" + `spawn ask {"question":"C"}`
	x := first.start(t, t.Context(), h, execution.Request{Code: code})
	names := map[string]string{}
	for len(names) < 3 {
		for _, q := range nextQuestions(t, x) {
			names[q.Text] = q.ID
		}
	}
	occupy(t, first, h)
	if _, err := first.Attach(t.Context(), h, x.ID(), question.Answer{names["A"]: accept(`{"answer":"a"}`),
		names["C"]: accept(`{"answer":"c"}`)}); err != nil {
		t.Fatal(err)
	}
	l.kill(t)
	second, h := l.restart(t, nil)
	x, err := second.Resume(t.Context(), h, x.ID())
	if err != nil {
		t.Fatal(err)
	}
	if asked, _ := questionsOf(t, second, h, x); len(asked) != 1 || asked[0] != names["B"]+" B" {
		t.Errorf("asked %q; the names were %v", asked, names)
	}
}

// Threads that ask in another order when they run again get the same names for what they ask: an answer to
// what a person was shown is for that question.
func TestQuestionsOfThreadsKeepTheirNames(t *testing.T) {
	l := newRestarts(t)
	first, h := l.restart(t, nil)
	code := "# ask spawn"
	for _, text := range "ABCDEFGHIJKL" {
		code += fmt.Sprintf("\nspawn ask {\"question\":\"%c\"}", text)
	}
	namesOf := func(x *execution.Execution) map[string]string {
		names := map[string]string{}
		for len(names) < 12 {
			for _, q := range nextQuestions(t, x) {
				names[q.Text] = q.ID
			}
		}
		return names
	}
	x := first.start(t, t.Context(), h, execution.Request{Code: code})
	names := namesOf(x)
	l.kill(t)
	second, h := l.restart(t, nil)
	x, err := second.Resume(t.Context(), h, x.ID())
	if err != nil {
		t.Fatal(err)
	}
	if again := namesOf(x); !maps.Equal(again, names) {
		t.Errorf("the names are %v, and were %v", again, names)
	}
}

// Answers given in another process stay on disk until they are on record.
func TestAnswerOfOtherProcessSurvivesKill(t *testing.T) {
	l := newRestarts(t)
	l.queue = admit.Config{Concurrent: 1}
	first, h := l.restart(t, nil)
	id := dispatch(t, first, h, askColour, journal.ResumeOnRestart)
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	claimed, err := h.Runs.Claim(ctx)
	if err != nil {
		t.Fatal(err)
	}
	go func() { _ = first.runClaimed(ctx, h, claimed, background.Writers{}) }()
	awaitOpen(t, first, h, id, 1)
	occupy(t, first, h)
	if err := live.Answer(t.Context(), h.Runs, id, question.Answer{"q1": accept(`{"answer":"blue"}`)}); err != nil {
		t.Fatal(err)
	}
	for open := 1; open > 0; time.Sleep(time.Millisecond) { // it is taken
		open = len(first.Find(h, id).Questions())
	}
	l.kill(t)
	second, h := l.restart(t, nil)
	claimed, err = h.Runs.Claim(t.Context())
	if err != nil || claimed == nil {
		t.Fatalf("%+v %v", claimed, err)
	}
	if e, err := h.Runs.Find(t.Context(), id); err != nil || e.Live != nil {
		t.Errorf("it shows the questions of the process that was killed: %s %v", e.Live, err)
	}
	if err := second.runClaimed(t.Context(), h, claimed, background.Writers{}); err != nil {
		t.Fatal(err)
	}
	if e, r := entry(t, h, id); e.Outcome != journal.Succeeded || string(r.Value) != `{"action":"accept","value":"blue"}` {
		t.Errorf("%+v %s", e, r.Value)
	}
}

// awaitOpen waits until other processes see open questions of an execution.
func awaitOpen(t *testing.T, s setup, h *home.Home, id string, n int) {
	t.Helper()
	for {
		if open, err := live.Questions(t.Context(), h.Runs, id); err == nil && len(open) == n {
			return
		}
		time.Sleep(5 * time.Millisecond)
	}
}

// The reply to a server's question does not answer the question whether its call took effect. If the call is made
// again, it does not ask again.
func TestReplyDoesNotAnswerAnotherQuestion(t *testing.T) {
	l := newRestarts(t)
	l.queue = admit.Config{Concurrent: 1}
	l.tools = tools(t, askingTool(`{"type":"object","properties":{"outcome":{"type":"string"}}}`))
	first, h := l.restart(t, nil)
	x := first.start(t, t.Context(), h, execution.Request{Code: callFind})
	nextQuestions(t, x)
	occupy(t, first, h)
	if _, err := first.Attach(t.Context(), h, x.ID(), question.Answer{"q1": accept(`{"outcome":"done"}`)}); err != nil {
		t.Fatal(err)
	}
	l.kill(t)
	second, h := l.restart(t, nil)
	x, err := second.Resume(t.Context(), h, x.ID())
	if err != nil {
		t.Fatal(err)
	}
	open := nextQuestions(t, x)
	if len(open) != 1 || open[0].Call == 0 {
		t.Fatalf("asked %+v", open)
	}
	if _, err := second.Attach(t.Context(), h, x.ID(), question.Answer{open[0].ID: accept(`{"outcome":"not-done"}`)}); err != nil {
		t.Fatal(err)
	}
	if asked, value := questionsOf(t, second, h, x); asked != nil || value != `{"value":{"action":"accept","content":{"outcome":"done"}}}` {
		t.Errorf("asked %q, got %s", asked, value)
	}
}

// askAboutCall interrupts a call, and returns its execution, which asks about it in a process that has ended.
func askAboutCall(t *testing.T, l *restarts) (id string, q question.Question, r approval.Request) {
	t.Helper()
	called, block := make(chan bool), make(chan bool)
	l.answer = func(n int64) (tool.Result, error) {
		called <- true
		<-block
		return tool.Result{}, nil
	}
	first, h := l.restart(t, nil)
	t.Cleanup(func() { close(block) })
	id = first.start(t, t.Context(), h, execution.Request{Code: callFind + "\n# servers"}).ID()
	<-called
	l.kill(t)
	second, h := l.restart(t, nil)
	x, err := second.Resume(t.Context(), h, id)
	if err != nil {
		t.Fatal(err)
	}
	q = nextQuestions(t, x)[0]
	all, err := h.Approvals.List(t.Context(), false)
	if err != nil || len(all) != 1 || q.Call != 1 {
		t.Fatalf("%+v %+v %v", q, all, err)
	}
	ended, end := context.WithCancel(t.Context())
	end()
	if err := second.Close(ended); err != nil {
		t.Fatal(err)
	}
	done(t, x) // what waits for an answer has ended, as it would in a process
	l.kill(t)
	return id, q, all[0]
}

// A process is killed that has used up the decision about a call, and not applied it. The person is not asked again, and
// the call is not made again.
func TestUsedDecisionSurvivesKill(t *testing.T) {
	t.Parallel()
	l := newRestarts(t)
	id, q, r := askAboutCall(t, l)
	_, h := l.restart(t, nil)
	decision := approval.DecisionNote(tool.Decision{Outcome: tool.TookEffect, Answer: json.RawMessage(`{"n":5}`)})
	if _, err := h.Approvals.Answer(t.Context(), r.ID, approval.Answer{Approve: true, By: approval.CommandLine, Note: decision,
		Asked: true}); err != nil {
		t.Fatal(err)
	}
	record, _, err := h.Journal.OpenRecord(t.Context(), id, func([]byte) bool { return false })
	if err == nil {
		err = journal.AddReply(t.Context(), record, execution.Asked(q),
			[]byte(`{"action":"accept","content":{"outcome":"done","answer":"{\"n\":5}"}}`))
	}
	if err == nil {
		err = h.Approvals.Use(t.Context(), r.ID, r.Binding)
	}
	if err != nil {
		t.Fatal(err)
	}
	l.kill(t)
	s, h := l.restart(t, nil)
	x, err := s.Resume(t.Context(), h, id)
	if err != nil {
		t.Fatal(err)
	}
	if asked, value := questionsOf(t, s, h, x); asked != nil || value != `{"value":{"n":5}}` || l.called.Load() != 1 {
		t.Errorf("asked %q, got %s after %d calls", asked, value, l.called.Load())
	}
	if open, err := h.Approvals.List(t.Context(), false); err != nil || len(open) != 0 {
		t.Errorf("open are %+v, %v", open, err)
	}
}
