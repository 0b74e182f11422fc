package toolcall_test

import (
	"encoding/json"
	"path/filepath"
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

// policyRig is a rig under a policy, with two servers that have the same tools. Only crm is trusted.
func policyRig(t *testing.T, cfg policy.Config) *rig {
	t.Helper()
	rules, err := policy.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	r := newRig(t)
	r.cat, err = catalog.Open(catalog.Config{Dir: filepath.Join(t.TempDir(), "catalog"),
		Servers: []catalog.Configured{{Name: "crm", Trusted: true}, {Name: "shady"}}})
	if err != nil {
		t.Fatal(err)
	}
	yes := true
	for _, server := range []string{"crm", "shady"} {
		_, err := r.cat.Put(t.Context(), server, catalog.Listing{Tools: []tool.Definition{
			{Ref: tool.Ref{Server: server, Tool: "look"}, Input: json.RawMessage(`true`),
				Hints: tool.Hints{ReadOnly: &yes, Idempotent: &yes}},
			{Ref: tool.Ref{Server: server, Tool: "drop"}, Input: json.RawMessage(`true`), Hints: tool.Hints{Destructive: &yes}},
		}})
		if err != nil {
			t.Fatal(err)
		}
	}
	r.stack = toolcall.New(toolcall.Config{Catalog: r.cat, Upstream: r.server, Policy: func() *policy.Policy { return rules },
		Audit: func(l audit.Line) { r.lines = append(r.lines, l) }})
	r.Caller = r.stack.For(toolcall.Owner{Home: r.home, Gate: open(t)})
	return r
}

func TestReadOnlyHintOfUntrustedServerIsIgnored(t *testing.T) {
	r := policyRig(t, policy.Config{Default: policy.Block, Rules: []policy.Rule{{When: "tool.read_only || tool.idempotent",
		Decision: policy.Allow}}})
	if _, err := r.Caller.Call(t.Context(), call("crm", "look", `{}`)); err != nil {
		t.Error(err)
	}
	if _, err := r.Caller.Call(t.Context(), call("shady", "look", `{}`)); fault.KindOf(err) != fault.Denied {
		t.Errorf("it was believed: %v", err)
	}
	r = policyRig(t, policy.Config{})
	if _, err := r.Caller.Call(t.Context(), call("shady", "look", `{}`)); err != nil {
		t.Error(err)
	}
	entries, err := r.home.Journal.List(t.Context(), 10)
	if err != nil || len(entries) != 1 || entries[0].Ref.Tool != "look" {
		t.Errorf("a call of an unmarked tool must be recorded: %+v, %v", entries, err)
	}
	for _, server := range []string{"crm", "shady"} { // a destructive hint counts even if the server is not trusted
		if _, err := r.Caller.Call(t.Context(), call(server, "drop", `{}`)); fault.KindOf(err) != fault.Denied {
			t.Errorf("%s.drop: %v", server, err)
		}
	}
}

func TestBlockedCallReportsRule(t *testing.T) {
	r := policyRig(t, policy.Config{
		Rules: []policy.Rule{{Name: "large", Scope: policy.Scope{Tools: []string{"crm.*"}}, When: "args.n > 3", Decision: policy.Block,
			Reason: "at most three"}},
		Budgets: []policy.Budget{{Calls: 2, Per: policy.Execution}},
	})
	for range 5 {
		_, err := r.Caller.Call(t.Context(), call("crm", "look", `{"n": 4}`))
		if fault.KindOf(err) != fault.Denied || fault.Message(err) != "crm.look was not called: policy says block (large: at most three)" ||
			!strings.Contains(fault.Hint(err), "continue without it") {
			t.Fatal(err)
		}
	}
	want := audit.Line{
		Kind:      audit.Decision,
		Tenant:    tenant.Local,
		Execution: "exec_1",
		Server:    "crm",
		Tool:      "look",
		Decision:  "block",
		Rule:      "large",
	}
	if d := cmp.Diff(want, r.lines[0], cmp.Comparer(func(a, b tenant.ID) bool { return a == b })); d != "" {
		t.Error(d)
	}
	for _, want := range []string{"", "", "crm.look was not called: policy says block (budget 1: its 2 calls in this execution are " +
		"used up)"} {
		_, err := r.Caller.Call(t.Context(), call("crm", "look", `{"n": 3}`))
		if got := fault.Message(err); err != nil && got != want || err == nil && want != "" {
			t.Errorf("%v, want %q", err, want)
		}
	}
	if len(r.calls) != 2 {
		t.Errorf("%d calls were made", len(r.calls))
	}
}
