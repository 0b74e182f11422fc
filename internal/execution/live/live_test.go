package live

import (
	"context"
	"encoding/json"
	"log/slog"
	"path/filepath"
	"testing"
	"time"

	"github.com/sandpiper-mcp/sandpiper/internal/execution/question"
	"github.com/sandpiper-mcp/sandpiper/internal/home/journal"
	"github.com/sandpiper-mcp/sandpiper/internal/store"
	"github.com/sandpiper-mcp/sandpiper/internal/store/tenant"
	"github.com/sandpiper-mcp/sandpiper/internal/tool"
)

// An answer to questions of a run that was killed waits until the resumed code has asked all of them again.
func TestAnswerWaitsForQuestion(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	db, err := store.Open(t.Context(), filepath.Join(dir, "t.db"), []store.Migration{{Number: 1, Name: "journal", SQL: journal.Tables}})
	if err != nil {
		t.Fatal(err)
	}
	process := journal.NewProcess(filepath.Join(dir, "processes"), func() ([]byte, error) { return make([]byte, 32), nil })
	t.Cleanup(func() { process.Close(); db.Close() })
	runs := journal.New(journal.Config{DB: db, Tenant: tenant.Local, Process: process}).Runs()
	if err := runs.Add(t.Context(), journal.Run{Execution: "exec_1", State: journal.Running, OnRestart: journal.ResumeOnRestart, Request: []byte("{}")}); err != nil {
		t.Fatal(err)
	}
	form, err := question.ParseForm(nil)
	if err != nil {
		t.Fatal(err)
	}
	ask := func(set *question.Set, text string) *question.Open {
		t.Helper()
		same := func(_ context.Context, content json.RawMessage) (json.RawMessage, error) { return content, nil }
		q, err := set.Add(question.Question{ID: question.ID(set.NextName(text)), Text: text, Schema: form.Schema}, form, same, nil)
		if err != nil {
			t.Fatal(err)
		}
		return q
	}
	var before, after question.Set
	ask(&before, "A")
	ask(&before, "B")
	open, _ := before.List()
	shown, _ := json.Marshal(State{Questions: open})
	published := make(chan error)
	time.AfterFunc(2*interval, func() { // the process has just begun to continue the run
		_, err := runs.SetLive(context.Background(), "exec_1", shown)
		published <- err
	})
	if open, err := Questions(t.Context(), runs, "exec_1"); err != nil || len(open) != 2 {
		t.Errorf("%d questions, %v", len(open), err)
	}
	if err := <-published; err != nil {
		t.Fatal(err)
	}
	reply := func(text string) tool.Reply {
		return tool.Reply{Action: tool.Accept, Content: json.RawMessage(`{"answer":"` + text + `"}`)}
	}
	if err := Answer(t.Context(), runs, "exec_1", question.Answer{"q1": reply("to A"), "q2": reply("to B")}); err != nil {
		t.Fatal(err)
	}
	after.StartNames(2, map[int]string{1: "A", 2: "B"})
	p := Publisher{Runs: runs, Execution: "exec_1", Questions: &after, Log: slog.New(slog.DiscardHandler)}
	for _, text := range []string{"B", "A"} { // in another order
		q := ask(&after, text)
		TakeAnswers(t.Context(), p)
		TakeAnswers(t.Context(), p)
		ctx, stop := context.WithTimeout(t.Context(), 10*time.Second)
		defer stop()
		if got, err := q.Wait(ctx); err != nil || string(got.Content) != `{"answer":"to `+text+`"}` {
			t.Errorf("the answer to %s is %s, %v", text, got.Content, err)
		}
		after.Remove(q)
	}
	if after.Expects("q1") || after.Expects("q2") {
		t.Error("a question is expected again")
	}
}
