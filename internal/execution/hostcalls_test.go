package execution_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"strings"
	"testing"

	"github.com/sandpiper-mcp/sandpiper/internal/execution"
	"github.com/sandpiper-mcp/sandpiper/internal/feature/task/askllm"
	"github.com/sandpiper-mcp/sandpiper/internal/home"
	"github.com/sandpiper-mcp/sandpiper/internal/logtest"
	"github.com/sandpiper-mcp/sandpiper/internal/privacy/detect"
	"github.com/sandpiper-mcp/sandpiper/internal/privacy/redact"
	"github.com/sandpiper-mcp/sandpiper/internal/sandbox/admit"
	"github.com/sandpiper-mcp/sandpiper/internal/sandbox/fake"
	"github.com/sandpiper-mcp/sandpiper/internal/tool"
)

// The message of an internal error refers to the log, which has the cause without private values.
func TestInternalErrorsOfCallsAreLogged(t *testing.T) {
	scanner, err := detect.New(detect.Config{})
	if err != nil {
		t.Fatal(err)
	}
	rules, err := redact.New(redact.Config{Mode: redact.Egress, Scanner: scanner})
	if err != nil {
		t.Fatal(err)
	}
	var log logtest.Log
	broken := func(context.Context, tool.Call) (tool.Result, error) {
		return tool.Result{}, errors.New("no connection of ada@example.com")
	}
	s := newSetup(t, execution.Config{Privacy: rules, Tools: tools(t, broken), Log: slog.New(slog.NewTextHandler(&log, nil))},
		fake.Config{}, admit.Config{})
	r := s.run(t, newHome(t, "a"), callFind)
	if !strings.Contains(r.Error, "something went wrong inside Sandpiper; its log says what") {
		t.Errorf("%+v", r)
	}
	if text := log.String(); strings.Count(text, "\n") != 1 || !strings.Contains(text,
		"execution="+r.ExecutionID+" method=call_tool error=\"no connection of [EMAIL_") {
		t.Errorf("the log is %q", text)
	}
}

// The internal errors of all calls are logged like those of tools.
func TestInternalErrorsOfOtherCallsAreLogged(t *testing.T) {
	root := filepath.Join(t.TempDir(), "data")
	all, err := home.Open(t.Context(), home.Config{Root: root, RecentCode: -1})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = all.Close() })
	h := newHome(t, "a", all)
	db, err := sql.Open("sqlite", filepath.Join(root, "private", "a", "tenant.db"))
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	for _, table := range []string{"skills", "sealed"} {
		if _, err := db.Exec("ALTER TABLE " + table + " RENAME TO lost_" + table); err != nil {
			t.Fatal(err)
		}
	}
	lost := modelFunc(func(context.Context, askllm.Prompt) (askllm.Completion, error) {
		return askllm.Completion{}, errors.New("a broken pipe")
	})
	var log logtest.Log
	s := newSetup(t, execution.Config{HostCalls: askingOf(lost), Log: slog.New(slog.NewTextHandler(&log, nil))}, fake.Config{},
		admit.Config{})
	for method, args := range map[string]string{
		"save_skill": `{"name": "x", "code": "x = 1"}`, "load_skill": `{"name": "x"}`, "list_skills": `{}`,
		"search_skills": `{"query": "x"}`, "use_skill": `{"name": "x"}`,
		"save_state": `{"name": "n", "value": 1}`, "get_state": `{"name": "n"}`, "ask_llm": `{"prompt": "x"}`,
	} {
		before := len(log.String())
		r := s.run(t, h, "call "+method+" "+args)
		text := log.String()[before:]
		if internal := strings.Contains(r.Error, "its log says what"); !internal || strings.Count(text, "a call of code failed") != 1 ||
			!strings.Contains(text, "execution="+r.ExecutionID+" method="+method+" error=") {
			t.Errorf("%s: %s, and the log has %q", method, r.Error, text)
		}
	}
}

func TestSkillsBelongToTenant(t *testing.T) {
	all := newTenants(t)
	a, b := newHome(t, "a", all), newHome(t, "b", all)
	s := defaultSetup(t)
	save := `call save_skill {"name": "double", "code": "def double(x): return 2 * x", "description": "twice", "tags": ["math"]}`
	if r := s.run(t, a, save); !r.Success() || !strings.Contains(string(r.Value),
		`"message":"Skill 'double' saved: from skills import double; double(x)"`) {
		t.Fatalf("%s %+v", r.Value, r)
	}
	for _, tc := range []struct{ name, code, want string }{
		{"load", `call load_skill {"name": "double"}`, `{"name":"double","code":"def double(x): return 2 * ` +
			`x","metadata":{"name":"double","description":"twice","tags":["math"]`},
		{"list", `call list_skills {}`, `[{"name":"double"`},
		{"list without arguments", `call list_skills`, `[{"name":"double"`},
	} {
		if r := s.run(t, a, tc.code); !strings.HasPrefix(string(r.Value), tc.want) {
			t.Errorf("%s: %s %s", tc.name, r.Value, r.Error)
		}
	}
	if r := s.run(t, b, `call load_skill {"name": "double"}`); r.ErrorType != "FileNotFoundError" {
		t.Errorf("another tenant loads it: %+v", r)
	}
	if r := s.run(t, b, `call list_skills {}`); string(r.Value) != "[]" {
		t.Errorf("another tenant lists %s", r.Value)
	}
}

func TestStatesBelongToTenant(t *testing.T) {
	all := newTenants(t)
	a, b := newHome(t, "a", all), newHome(t, "b", all)
	s := defaultSetup(t)
	for _, tc := range []struct{ code, want string }{
		{`call get_state {"name": "n"}`, `{"version":0,"value":null}`},
		{`call save_state {"name": "n", "value": {"x": 1}, "version": 0}`, `{"version":1}`},
		{`call save_state {"name": "n", "value": 2, "version": 0}`,
			`{"version":1,"conflict":"state \"n\" has version 1, not 0: it has changed since it was read: read it again, and repeat the ` +
				`change"}`},
		{`call save_state {"name": "n", "value": 2, "version": 1}`, `{"version":2}`},
		{`call get_state {"name": "n"}`, `{"version":2,"value":2}`},
	} {
		if r := s.run(t, a, tc.code); string(r.Value) != tc.want {
			t.Errorf("%s: %s %s", tc.code, r.Value, r.Error)
		}
	}
	if r := s.run(t, b, `call get_state {"name": "n"}`); string(r.Value) != `{"version":0,"value":null}` {
		t.Errorf("another tenant gets %s", r.Value)
	}
}

func TestDryRunSavesNoState(t *testing.T) {
	home := newHome(t, "a")
	s := defaultSetup(t)
	s.run(t, home, `call save_state {"name": "n", "value": 1}`)
	for _, tc := range []struct{ code, want string }{
		{`call save_state {"name": "n", "value": 2, "version": 1}` + "\n" + `call get_state {"name": "n"}`, `{"version":2,"value":2}`},
		{`call save_state {"name": "n", "value": null}` + "\n" + `call get_state {"name": "n"}`, `{"version":0,"value":null}`},
		{`call save_state {"name": "n", "value": 2, "version": 9}`,
			`{"version":1,"conflict":"state \"n\" has version 1, not 9: it has changed since it was read: read it again, and repeat the ` +
				`change"}`},
	} {
		r := done(t, s.start(t, t.Context(), home, execution.Request{Code: tc.code, DryRun: true}))
		if string(r.Value) != tc.want {
			t.Errorf("%s: %s %s", tc.code, r.Value, r.Error)
		}
	}
	if r := s.run(t, home, `call get_state {"name": "n"}`); string(r.Value) != `{"version":1,"value":1}` {
		t.Errorf("after the dry runs: %s", r.Value)
	}
}

func TestHostCallArgumentsAreValidated(t *testing.T) {
	home := newHome(t, "a")
	s := defaultSetup(t)
	for name, call := range map[string]string{
		"no such method":       `rm {"name": "x"}`,
		"another tenant named": `load_skill {"name": "x", "tenant": "b"}`,
		"not an object":        `load_skill ["x"]`,
		"two values":           `load_skill {"name": "x"} {"name": "y"}`,
		"not JSON":             `load_skill {`,
		"a wrong type":         `save_skill {"name": 5}`,
		"a name that is none":  `save_skill {"name": "../x", "code": "1"}`,
		"a path as a name":     `load_skill {"name": "../../private/a/tenant.db"}`,
		"a state without name": `save_state {"value": 1}`,
		"a state of no value":  `save_state {"name": "x"}`,
		"a negative version":   `save_state {"name": "x", "value": 1, "version": -1}`,
		"negative progress":    `progress {"done": -1}`,
		"progress of nothing":  `progress {"done": "x"}`,
	} {
		if r := s.run(t, home, "call "+call); r.Success() || r.ErrorType == "RuntimeError" {
			t.Errorf("%s: %+v", name, r)
		}
	}
	if got := listFiles(t, home); len(got) != 0 {
		t.Errorf("left %v", got)
	}
}

func TestConcurrentHostCallsAreAllAnswered(t *testing.T) {
	home := newHome(t, "a")
	var code strings.Builder
	for i := range 50 {
		fmt.Fprintf(&code, "spawn save_skill {\"name\": \"s%d\", \"code\": \"x = %d\"}\n", i, i)
	}
	s := defaultSetup(t)
	if r := s.run(t, home, code.String()); !r.Success() {
		t.Fatalf("%+v", r)
	}
	skills, err := home.Skills.List(t.Context())
	if err != nil || len(skills) != 50 {
		t.Errorf("%d skills, %v", len(skills), err)
	}
}
