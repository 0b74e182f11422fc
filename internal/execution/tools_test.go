package execution_test

import (
	"context"
	"encoding/json"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sandpiper-mcp/sandpiper/internal/execution/question"

	"github.com/google/go-cmp/cmp"

	"github.com/sandpiper-mcp/sandpiper/internal/execution"
	"github.com/sandpiper-mcp/sandpiper/internal/fault"
	"github.com/sandpiper-mcp/sandpiper/internal/home/usage"
	"github.com/sandpiper-mcp/sandpiper/internal/sandbox/admit"
	"github.com/sandpiper-mcp/sandpiper/internal/sandbox/fake"
	"github.com/sandpiper-mcp/sandpiper/internal/tool"
	"github.com/sandpiper-mcp/sandpiper/internal/tool/catalog"
	"github.com/sandpiper-mcp/sandpiper/internal/tool/tokens"
	"github.com/sandpiper-mcp/sandpiper/internal/toolcall"
)

// callerFunc implements tool.Caller.
type callerFunc func(context.Context, tool.Call) (tool.Result, error)

func (f callerFunc) Call(ctx context.Context, c tool.Call) (tool.Result, error) { return f(ctx, c) }

// tools returns Tools with one tool, which f answers. Its calls are recorded, because its
// server is not trusted.
func tools(t *testing.T, f callerFunc) *execution.Tools {
	t.Helper()
	return toolsOf(t, f, false)
}

// readingTools is tools with a trusted server, whose calls are not recorded: the end of a
// recorded call starts a timer of the database, which outlives a synctest bubble.
func readingTools(t *testing.T, f callerFunc) *execution.Tools {
	t.Helper()
	return toolsOf(t, f, true)
}

func toolsOf(t *testing.T, f callerFunc, trusted bool) *execution.Tools {
	t.Helper()
	cat, err := catalog.Open(catalog.Config{Dir: filepath.Join(t.TempDir(), "catalog"),
		Servers: []catalog.Configured{{Name: "crm", Trusted: trusted}}})
	if err != nil {
		t.Fatal(err)
	}
	yes := true
	if _, err := cat.Put(t.Context(), "crm", catalog.Listing{Tools: []tool.Definition{
		{Ref: tool.Ref{Server: "crm", Tool: "find"}, Input: json.RawMessage(`{"type":"object"}`), Hints: tool.Hints{ReadOnly: &yes}},
	}}); err != nil {
		t.Fatal(err)
	}
	return &execution.Tools{Catalog: cat, Calls: toolcall.New(toolcall.Config{Catalog: cat, Upstream: f})}
}

const (
	callFind  = `call call_tool {"server": "crm", "tool": "find"}`
	spawnFind = `spawn call_tool {"server": "crm", "tool": "find"}`
)

// askingTool returns a tool that asks a question during its call and returns the reply.
func askingTool(schema string) callerFunc {
	return func(ctx context.Context, c tool.Call) (tool.Result, error) {
		r, err := c.Ask(ctx, tool.Question{Text: "Which one?", Schema: json.RawMessage(schema)})
		if err != nil {
			return tool.Result{}, err
		}
		reply, err := json.Marshal(r)
		return tool.Result{Structured: reply}, err
	}
}

// failingTool is askingTool, but stores the reply in received and fails. No schema is inferred from a
// failed call, so no background write starts in the synctest bubble.
func failingTool(schema string, received *string) callerFunc {
	return func(ctx context.Context, c tool.Call) (tool.Result, error) {
		r, err := askingTool(schema)(ctx, c)
		if *received = string(r.Structured); err != nil {
			*received = fault.Message(err)
		}
		return tool.Result{}, &tool.Failure{Ref: c.Ref, Message: "failed"}
	}
}

const oneText = `{"type":"object","properties":{"name":{"type":"string"}},"required":["name"]}`

func TestServerElicitationReachesUser(t *testing.T) {
	home, servers := newHome(t, "a"), readingTools(t, askingTool(oneText))
	for name, c := range map[string]struct {
		reply tool.Reply
		want  string
	}{
		"accepted":  {accept(`{"name":"Ada"}`), `{"value":{"action":"accept","content":{"name":"Ada"}}}`},
		"declined":  {tool.Reply{Action: tool.Decline}, `{"value":{"action":"decline"}}`},
		"dismissed": {tool.Reply{Action: tool.Cancel}, `{"value":{"action":"cancel"}}`},
	} {
		s := newSetup(t, execution.Config{Tools: servers}, fake.Config{}, admit.Config{})
		x := s.start(t, t.Context(), home, execution.Request{Code: callFind})
		want := []question.Question{{ID: "q1", From: "crm.find", Text: "Which one?", Schema: json.RawMessage(oneText)}}
		if d := cmp.Diff(want, nextQuestions(t, x)); d != "" {
			t.Errorf("%s: %s", name, d)
		}
		if _, err := s.Attach(t.Context(), home, x.ID(), question.Answer{"q1": c.reply}); err != nil {
			t.Fatal(err)
		}
		if r := done(t, x); string(r.Value) != c.want {
			t.Errorf("%s: %s %+v", name, r.Value, r)
		}
	}
}

func TestServerElicitationPausesClockAndCanSuspend(t *testing.T) {
	received := ""
	home, servers := newHome(t, "a"), readingTools(t, failingTool(oneText, &received))
	synctest.Test(t, func(t *testing.T) {
		s := newSetup(t, execution.Config{Tools: servers}, fake.Config{}, admit.Config{Concurrent: 1})
		ctx, leave := context.WithCancel(t.Context())
		x := s.start(t, ctx, home, execution.Request{Code: "sleep 4s\n" + spawnFind + "\nsleep 20s\nresult 1", Timeout: 10 * time.Second})
		nextQuestions(t, x)
		if err := s.Suspend(x); err != nil {
			t.Fatal(err)
		}
		leave()
		if r := s.run(t, home, "result 2"); !r.Success() { // the only slot is free
			t.Errorf("the concurrent execution: %+v", r)
		}
		time.Sleep(23 * time.Hour)
		if _, err := s.Attach(t.Context(), home, x.ID(), question.Answer{"q1": accept(`{"name":"Ada"}`)}); err != nil {
			t.Fatal(err)
		}
		if r := done(t, x); !r.Success() || received != `{"action":"accept","content":{"name":"Ada"}}` {
			t.Errorf("%s %+v", received, r)
		}
	})
}

func TestUnansweredElicitationIsCancelled(t *testing.T) {
	received := ""
	home, servers := newHome(t, "a"), readingTools(t, failingTool(oneText, &received))
	synctest.Test(t, func(t *testing.T) {
		s := newSetup(t, execution.Config{Tools: servers}, fake.Config{}, admit.Config{})
		x := s.start(t, t.Context(), home, execution.Request{Code: callFind})
		nextQuestions(t, x)
		if r := done(t, x); received != `{"action":"cancel"}` {
			t.Errorf("%s %+v", received, r)
		}
	})
}

// If a server cancels its call before the answer, the question is withdrawn and the code continues
// with its clock and slot.
func TestElicitationEndsWithItsCall(t *testing.T) {
	home := newHome(t, "a")
	servers := readingTools(t, func(ctx context.Context, c tool.Call) (tool.Result, error) {
		ctx, cancel := context.WithTimeout(ctx, time.Minute)
		defer cancel()
		_, err := c.Ask(ctx, tool.Question{Text: "Still there?", Schema: json.RawMessage(oneText)})
		return tool.Result{}, &tool.Failure{Ref: c.Ref, Message: "gave up: " + err.Error()}
	})
	synctest.Test(t, func(t *testing.T) {
		s := newSetup(t, execution.Config{Tools: servers}, fake.Config{}, admit.Config{Concurrent: 1})
		x := s.start(t, t.Context(), home, execution.Request{Code: spawnFind + "\nsleep 3m", Timeout: 70 * time.Second})
		nextQuestions(t, x)
		if r := done(t, x); r.ErrorType != "timeout" || r.Elapsed != 70*time.Second {
			t.Errorf("%+v", r)
		}
		if open := x.Questions(); len(open) > 0 {
			t.Errorf("%+v", open)
		}
	})
}

func TestUnsupportedElicitationSchemaIsRejected(t *testing.T) {
	home := newHome(t, "a")
	for name, schema := range map[string]string{
		"no object":        `{"type":"string"}`,
		"a form in a form": `{"type":"object","properties":{"o":{"type":"object"}}}`,
		"nothing":          `{"type":"object"}`,
		"recursive":        `{"type":"object","properties":{"o":{"$ref":"#"}}}`,
		"huge":             `{"type":"object","properties":{"o":{"type":"string","title":"` + strings.Repeat("x", 20_000) + `"}}}`,
	} {
		received := ""
		s := newSetup(t, execution.Config{Tools: readingTools(t, failingTool(schema, &received))}, fake.Config{}, admit.Config{})
		if s.run(t, home, callFind); !strings.Contains(received, "schema") {
			t.Errorf("%s: %s", name, received)
		}
	}
}

func TestStructuredContentCountsOnce(t *testing.T) {
	for name, result := range map[string]tool.Result{
		"structured": {Structured: json.RawMessage(`{"n":1}`)},
		"text":       {Parts: []tool.Part{{Kind: tool.Text, Text: `{"n":1}`}}},
		"both":       {Structured: json.RawMessage(`{"n":1}`), Parts: []tool.Part{{Kind: tool.Text, Text: `{"n":1}`}}},
	} {
		home := newHome(t, "a")
		s := newSetup(t, execution.Config{Tools: tools(t, func(context.Context, tool.Call) (tool.Result, error) { return result, nil })},
			fake.Config{}, admit.Config{})
		s.run(t, home, callFind)
		want := usage.Totals{Calls: 1, Saved: int64(tokens.Count(`{"n":1}`))}
		if got, err := home.Usage.Find(t.Context(), ""); err != nil || got != want {
			t.Errorf("%s: %+v, %v; want %+v", name, got, err, want)
		}
	}
}

func TestRequestLimitsTools(t *testing.T) {
	home := newHome(t, "a")
	called := 0
	s := newSetup(t, execution.Config{Tools: tools(t, func(context.Context, tool.Call) (tool.Result, error) {
		called++
		return tool.Result{Structured: json.RawMessage(`{"n":1}`)}, nil
	})}, fake.Config{}, admit.Config{})
	for _, test := range []struct {
		tools []string
		code  string
		ok    bool
	}{
		{nil, callFind, true},
		{[]string{"crm.find"}, callFind, true},
		{[]string{"crm.other"}, callFind, false},
		{[]string{}, callFind, false},
		{[]string{"crm.other"}, `call list_resources {"server": "crm"}`, false},
		{[]string{}, `call list_resources {"server": "crm"}`, false},
	} {
		before := called
		r := done(t, s.start(t, t.Context(), home, execution.Request{Code: test.code, Tools: test.tools}))
		if r.Success() != test.ok || called > before != test.ok {
			t.Errorf("%q %s: %s %q", test.tools, test.code, r.Value, r.Error)
		}
	}
	b, err := json.Marshal(execution.Request{Code: "1", Tools: []string{}})
	var again execution.Request
	if err == nil {
		err = json.Unmarshal(b, &again)
	}
	if err != nil || again.Tools == nil {
		t.Errorf("%s, which is stored, allows all tools: %v", b, err)
	}
}
