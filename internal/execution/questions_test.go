package execution_test

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sandpiper-mcp/sandpiper/internal/execution/question"
	"github.com/sandpiper-mcp/sandpiper/internal/execution/unfinished"
	"github.com/sandpiper-mcp/sandpiper/internal/home/journal"
	"github.com/sandpiper-mcp/sandpiper/internal/tool"

	"github.com/google/go-cmp/cmp"

	"github.com/sandpiper-mcp/sandpiper/internal/execution"
	"github.com/sandpiper-mcp/sandpiper/internal/fault"
	"github.com/sandpiper-mcp/sandpiper/internal/home"
	"github.com/sandpiper-mcp/sandpiper/internal/sandbox/admit"
	"github.com/sandpiper-mcp/sandpiper/internal/sandbox/fake"
)

const askColour = `call ask {"question": "Which colour?"}`

// nextQuestions waits for the next questions of x.
func nextQuestions(t *testing.T, x *execution.Execution) []question.Question {
	t.Helper()
	for {
		e, err := x.Next(t.Context())
		if err != nil || e.Done != nil {
			t.Fatalf("the execution asked no question: %+v %v", e.Done, err)
		}
		if e.Questions != nil {
			return e.Questions
		}
	}
}

func accept(content string) tool.Reply {
	return tool.Reply{Action: tool.Accept, Content: json.RawMessage(content)}
}

func TestOpenQuestionPausesClockAndYieldsSlot(t *testing.T) {
	home := newHome(t, "a")
	synctest.Test(t, func(t *testing.T) {
		s := newSetup(t, execution.Config{}, fake.Config{}, admit.Config{Concurrent: 1})
		x := s.start(t, t.Context(), home, execution.Request{Code: "sleep 4s\n" + askColour + "\nsleep 4s\nresult 1",
			Timeout: 10 * time.Second})
		want := []question.Question{{ID: "q1", Text: "Which colour?",
			Schema: json.RawMessage(`{"type":"object","properties":{"answer":{"type":"string"}},"required":["answer"]}`)}}
		if d := cmp.Diff(want, nextQuestions(t, x)); d != "" {
			t.Error(d)
		}
		if r := s.run(t, home, "result 2"); !r.Success() { // the only slot is free
			t.Errorf("the concurrent execution: %+v", r)
		}
		time.Sleep(23 * time.Hour)
		if _, err := s.Attach(t.Context(), home, x.ID(), question.Answer{"q1": accept(`{"answer":"blue"}`)}); err != nil {
			t.Fatal(err)
		}
		if r := done(t, x); !r.Success() {
			t.Errorf("%+v", r)
		}
	})
}

func TestAnswersMatchRequestedSchema(t *testing.T) {
	home := newHome(t, "a")
	for name, tc := range map[string]struct{ ask, reply, want string }{
		"text":      {`{"question": "?"}`, `{"answer":"blue"}`, `{"action":"accept","value":"blue"}`},
		"a choice":  {`{"question": "?", "schema": {"enum": ["a", "b"]}}`, `{"answer":"b"}`, `{"action":"accept","value":"b"}`},
		"yes or no": {`{"question": "?", "schema": {"type": "boolean"}}`, `{"answer":false}`, `{"action":"accept","value":false}`},
		"a form": {`{"question": "?", "schema": {"type": "object", "properties": {"n": {"type": "integer"}, "s": {"type": "string"}}}}`,
			`{"n":1,"s":"x"}`, `{"action":"accept","value":{"n":1,"s":"x"}}`},
		"declined":  {`{"question": "?"}`, "decline", `{"action":"decline","value":null}`},
		"dismissed": {`{"question": "?"}`, "cancel", `{"action":"cancel","value":null}`},
	} {
		t.Run(name, func(t *testing.T) {
			s := defaultSetup(t)
			x := s.start(t, t.Context(), home, execution.Request{Code: "call ask " + tc.ask})
			nextQuestions(t, x)
			reply := tool.Reply{Action: tool.Action(tc.reply)}
			if tc.reply[0] == '{' {
				reply = accept(tc.reply)
			}
			if _, err := s.Attach(t.Context(), home, x.ID(), question.Answer{"q1": reply}); err != nil {
				t.Fatal(err)
			}
			if r := done(t, x); string(r.Value) != tc.want {
				t.Errorf("%s %+v", r.Value, r)
			}
		})
	}
}

func TestConcurrentQuestionsAreReturnedTogether(t *testing.T) {
	home := newHome(t, "a")
	synctest.Test(t, func(t *testing.T) {
		s := defaultSetup(t)
		code := strings.Repeat(`spawn ask {"question": "?"}`+"\n", 3) + "result 1"
		x := s.start(t, t.Context(), home, execution.Request{Code: code})
		if got := nextQuestions(t, x); len(got) != 3 {
			t.Errorf("%d questions, not 3", len(got))
		}
		a := question.Answer{}
		for _, id := range []string{"q1", "q2", "q3"} {
			a[id] = accept(`{"answer":"x"}`)
		}
		if _, err := s.Attach(t.Context(), home, x.ID(), a); err != nil {
			t.Fatal(err)
		}
		if r := done(t, x); !r.Success() {
			t.Errorf("%+v", r)
		}
	})
}

func TestInvalidAnswerKeepsQuestionOpen(t *testing.T) {
	all := newTenants(t)
	a, b := newHome(t, "a", all), newHome(t, "b", all)
	s := defaultSetup(t)
	x := s.start(t, t.Context(), a, execution.Request{Code: `call ask {"question": "?", "schema": {"type": "integer"}}`})
	nextQuestions(t, x)
	right := question.Answer{"q1": accept(`{"answer":5}`)}
	for name, wrong := range map[string]question.Answer{
		"another type":     {"q1": accept(`{"answer":"x"}`)},
		"no answer in it":  {"q1": accept(`{}`)},
		"no JSON":          {"q1": accept(`{`)},
		"no action":        {"q1": {}},
		"another question": {"q2": accept(`{"answer":5}`)},
		"one too many":     {"q1": accept(`{"answer":5}`), "q2": accept(`{"answer":5}`)},
	} {
		if _, err := s.Attach(t.Context(), a, x.ID(), wrong); fault.KindOf(err) != fault.Invalid && fault.KindOf(err) != fault.NotFound {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := s.Attach(t.Context(), b, x.ID(), right); fault.KindOf(err) != fault.NotFound {
		t.Errorf("another tenant answers: %v", err)
	}
	if _, err := s.Attach(t.Context(), a, x.ID(), right); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Attach(t.Context(), a, x.ID(), right); fault.KindOf(err) != fault.NotFound {
		t.Errorf("answered twice: %v", err)
	}
	if r := done(t, x); !strings.Contains(string(r.Value), `"value":5`) {
		t.Errorf("%s %+v", r.Value, r)
	}
}

func TestSuspendedExecutionOutlivesCaller(t *testing.T) {
	home := newHome(t, "a")
	synctest.Test(t, func(t *testing.T) {
		s := defaultSetup(t)
		ctx, leave := context.WithCancel(t.Context())
		left := s.start(t, ctx, home, execution.Request{Code: askColour})
		kept := s.start(t, ctx, home, execution.Request{Code: askColour})
		nextQuestions(t, left)
		nextQuestions(t, kept)
		if err := s.Suspend(kept); err != nil {
			t.Fatal(err)
		}
		leave()
		if r := done(t, left); r.ErrorType != "cancelled" {
			t.Errorf("not suspended: %+v", r)
		}
		time.Sleep(time.Hour)
		ctx, leave = context.WithCancel(t.Context())
		x, err := s.Attach(ctx, home, kept.ID(), nil)
		if err != nil {
			t.Fatal(err)
		}
		nextQuestions(t, x)
		leave() // the execution is bound to the context of the latest Attach
		if r := done(t, x); r.ErrorType != "cancelled" {
			t.Errorf("taken up: %+v", r)
		}
	})
}

func TestQuestionExpires(t *testing.T) {
	home := newHome(t, "a")
	synctest.Test(t, func(t *testing.T) {
		s := defaultSetup(t)
		x := s.start(t, t.Context(), home, execution.Request{Code: askColour})
		nextQuestions(t, x)
		if r := done(t, x); string(r.Value) != `{"action":"cancel","value":null}` {
			t.Errorf("%s %+v", r.Value, r)
		}
	})
}

func TestSuspendIsBounded(t *testing.T) {
	home := newHome(t, "a")
	synctest.Test(t, func(t *testing.T) {
		s := newSetup(t, execution.Config{}, fake.Config{}, admit.Config{Concurrent: 100, Queued: 100})
		for n := range 9 {
			x := s.start(t, t.Context(), home, execution.Request{Code: askColour})
			nextQuestions(t, x)
			if err := s.Suspend(x); (err != nil) != (n == 8) {
				t.Errorf("number %d: %v", n, err)
			}
		}
		ended, now := context.WithCancel(t.Context())
		now()
		if err := s.Close(ended); err != nil { // no suspended execution delays Close
			t.Error(err)
		}
	})
}

// The suspended executions of a tenant do not count for others: beyond a number in all, the oldest ones
// wait without a process. The message about the limit has the tenant's own number.
func TestSuspendedExecutionsOfOtherTenantsDoNotCount(t *testing.T) {
	process := journal.NewProcess(t.TempDir(), func() ([]byte, error) { return make([]byte, 32), nil })
	t.Cleanup(func() { _ = process.Close() })
	all := openTenants(t, process)
	var calls atomic.Int64
	s := newSetup(t, execution.Config{Tools: tools(t, func(context.Context, tool.Call) (tool.Result,
		error) {
		calls.Add(1)
		return tool.Result{}, nil
	})}, fake.Config{}, admit.Config{Concurrent: 200, Queued: 200})
	first := ""
	suspend := func(home *home.Home) error {
		x := s.start(t, t.Context(), home, execution.Request{Code: callFind + "\n" + askColour})
		nextQuestions(t, x)
		if first == "" {
			first = x.ID()
		}
		return s.Suspend(x)
	}
	var homes []*home.Home
	for n := range 10 {
		homes = append(homes, newHome(t, fmt.Sprintf("tenant-%d", n), all))
	}
	for n, h := range homes {
		for i := range 8 {
			if err := suspend(h); err != nil {
				t.Fatalf("tenant %d, number %d: %v", n, i, err)
			}
		}
	}
	if err := suspend(homes[0]); err == nil || !strings.HasPrefix(fault.Message(err), "8 executions") {
		t.Errorf("number 9 of one tenant: %v", err)
	}
	open, _ := s.backend.Count()
	// with the last one, which is not suspended
	for deadline := time.Now().Add(10 * time.Second); open > 65 && time.Now().Before(deadline); open, _ = s.backend.Count() {
		time.Sleep(10 * time.Millisecond)
	}
	if open > 65 {
		t.Errorf("%d sandboxes are open", open)
	}
	listed, err := unfinished.List(t.Context(), s.Runner, homes[0], "")
	if err != nil || len(listed) != 8 { // without the last one
		t.Errorf("the first tenant has %d executions that wait: %+v, %v", len(listed), listed, err)
	}
	if s.Find(homes[0], first) != nil {
		t.Error("the oldest one has its process")
	}
	x, err := s.Resume(t.Context(), homes[0], first)
	if err != nil {
		t.Fatal(err)
	}
	nextQuestions(t, x)
	if _, err := s.Attach(t.Context(), homes[0], first, question.Answer{"q1": accept(`{"answer":"blue"}`)}); err != nil {
		t.Fatal(err)
	}
	if r := done(t, x); !r.Success() || calls.Load() != 81 { // one call for each execution
		t.Errorf("%+v, after %d calls", r, calls.Load())
	}
}

func TestInvalidQuestionsAreRejected(t *testing.T) {
	home := newHome(t, "a")
	s := defaultSetup(t)
	for name, args := range map[string]string{
		"nothing":                     `{"question": "  "}`,
		"a long text":                 `{"question": "` + strings.Repeat("x", 5000) + `"}`,
		"no schema":                   `{"question": "?", "schema": 5}`,
		"a schema of an unknown type": `{"question": "?", "schema": {"type": "colour"}}`,
		"a form of forms":             `{"question": "?", "schema": {"type": "object", "properties": {"o": {"type": "object"}}}}`,
		"an empty form":               `{"question": "?", "schema": {"type": "object"}}`,
		"a list":                      `{"question": "?", "schema": {"type": "array"}}`,
	} {
		if r := s.run(t, home, "call ask "+args); r.Success() || r.ErrorType != "ValueError" {
			t.Errorf("%s: %s %+v", name, r.Value, r)
		}
	}
}
