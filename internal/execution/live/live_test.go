package live

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"path/filepath"
	"testing"
	"time"

	"github.com/sandpiper-mcp/sandpiper/internal/execution/question"
	"github.com/sandpiper-mcp/sandpiper/internal/fault"
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
	if err := runs.Add(t.Context(), journal.Run{Execution: "exec_1", State: journal.Running, OnRestart: journal.ResumeOnRestart,
		Request: []byte("{}")}); err != nil {
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
	for _, name := range []string{"q1", "q2"} {
		if err := Answer(t.Context(), runs, "exec_1", question.Answer{name: reply(map[string]string{"q1": "to A",
			"q2": "to B"}[name])}); err != nil {
			t.Fatal(err)
		}
	}
	after.StartNames(2, map[int]string{1: "A", 2: "B"})
	p := Publisher{Runs: runs, Execution: "exec_1", Questions: &after, Log: slog.New(slog.DiscardHandler)}
	for _, text := range []string{"B", "A"} { // in another order: the answer to one waits behind that to the other
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

// A process is killed after its code got an answer, and before it stored that the question is not open any more. The
// question is not shown again. An answer to one that the code will ask again is kept before it does.
func TestQuestionsOfKilledProcess(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	db, err := store.Open(t.Context(), filepath.Join(dir, "t.db"), []store.Migration{{Number: 1, Name: "journal", SQL: journal.Tables}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { db.Close() })
	start := func() (*journal.Log, *journal.Process) {
		process := journal.NewProcess(filepath.Join(dir, "processes"), func() ([]byte, error) { return make([]byte, 32), nil })
		t.Cleanup(func() { process.Close() })
		return journal.New(journal.Config{DB: db, Tenant: tenant.Local, Process: process}), process
	}
	log, process := start()
	if err := log.Runs().Add(t.Context(), journal.Run{Execution: "exec_1", State: journal.Running, OnRestart: journal.ResumeOnRestart,
		Request: []byte("{}")}); err != nil {
		t.Fatal(err)
	}
	record := log.NewRecord("exec_1", func() ([]byte, error) { return []byte("{}"), nil }, true)
	var open []question.Question
	for n := 1; n <= 3; n++ {
		call, err := record.Next(t.Context(), journal.HostCall{Method: "ask", Args: fmt.Append(nil, n)})
		if err != nil {
			t.Fatal(err)
		}
		number, err := record.AddQuestion(journal.WithCall(t.Context(), call.Number), n, fmt.Sprint("of", n), time.Now().Add(time.Hour))
		if err == nil && n < 3 {
			err = journal.SetReply(t.Context(), record, number, fmt.Sprint("of", n), []byte(`"blue"`))
		}
		if err == nil && n == 1 { // the code has got it
			err = record.SetAnswerNow(t.Context(), call.Number, journal.Answer{Value: []byte(`"blue"`)})
		}
		if err != nil {
			t.Fatal(err)
		}
		open = append(open, question.Question{ID: question.ID(n),
			Schema: json.RawMessage(`{"type":"object","properties":{"answer":{"type":"string"}}}`)})
	}
	shown, _ := json.Marshal(State{Questions: open})
	if _, err := log.Runs().SetLive(t.Context(), "exec_1", shown); err != nil {
		t.Fatal(err)
	}
	process.Close()
	log, _ = start()
	e, err := log.Runs().Find(t.Context(), "exec_1")
	if err != nil || len(QuestionsOf(e)) != 3 {
		t.Fatalf("%+v %v", e, err)
	}
	if left, err := Unanswered(t.Context(), log.Runs(), e); err != nil || len(left) != 1 || left[0].ID != "q3" {
		t.Errorf("it asks %+v, %v", left, err)
	}
	if e, err := log.Runs().Claim(t.Context()); err != nil || e == nil {
		t.Fatal(e, err)
	}
	if record, _, err = log.OpenRecord(t.Context(), "exec_1", func([]byte) bool { return true }); err != nil {
		t.Fatal(err)
	}
	record.AddClockReadings(0, []int64{1}) // and other new entries
	if err := record.Flush(t.Context()); err != nil {
		t.Fatal(err)
	}
	declined := tool.Reply{Action: tool.Decline}
	for name, want := range map[string]fault.Kind{"q1": fault.Invalid, "q2": fault.Invalid, "q4": fault.Invalid} {
		if err := Answer(t.Context(), log.Runs(), "exec_1", question.Answer{name: declined}); fault.KindOf(err) != want {
			t.Errorf("an answer to %s: %v", name, err)
		}
	}
	if err := Answer(t.Context(), log.Runs(), "exec_1", question.Answer{"q3": declined}); err != nil {
		t.Errorf("an answer to a question that the code asks again: %v", err)
	}
	if all, err := journal.Signals(t.Context(), log.Runs(), "exec_1", AnswerEvent); err != nil || len(all) != 1 {
		t.Errorf("%s %v", all, err)
	}
	for n := 1; n <= 3; n++ { // all calls are repeated, and nothing is asked
		if _, err := record.Next(t.Context(), journal.HostCall{Method: "ask", Args: fmt.Append(nil, n)}); err != nil {
			t.Fatal(err)
		}
	}
	if err := record.Flush(t.Context()); err != nil {
		t.Fatal(err)
	}
	if all, err := Expected(t.Context(), log.Runs(), "exec_1"); err != nil || len(all) != 0 {
		t.Errorf("%+v is expected, %v", all, err)
	}
}
