package toolcall_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/sandpiper-mcp/sandpiper/internal/audit"
	"github.com/sandpiper-mcp/sandpiper/internal/fault"
	"github.com/sandpiper-mcp/sandpiper/internal/home/journal"
	"github.com/sandpiper-mcp/sandpiper/internal/policy"
	"github.com/sandpiper-mcp/sandpiper/internal/store/tenant"
	"github.com/sandpiper-mcp/sandpiper/internal/tool"
	"github.com/sandpiper-mcp/sandpiper/internal/toolcall"
)

var (
	gvisor  = policy.Sandbox{Name: "gvisor", Strength: 2}
	microvm = policy.Sandbox{Name: "microvm", Strength: 3}
)

var shadyInGVisor = policy.Config{Sandboxes: []policy.Sandbox{gvisor}, Default: policy.Allow, Rules: []policy.Rule{
	{Scope: policy.Scope{Server: "shady"}, Sandbox: "gvisor", Reason: "it is sensitive"},
}}

// in returns the caller of code in a sandbox.
func (r *rig) in(t *testing.T, s policy.Sandbox) tool.Caller {
	return r.stack.For(toolcall.Owner{Home: r.home, Gate: open(t), Sandbox: s})
}

func TestCallsNeedTheRequiredSandbox(t *testing.T) {
	r := policyRig(t, shadyInGVisor)
	for _, s := range []policy.Sandbox{{}, policy.Process, gvisor, microvm, policy.NoCode} {
		weak := s == policy.Sandbox{} || s == policy.Process
		_, err := r.in(t, s).Call(t.Context(), call("shady", "look", `{}`))
		if weak != (fault.KindOf(err) == fault.Denied) || !weak && err != nil {
			t.Errorf("in %q: %v", s, err)
		}
		if _, err := r.in(t, s).Call(t.Context(), call("crm", "look", `{}`)); err != nil {
			t.Errorf("in %q, another server: %v", s, err)
		}
	}
	if len(r.calls) != 3+5 {
		t.Errorf("%d calls were made", len(r.calls))
	}
	r.lines = nil
	_, err := r.in(t, policy.Process).Call(t.Context(), call("shady", "look", `{}`))
	if got, want := fault.Message(err), "shady.look was not called: policy requires the sandbox gvisor for code that calls it (rule 1: "+
		"it is sensitive), and this code runs in process"; got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
	if hint := fault.Hint(err); !strings.HasPrefix(hint, "write `from servers import shady` at the top of the code") {
		t.Error(hint)
	}
	want := []audit.Line{
		{Kind: audit.Decision, Tenant: tenant.Local, Execution: "exec_1", Server: "shady", Tool: "look", Decision: "block", Rule: "rule 1"},
		{Kind: audit.ToolCall, Tenant: tenant.Local, Execution: "exec_1", Server: "shady", Tool: "look", Outcome: "refused"},
	}
	if d := cmp.Diff(want, r.lines, cmp.Comparer(func(a, b tenant.ID) bool { return a == b })); d != "" {
		t.Error(d)
	}
	c := call("shady", "look", `{}`)
	c.Session = "s"
	if _, err := r.in(t, policy.Process).Call(t.Context(), c); !strings.HasPrefix(fault.Hint(err),
		"a session keeps its sandbox: use another session_id, and write `from servers import shady`") {
		t.Error(fault.Hint(err))
	}
}

// A dry run adds no call to its plan that the code may not make.
func TestPlannedCallsNeedTheRequiredSandbox(t *testing.T) {
	r, plan := policyRig(t, shadyInGVisor), &toolcall.Plan{}
	for s, planned := range map[policy.Sandbox]int{policy.Process: 0, gvisor: 1} {
		res, err := r.stack.For(toolcall.Owner{Home: r.home, Gate: open(t), Plan: plan, Sandbox: s}).
			Call(t.Context(), call("shady", "drop", `{}`))
		if res.Planned != planned || (err == nil) != (planned == 1) {
			t.Errorf("in %s: planned %d, %v", s, res.Planned, err)
		}
	}
}

func TestRequestsNeedTheRequiredSandbox(t *testing.T) {
	r := policyRig(t, policy.Config{Sandboxes: []policy.Sandbox{gvisor}, Rules: []policy.Rule{
		{Scope: policy.Scope{Tools: []string{"crm.resources/*"}}, When: "!has(args.uri) || args.uri.startsWith('secret:')",
			Sandbox: "gvisor"},
	}})
	for s, weak := range map[policy.Sandbox]bool{policy.Process: true, microvm: false} {
		a := r.stack.Requester(toolcall.Owner{Home: r.home, Sandbox: s}, "exec_1", "")
		for _, tc := range []struct {
			server, tool string
			args         map[string]any
			required     bool
		}{
			{"crm", "resources/read", map[string]any{"uri": "secret:1"}, true},
			{"crm", "resources/read", map[string]any{"uri": "open:1"}, false},
			{"crm", "resources/list", nil, true},
			{"crm", "prompts/list", nil, false},
			{"nobody", "resources/list", nil, false},
		} {
			err := a.CheckSandbox(t.Context(), tool.Ref{Server: tc.server, Tool: tc.tool}, tc.args)
			if (err != nil) != (tc.required && weak) {
				t.Errorf("%s.%s %v in %s: %v", tc.server, tc.tool, tc.args, s, err)
			}
		}
	}
}

// Code that is resumed in a weaker sandbox does not get the answers that it received in a stronger one.
func TestRecordedAnswersNeedTheRequiredSandbox(t *testing.T) {
	c := newRestarts(t)
	rules, err := policy.New(policy.Config{Sandboxes: []policy.Sandbox{gvisor},
		Rules: []policy.Rule{{Scope: policy.Scope{Server: "crm"}, Sandbox: "gvisor"}}})
	if err != nil {
		t.Fatal(err)
	}
	c.stack = toolcall.New(toolcall.Config{Catalog: c.cat, Upstream: c.server, Policy: func() *policy.Policy { return rules }})
	record := c.home.Journal.NewRecord("exec_1", nothing, false)
	in := func(s policy.Sandbox) tool.Caller {
		return c.stack.For(toolcall.Owner{Home: c.home, Gate: open(t), Run: record, Sandbox: s})
	}
	send := call("crm", "send", `{"to": "ann"}`)
	if _, err := in(gvisor).Call(t.Context(), send); err != nil {
		t.Fatal(err)
	}
	c.start(t)
	if record, _, err = c.home.Journal.OpenRecord(t.Context(), "exec_1", func([]byte) bool { return false }); err != nil {
		t.Fatal(err)
	}
	defer record.End(t.Context(), journal.End{})
	if res, err := in(policy.Process).Call(t.Context(), send); fault.KindOf(err) != fault.Denied || len(res.Parts) > 0 {
		t.Errorf("in process: %+v, %v", res, err)
	}
	if res, err := in(gvisor).Call(t.Context(), send); err != nil || res.Text() != `{"id": 5}` || len(c.calls) > 0 {
		t.Errorf("in gvisor: %+v, %v, %d calls", res, err, len(c.calls))
	}
}

// A rule counts for code that began before it was added, and for code that began before it was removed.
func TestReplacedPolicyRequiresSandbox(t *testing.T) {
	r, none := policyRig(t, policy.Config{}), policy.Default()
	rules, err := policy.New(shadyInGVisor)
	if err != nil {
		t.Fatal(err)
	}
	for _, order := range [][]*policy.Policy{{none, rules}, {rules, none}} {
		now := order[0]
		r.stack = toolcall.New(toolcall.Config{Catalog: r.cat, Upstream: r.server, Policy: func() *policy.Policy { return now }})
		running := r.in(t, policy.Process)
		now = order[1]
		if _, err := running.Call(t.Context(), call("shady", "look", `{}`)); fault.KindOf(err) != fault.Denied {
			t.Error(err)
		}
	}
}
