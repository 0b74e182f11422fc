package execution_test

import (
	"context"
	"encoding/json"
	"github.com/sandpiper-mcp/sandpiper/internal/execution/question"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/sandpiper-mcp/sandpiper/internal/execution"
	"github.com/sandpiper-mcp/sandpiper/internal/fault"
	"github.com/sandpiper-mcp/sandpiper/internal/sandbox/admit"
	"github.com/sandpiper-mcp/sandpiper/internal/sandbox/fake"
	"github.com/sandpiper-mcp/sandpiper/internal/tool"
	"github.com/sandpiper-mcp/sandpiper/internal/tool/catalog"
	"github.com/sandpiper-mcp/sandpiper/internal/toolcall"
)

// callerFunc is a server.
type callerFunc func(context.Context, tool.Call) (tool.Result, error)

func (f callerFunc) Call(ctx context.Context, c tool.Call) (tool.Result, error) { return f(ctx, c) }

// tools are one of a server, which answers its calls with f.
func tools(t *testing.T, f callerFunc) *execution.Tools {
	t.Helper()
	cat, err := catalog.Open(catalog.Config{Dir: filepath.Join(t.TempDir(), "catalog"), Servers: []catalog.Configured{{Name: "crm"}}})
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

// which asks during the call, and answers with the reply.
func askingTool(schema string) callerFunc {
	return func(ctx context.Context, c tool.Call) (tool.Result, error) {
		r, err := c.Ask(ctx, tool.Question{Text: "Which one?", Schema: json.RawMessage(schema)})
		if err != nil {
			return tool.Result{}, err
		}
		said, err := json.Marshal(r)
		return tool.Result{Structured: said}, err
	}
}

// failing is which, whose tool tells what it heard and fails: what fails is neither
// learned from nor counted, for which the stores have times of their own.
func failingTool(schema string, heard *string) callerFunc {
	return func(ctx context.Context, c tool.Call) (tool.Result, error) {
		r, err := askingTool(schema)(ctx, c)
		if *heard = string(r.Structured); err != nil {
			*heard = fault.Message(err)
		}
		return tool.Result{}, &tool.Failure{Ref: c.Ref, Message: "failed"}
	}
}

const oneText = `{"type":"object","properties":{"name":{"type":"string"}},"required":["name"]}`

func TestServerElicitationReachesUser(t *testing.T) {
	home, servers := newHome(t, "a"), tools(t, askingTool(oneText))
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
	heard := ""
	home, servers := newHome(t, "a"), tools(t, failingTool(oneText, &heard))
	synctest.Test(t, func(t *testing.T) {
		s := newSetup(t, execution.Config{Tools: servers}, fake.Config{}, admit.Config{Concurrent: 1})
		ctx, leave := context.WithCancel(t.Context())
		x := s.start(t, ctx, home, execution.Request{Code: "sleep 4s\n" + spawnFind + "\nsleep 20s\nresult 1", Timeout: 10 * time.Second})
		nextQuestions(t, x)
		if err := s.Suspend(x); err != nil {
			t.Fatal(err)
		}
		leave()
		if r := s.run(t, home, "result 2"); !r.Success() { // the only place is free
			t.Errorf("the concurrent execution: %+v", r)
		}
		time.Sleep(23 * time.Hour)
		if _, err := s.Attach(t.Context(), home, x.ID(), question.Answer{"q1": accept(`{"name":"Ada"}`)}); err != nil {
			t.Fatal(err)
		}
		if r := done(t, x); !r.Success() || heard != `{"action":"accept","content":{"name":"Ada"}}` {
			t.Errorf("%s %+v", heard, r)
		}
	})
}

func TestUnansweredElicitationIsCancelled(t *testing.T) {
	heard := ""
	home, servers := newHome(t, "a"), tools(t, failingTool(oneText, &heard))
	synctest.Test(t, func(t *testing.T) {
		s := newSetup(t, execution.Config{Tools: servers}, fake.Config{}, admit.Config{})
		x := s.start(t, t.Context(), home, execution.Request{Code: callFind})
		nextQuestions(t, x)
		if r := done(t, x); heard != `{"action":"cancel"}` {
			t.Errorf("%s %+v", heard, r)
		}
	})
}

// A server that gives up before the person has answered takes its question back,
// and the code continues with its clock and slot.
func TestElicitationEndsWithItsCall(t *testing.T) {
	home := newHome(t, "a")
	servers := tools(t, func(ctx context.Context, c tool.Call) (tool.Result, error) {
		ctx, cancel := context.WithTimeout(ctx, time.Minute)
		defer cancel()
		_, err := c.Ask(ctx, tool.Question{Text: "Still there?", Schema: json.RawMessage(oneText)})
		return tool.Result{}, &tool.Failure{Ref: c.Ref, Message: "gave up: " + err.Error()}
	})
	synctest.Test(t, func(t *testing.T) {
		s := newSetup(t, execution.Config{Tools: servers}, fake.Config{}, admit.Config{Concurrent: 1})
		x := s.start(t, t.Context(), home, execution.Request{Code: spawnFind + "\nsleep 3m", Timeout: 70 * time.Second})
		nextQuestions(t, x)
		if r := done(t, x); r.ErrorType != "timeout" || r.Elapsed != 130*time.Second {
			t.Errorf("%+v", r)
		}
		if open, err := s.Questions(home, x.ID()); err != nil || len(open) > 0 {
			t.Errorf("%+v %v", open, err)
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
		heard := ""
		s := newSetup(t, execution.Config{Tools: tools(t, failingTool(schema, &heard))}, fake.Config{}, admit.Config{})
		if s.run(t, home, callFind); !strings.Contains(heard, "schema") {
			t.Errorf("%s: %s", name, heard)
		}
	}
}
