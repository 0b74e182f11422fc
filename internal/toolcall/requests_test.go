package toolcall_test

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/sandpiper-mcp/sandpiper/internal/audit"
	"github.com/sandpiper-mcp/sandpiper/internal/fault"
	"github.com/sandpiper-mcp/sandpiper/internal/policy"
	"github.com/sandpiper-mcp/sandpiper/internal/store/tenant"
	"github.com/sandpiper-mcp/sandpiper/internal/tool"
	"github.com/sandpiper-mcp/sandpiper/internal/tool/catalog"
	"github.com/sandpiper-mcp/sandpiper/internal/toolcall"
)

// requesterRig is a rig under a policy, and the Requester of its code.
func requesterRig(t *testing.T, cfg policy.Config) (*rig, *toolcall.Requester) {
	t.Helper()
	r := policyRig(t, cfg)
	return r, r.stack.Requester(toolcall.Owner{Home: r.home, Gate: open(t)}, "exec_1", "s1")
}

// read reads a resource of a server, and reports whether the server was contacted.
func read(t *testing.T, a *toolcall.Requester, server, uri string) (asked bool, err error) {
	t.Helper()
	err = a.Resource(t.Context(), server, uri, func(string) error { asked = true; return nil })
	return asked, err
}

func TestPolicyAppliesToResourcesAndPrompts(t *testing.T) {
	r, a := requesterRig(t, policy.Config{Default: policy.Block, Rules: []policy.Rule{
		{Scope: policy.Scope{Tools: []string{"crm.resources/read"}}, When: "args.uri.startsWith('notes://')", Decision: policy.Allow},
		{Scope: policy.Scope{Tools: []string{"*.prompts/get"}}, When: "args.name == 'greet' && args.arguments.to == 'all'",
			Decision: policy.Ask},
		{When: "tool.read_only", Decision: policy.Allow},
	}})
	if asked, err := read(t, a, "crm", "notes://1"); !asked || err != nil {
		t.Error(asked, err)
	}
	if asked, err := read(t, a, "crm", "else://1"); !asked || err != nil {
		t.Error("it is read-only, and its server trusted:", asked, err)
	}
	for server, kind := range map[string]fault.Kind{"shady": fault.Denied, "nobody": fault.NotFound} {
		if asked, err := read(t, a, server, "notes://canary"); asked || fault.KindOf(err) != kind || strings.Contains(err.Error(),
			"canary") {
			t.Errorf("%s: %t %v", server, asked, err)
		}
	}
	asked := false
	err := a.Prompt(t.Context(), "crm", "greet", map[string]string{"to": "all"}, func(map[string]string) error { asked = true; return nil })
	if asked || fault.KindOf(err) != fault.Denied || !strings.Contains(fault.Message(err), "policy requires approval (rule 2)") {
		t.Error(asked, err)
	}
	want := []audit.Line{
		{Kind: audit.ToolCall, Server: "crm", Tool: "resources/read", Outcome: "answered"},
		{Kind: audit.ToolCall, Server: "crm", Tool: "resources/read", Outcome: "answered"},
		{Kind: audit.Decision, Server: "shady", Tool: "resources/read", Decision: "block", Rule: "default"},
		{Kind: audit.ToolCall, Server: "shady", Tool: "resources/read", Outcome: "refused"},
		{Kind: audit.Decision, Server: "crm", Tool: "prompts/get", Decision: "ask", Rule: "rule 2"},
		{Kind: audit.ToolCall, Server: "crm", Tool: "prompts/get", Outcome: "refused"},
	}
	for i := range want {
		want[i].Tenant, want[i].Execution, want[i].Session = r.home.ID(), "exec_1", "s1"
	}
	for i := range r.lines {
		r.lines[i].Duration = 0
	}
	if diff := cmp.Diff(want, r.lines, cmp.Comparer(func(a, b tenant.ID) bool { return a == b })); diff != "" {
		t.Error(diff)
	}
}

func TestBudgetsCountResourcesAsCalls(t *testing.T) {
	_, a := requesterRig(t, policy.Config{Budgets: []policy.Budget{{Scope: policy.Scope{Tools: []string{"crm.*"}}, Calls: 2,
		Per: policy.Execution}}})
	for i := range 4 {
		if asked, err := read(t, a, "crm", "notes://1"); asked != (i < 2) || (err == nil) != asked {
			t.Errorf("read %d: %t %v", i, asked, err)
		}
	}
	if asked, err := read(t, a, "shady", "notes://1"); !asked || err != nil {
		t.Error("another server:", err)
	}
}

func TestDryRunContactsOnlyTrustedServers(t *testing.T) {
	r, a := requesterRig(t, policy.Config{})
	a.Dry = true
	if asked, err := read(t, a, "crm", "notes://1"); !asked || err != nil {
		t.Error("a trusted server:", asked, err)
	}
	asked, err := read(t, a, "shady", "notes://1")
	if asked || fault.KindOf(err) != fault.Denied || fault.Hint(err) == "" {
		t.Error("a resource of another server:", asked, err)
	}
	err = a.Prompt(t.Context(), "shady", "greet", nil, func(map[string]string) error { asked = true; return nil })
	if asked || fault.KindOf(err) != fault.Denied {
		t.Error("a prompt of another server:", asked, err)
	}
	if got := r.lines[len(r.lines)-1].Outcome; got != "refused" {
		t.Errorf("outcome %q", got)
	}
}

func TestAuditLinesOfResourceReadsAreBounded(t *testing.T) {
	r, a := requesterRig(t, policy.Config{})
	for range 1500 {
		if _, err := read(t, a, "crm", "notes://1"); err != nil {
			t.Fatal(err)
		}
	}
	if len(r.lines) != 1000 {
		t.Errorf("%d lines", len(r.lines))
	}
}

func TestFailedReadReturnsServerError(t *testing.T) {
	r, a := requesterRig(t, policy.Config{})
	broken := errors.New("broken")
	if err := a.Resource(t.Context(), "crm", "notes://1", func(string) error { return broken }); !errors.Is(err, broken) {
		t.Error(err)
	}
	if got := r.lines[len(r.lines)-1].Outcome; got != "failed" { // a read has no effect
		t.Errorf("outcome %q", got)
	}
}

func TestFindReturnsResourcesAndPrompts(t *testing.T) {
	r, _ := requesterRig(t, policy.Config{})
	if _, err := r.cat.Put(t.Context(), "crm", catalog.Listing{Resources: true,
		Tools: []tool.Definition{{Ref: tool.Ref{Server: "crm", Tool: "look"}, Input: json.RawMessage(`true`)}}}); err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]bool{"look": true, "resources/read": true, "prompts/get": false, "resources/list": false} {
		if _, ok := toolcall.Find(r.cat.Now(), tool.Ref{Server: "crm", Tool: name}); ok != want {
			t.Errorf("%s: %t", name, ok)
		}
	}
	if _, ok := toolcall.Find(r.cat.Now(), tool.Ref{Server: "shady", Tool: "resources/read"}); ok {
		t.Error("shady has no resources")
	}
}
