package execution_test

import (
	"context"
	"encoding/json"
	"path/filepath"
	"strings"
	"testing"

	"github.com/sandpiper-mcp/sandpiper/internal/execution"
	"github.com/sandpiper-mcp/sandpiper/internal/execution/reply"
	"github.com/sandpiper-mcp/sandpiper/internal/fault"
	"github.com/sandpiper-mcp/sandpiper/internal/home"
	"github.com/sandpiper-mcp/sandpiper/internal/home/skill"
	"github.com/sandpiper-mcp/sandpiper/internal/policy"
	"github.com/sandpiper-mcp/sandpiper/internal/sandbox"
	"github.com/sandpiper-mcp/sandpiper/internal/sandbox/admit"
	"github.com/sandpiper-mcp/sandpiper/internal/sandbox/fake"
	"github.com/sandpiper-mcp/sandpiper/internal/store/tenant"
	"github.com/sandpiper-mcp/sandpiper/internal/tool"
	"github.com/sandpiper-mcp/sandpiper/internal/tool/catalog"
	"github.com/sandpiper-mcp/sandpiper/internal/toolcall"
)

var (
	gvisor  = policy.Sandbox{Name: "gvisor", Strength: 2}
	microvm = policy.Sandbox{Name: "microvm", Strength: 3}
)

// kinds is a backend that records the kinds of the sandboxes that it opened, and the errors of host
// calls, which the code of a fake sandbox cannot show.
type kinds struct {
	sandbox.Backend
	opened, failed *[]string
}

func (k kinds) Open(ctx context.Context, spec sandbox.Spec) (sandbox.Sandbox, error) {
	*k.opened = append(*k.opened, spec.Backend)
	s, err := k.Backend.Open(ctx, spec)
	return tapped{s, k.failed}, err
}

type tapped struct {
	sandbox.Sandbox
	failed *[]string
}

func (t tapped) Run(ctx context.Context, p sandbox.Program, h sandbox.Host) (sandbox.Outcome, error) {
	return t.Sandbox.Run(ctx, p, tap{h, t.failed})
}

type tap struct {
	sandbox.Host
	failed *[]string
}

func (t tap) Call(ctx context.Context, method string, args []byte) ([]byte, error) {
	answer, err := t.Host.Call(ctx, method, args)
	if err != nil {
		*t.failed = append(*t.failed, err.Error())
	}
	return answer, err
}

// isolated is a setup in which policy requires gvisor for the servers crm and odd-name.2, and microvm
// for vm. The code "hidden" calls crm.find.
type isolated struct {
	setup
	home   *home.Home
	opened []string       // kinds of sandboxes, since the last call of took
	failed []string       // errors of host calls
	own    policy.Sandbox // of the tenant
	called int

	scripts map[string]string // of the fake backend
}

func newIsolated(t *testing.T, h *home.Home) *isolated {
	t.Helper()
	s := &isolated{home: h, own: policy.Process, scripts: map[string]string{"hidden": callFind}}
	cfg := catalog.Config{Dir: filepath.Join(t.TempDir(), "catalog")}
	for _, name := range []string{"crm", "odd-name.2", "vm", "plain"} {
		cfg.Servers = append(cfg.Servers, catalog.Configured{Name: name, Trusted: true})
	}
	cat, err := catalog.Open(cfg)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range cfg.Servers {
		if _, err := cat.Put(t.Context(), c.Name, catalog.Listing{Tools: []tool.Definition{{Ref: tool.Ref{Server: c.Name, Tool: "find"},
			Input: json.RawMessage(`{"type":"object"}`)}}}); err != nil {
			t.Fatal(err)
		}
	}
	rules, err := policy.New(policy.Config{Sandboxes: []policy.Sandbox{gvisor, microvm}, Rules: []policy.Rule{
		{Scope: policy.Scope{Server: "crm"}, Sandbox: "gvisor"},
		{Scope: policy.Scope{Server: "odd-name.2"}, Sandbox: "gvisor"},
		{Scope: policy.Scope{Server: "vm"}, Sandbox: "microvm"},
	}})
	if err != nil {
		t.Fatal(err)
	}
	upstream := callerFunc(func(context.Context, tool.Call) (tool.Result, error) {
		s.called++
		return tool.Result{Structured: json.RawMessage(`{"n":1}`)}, nil
	})
	calls := toolcall.New(toolcall.Config{Catalog: cat, Upstream: upstream, Policy: func() *policy.Policy { return rules }})
	s.Runner, err = execution.New(execution.Config{
		Backend: kinds{fake.New(fake.Config{Scripts: s.scripts}), &s.opened, &s.failed}, Queue: admit.New(admit.Config{}),
		Tools:    &execution.Tools{Catalog: cat, Calls: calls},
		Settings: func(tenant.ID) execution.Settings { return execution.Settings{Sandbox: s.own} },
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(context.Background()); err != nil {
			t.Error(err)
		}
	})
	return s
}

// took returns the kinds of the sandboxes that were opened since the last call.
func (s *isolated) took() string {
	kinds := strings.Join(s.opened, " ")
	s.opened = nil
	return kinds
}

func TestCodeRunsInTheSandboxOfTheServersThatItNames(t *testing.T) {
	s := newIsolated(t, newHome(t, "a"))
	for _, tc := range []struct {
		code, vars string
		own        policy.Sandbox
		want       string
	}{
		{"# from servers import crm", "", policy.Process, "gvisor"},
		{"# import servers.crm as c", "", policy.Process, "gvisor"},
		{"# call_tool('odd-name.2', 'find')", "", policy.Process, "gvisor"},
		{"# from servers.odd_name_2 import find", "", policy.Process, "gvisor"},
		{"# call_tool(server, 'find')", `{"server": "crm"}`, policy.Process, "gvisor"},
		{"# call_tool(server, 'find')", `{"server": {"name": "crm"}, "n": 5}`, policy.Process, "process"},
		{"# from servers import crm, vm", "", policy.Process, "microvm"},
		{"# from servers import vm", "", gvisor, "microvm"},
		{"# from servers import crm", "", gvisor, "gvisor"},
		{"# from servers import crm", "", microvm, "microvm"}, // which is at least a second kernel
		{"# from servers import plain", "", policy.Process, "process"},
		{"# from servers import plain", "", microvm, "microvm"},
		{"# from servers import crmx, x_crm", "", policy.Process, "process"},
		{"# crm without a server", "", policy.Process, "process"},
		{"# from servers import odd", "", policy.Process, "process"},
	} {
		s.own = tc.own
		if r := done(t, s.start(t, t.Context(), s.home, execution.Request{Code: tc.code, Vars: json.RawMessage(tc.vars)})); !r.Success() {
			t.Errorf("%s: %+v", tc.code, r)
		}
		if got := s.took(); got != tc.want {
			t.Errorf("%s %s of a tenant with %s runs in %q, want %s", tc.code, tc.vars, tc.own, got, tc.want)
		}
	}
	if r := s.run(t, s.home, callFind); !r.Success() || s.took() != "gvisor" || s.called != 1 {
		t.Errorf("%d calls, %+v", s.called, r)
	}
}

// Code that hides the name of a server runs in the tenant's sandbox, and its call is refused.
func TestHiddenCallIsRefused(t *testing.T) {
	_, h := newRestarts(t).restart(t, nil)
	s := newIsolated(t, h)
	requests := map[string]execution.Request{
		"execution": {Code: "hidden"},
		"dry run":   {Code: "hidden", DryRun: true},
		"session":   {Code: "hidden", SessionID: "one"},
	}
	for name, req := range requests {
		r := done(t, s.start(t, t.Context(), s.home, req))
		if r.Success() || len(s.failed) != 1 || !strings.Contains(s.failed[0],
			"policy requires the sandbox gvisor for code that calls it (rule 1), and this code runs in process") ||
			!strings.Contains(s.failed[0], "`from servers import crm`") {
			t.Errorf("%s: %q %+v", name, s.failed, r)
		}
		s.failed = nil
		if got := s.took(); got != "process" {
			t.Errorf("%s ran in %s", name, got)
		}
	}
	id := dispatch(t, s.setup, s.home, "hidden", "")
	if !runDue(t, s.setup, s.home) {
		t.Fatal("nothing is due")
	}
	if _, r := entry(t, s.home, id); r.Success() || len(s.failed) != 1 || s.took() != "process" {
		t.Errorf("background: %q %+v", s.failed, r)
	}
	for _, request := range []string{`list_resources {"server":"crm"}`, `list_prompts {"server":"crm"}`,
		`read_resource {"server":"crm","uri":"x:1"}`, `get_prompt {"server":"crm","name":"x"}`} {
		s.scripts["request"], s.failed = "call "+request, nil
		if r := s.run(t, s.home, "request"); r.Success() || len(s.failed) != 1 || !strings.Contains(s.failed[0],
			"policy requires the sandbox gvisor") {
			t.Errorf("%s: %q %+v", request, s.failed, r)
		}
	}
	if s.called != 0 {
		t.Errorf("%d calls were made", s.called)
	}
	s.own = gvisor
	if r := s.run(t, s.home, "hidden"); !r.Success() || s.called != 1 {
		t.Errorf("in gvisor: %+v", r)
	}
}

// A session keeps its sandbox: code that needs a stronger one is refused, and the variables stay.
func TestSessionIsNotMovedToAnotherSandbox(t *testing.T) {
	s := newIsolated(t, newHome(t, "a"))
	s.call(t, s.home, "weak", "set x 5")
	s.took()
	err := s.startError(t, t.Context(), s.home, execution.Request{Code: "# from servers import crm", SessionID: "weak"})
	if want := `the code was not run: it names server crm, policy requires the sandbox gvisor for it (rule 1), and session "weak" runs ` +
		`in process; a running session keeps its sandbox`; fault.KindOf(err) != fault.Denied || fault.Message(err) != want {
		t.Errorf("got  %v\nwant %s", err, want)
	}
	if want := "use another session_id, whose first code names the server: `from servers import crm`"; fault.Hint(err) != want {
		t.Error(fault.Hint(err))
	}
	if r := s.call(t, s.home, "weak", "get x"); string(r.Value) != "5" || r.Session.State != reply.SessionLive || s.took() != "" {
		t.Errorf("%+v", r)
	}
	if r := s.call(t, s.home, "strong", "# from servers import crm\nset x 6"); r.Session.State != reply.SessionNew || s.took() != "gvisor" {
		t.Errorf("%+v", r)
	}
	for code, want := range map[string]string{"get x": "6", "hidden": `{"value":{"n":1}}`} {
		if r := s.call(t, s.home, "strong", code); string(r.Value) != want || s.took() != "" {
			t.Errorf("%s in a session that runs in gvisor: %+v", code, r)
		}
	}
	// The operator selects a stronger sandbox for the tenant: the session has a fresh interpreter, and says so.
	s.own = gvisor
	r := s.call(t, s.home, "weak", "set y 1")
	if r.Session.State != reply.SessionRestarted || !strings.Contains(r.Session.Note, "the operator has changed the settings") ||
		s.took() != "gvisor" {
		t.Errorf("%+v", r.Session)
	}
	// One with a stronger sandbox than the settings now select goes on.
	s.own = policy.Process
	if r := s.call(t, s.home, "weak", "get y"); string(r.Value) != "1" || s.took() != "" {
		t.Errorf("%+v", r)
	}
}

// A session that is rebuilt starts in the sandbox that its later steps need.
func TestRebuiltSessionHasTheRequiredSandbox(t *testing.T) {
	h := newHome(t, "a")
	first := newIsolated(t, h)
	first.own = gvisor
	first.call(t, h, "one", "set x 5")
	first.call(t, h, "one", callFind)
	first.Close(t.Context())
	s := newIsolated(t, h)
	b, err := s.rebuild(t, h, "one", false)
	if err != nil || b.Tasks != 2 || s.took() != "gvisor" || s.called != 0 {
		t.Errorf("%+v, %v, %d calls", b, err, s.called)
	}
}

// The code of skills is searched too.
func TestSkillsSelectTheSandbox(t *testing.T) {
	s := newIsolated(t, newHome(t, "a"))
	for name, code := range map[string]string{"pay": "from servers import crm", "outer": "from skills import pay", "plain_skill": "x = 1"} {
		if _, err := s.home.Skills.Save(t.Context(), skill.Draft{Name: name, Code: code}); err != nil {
			t.Fatal(err)
		}
	}
	for code, want := range map[string]string{
		"# from skills import pay":         "gvisor",
		"# from skills import outer":       "gvisor",
		"# exec(load_skill('outer'))":      "gvisor",
		"# from skills import plain_skill": "process",
		"# pay":                            "process",
	} {
		if r := s.run(t, s.home, code); !r.Success() || s.took() != want {
			t.Errorf("%s: %+v", code, r)
		}
	}
}
