package policy_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/sandpiper-mcp/sandpiper/internal/policy"
)

func tools(names ...string) policy.Scope { return policy.Scope{Tools: names} }

func TestFindings(t *testing.T) {
	servers := []string{"crm", "mail", "git.hub"}
	const nothing = "can never match: it names none of the configured servers (crm, mail, git.hub)"
	const before = "can never match: all calls that it applies to are decided before it, by rule 1"
	for _, tc := range []struct {
		name  string
		rules []policy.Rule
		want  string // of the last rule
	}{
		{name: "no finding", rules: []policy.Rule{{Scope: tools("crm.get_*")}, {Scope: tools("crm.*")}, {Scope: tools("*")}}},
		{name: "a literal after its server", rules: []policy.Rule{{Scope: policy.Scope{Server: "crm"}}, {Scope: tools("crm.get")}},
			want: before},
		{name: "a pattern after its server", rules: []policy.Rule{{Scope: policy.Scope{Server: "c*"}},
			{Scope: tools("crm.get_*", "crm.list_*")}}, want: before},
		{name: "a narrower pattern", rules: []policy.Rule{{Scope: tools("*.delete_*")}, {Scope: tools("mail.delete_all*")}}, want: before},
		{name: "a wider pattern", rules: []policy.Rule{{Scope: tools("mail.delete_all*")}, {Scope: tools("*.delete_*")}}},
		{name: "a server after its pattern", rules: []policy.Rule{{Scope: tools("crm.*")}, {Scope: policy.Scope{Server: "crm"}}},
			want: before},
		{name: "after a rule for all calls", rules: []policy.Rule{{}, {When: "tool.destructive"}}, want: before},
		{name: "after a condition", rules: []policy.Rule{{When: "tool.destructive"}, {Scope: tools("crm.get")}}},
		{name: "after a rule for one of two tools", rules: []policy.Rule{{Scope: tools("crm.*")}, {Scope: tools("crm.get", "mail.send")}}},
		{name: "after rules for both tools", rules: []policy.Rule{{Scope: tools("crm.*")}, {Scope: tools("mail.s*")},
			{Scope: tools("crm.get", "mail.send")}}, want: "can never match: all calls that it applies to are decided before it, by rule " +
			"1, rule 2"},
		{name: "after a rule of one tenant", rules: []policy.Rule{{Scope: policy.Scope{Tenants: []string{"acme"}}},
			{Scope: tools("crm.get")}}},
		{name: "after a pattern of both tenants", rules: []policy.Rule{{Scope: policy.Scope{Tenants: []string{"ac*"}}},
			{Scope: policy.Scope{Tenants: []string{"acme", "acorn"}}}}, want: before},
		{name: "after a rule of one of two tenants", rules: []policy.Rule{{Scope: policy.Scope{Tenants: []string{"acme"}}},
			{Scope: policy.Scope{Tenants: []string{"acme", "ops"}}}}},
		{name: "an unknown server", rules: []policy.Rule{{Scope: policy.Scope{Server: "crn"}}}, want: nothing},
		{name: "tools of unknown servers", rules: []policy.Rule{{Scope: tools("delete_*", "cr.*")}}, want: nothing},
		{name: "a tool of the wrong server", rules: []policy.Rule{{Scope: policy.Scope{Server: "mail", Tools: []string{"crm.*"}}}},
			want: nothing},
		{name: "a condition on an unknown server", rules: []policy.Rule{{When: "tool.server == 'hr' && tool.destructive"}}, want: nothing},
		{name: "a condition on a server", rules: []policy.Rule{{When: "'crm' == tool.server && tool.destructive"}}},
		{name: "a server with a dot", rules: []policy.Rule{{Scope: tools("git.hub.list*")}}},
		{name: "half of a server with a dot", rules: []policy.Rule{{Scope: tools("git.*")}}},
		{name: "a false condition", rules: []policy.Rule{{When: "tool.destructive && 1 > 2"}},
			want: "can never match: its condition is false for every call"},
		{name: "unknown tools", rules: []policy.Rule{{Scope: tools("crm.delete_*")}}, want: "matches no current tool of crm"},
		{name: "tools of a server that is not connected", rules: []policy.Rule{{Scope: tools("mail.delete_*")}}},
		{name: "an argument that most calls lack", rules: []policy.Rule{{When: "args.path.startsWith('/etc')"}},
			want: "applies to all tools, and counts as matching for each call without an argument that its condition reads; name tools, " +
				"or write has(args.x) && … before"},
		{name: "an argument with has()", rules: []policy.Rule{{When: "has(args.path) && args.path.startsWith('/etc')"}}},
		{name: "an argument of a tool", rules: []policy.Rule{{When: "tool.name == 'get' && args.path.startsWith('/etc')"}}},
		{name: "elements of an argument", rules: []policy.Rule{{When: "has(args.l) && args.l.exists(x, x == 1)"}}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			for i := range tc.rules {
				tc.rules[i].Decision = policy.Block
			}
			got := open(t, policy.Config{Rules: tc.rules}).Findings(policy.Inventory{Servers: servers,
				Tools: map[string][]string{"crm": {"get_contact", "get", "list_all"}}})
			var want []policy.Finding
			if tc.want != "" {
				want = []policy.Finding{{Rule: "rule " + string(rune('0'+len(tc.rules))), Text: tc.want}}
			}
			if d := cmp.Diff(want, got); d != "" {
				t.Error(d)
			}
		})
	}
	p := open(t, policy.Config{Rules: []policy.Rule{{Scope: tools("hr.*"), Decision: policy.Ask}},
		Budgets: []policy.Budget{{Name: "b", Scope: tools("hr.*"), Calls: 1, Per: policy.Day, At: "f line 2"}}})
	if got := p.Findings(policy.Inventory{}); got != nil {
		t.Error("findings without an inventory:", got)
	}
	got := p.Findings(policy.Inventory{Servers: servers})
	if len(got) != 2 || !strings.HasPrefix(got[1].String(), "f line 2: b of the policy can never match: ") {
		t.Error(got)
	}
}

func TestExplain(t *testing.T) {
	p := open(t, policy.Config{
		Rules: []policy.Rule{
			{Scope: policy.Scope{Server: "mail"}, Decision: policy.Block, At: "f line 1"},
			{Scope: tools("*.get"), Decision: policy.Block},
			{Scope: policy.Scope{Tenants: []string{"acme"}}, Decision: policy.Block},
			{When: "tool.destructive", Decision: policy.Block},
			{When: "args.n > 3", Decision: policy.Block},
			{Name: "gone", When: "args.gone == 1", Decision: policy.Ask},
			{Name: "sends", Scope: tools("crm.send"), Decision: policy.Allow, Reason: "it is harmless"},
			{Decision: policy.Block},
		},
		Budgets: []policy.Budget{{Calls: 2, Per: policy.Hour}, {Scope: tools("mail.*"), Calls: 2, Per: policy.Hour},
			{Name: "each", Calls: 5, Per: policy.Execution, At: "f line 9"}},
	})
	c := call("crm", "send", `{"n": 3}`)
	got, err := p.Explain(t.Context(), c)
	want := policy.Explanation{
		Decision: policy.Decision{Verdict: policy.Ask, Rule: "gone",
			Reason: "its condition cannot be decided for these arguments, so the call is treated as if it held"},
		Rules: []policy.RuleResult{
			{Rule: "rule 1", At: "f line 1", Decision: policy.Block, Fits: "no", Why: "it applies to other servers"},
			{Rule: "rule 2", Decision: policy.Block, Fits: "no", Why: "it applies to other tools"},
			{Rule: "rule 3", Decision: policy.Block, Fits: "no", Why: "it applies to other tenants"},
			{Rule: "rule 4", Decision: policy.Block, Fits: "no", Why: "its condition is false"},
			{Rule: "rule 5", Decision: policy.Block, Fits: "no", Why: "its condition is false"},
			{Rule: "gone", Decision: policy.Ask, Fits: "unsure", Why: "its condition has no answer: no such key: gone"},
			{Rule: "sends", Decision: policy.Allow, Fits: "yes"},
		},
		Budgets: []policy.BudgetState{{Budget: "budget 1", Calls: 2, Per: policy.Hour, Left: 2},
			{Budget: "each", At: "f line 9", Calls: 5, Per: policy.Execution, Left: 5}},
	}
	if d := cmp.Diff(want, got); err != nil || d != "" {
		t.Error(err, d)
	}
	if d, err := p.Decide(t.Context(), c); err != nil || d != got.Decision {
		t.Errorf("decided %+v, %v", d, err)
	}
	if _, err := p.Explain(t.Context(), call("crm", "send", `[]`)); err == nil {
		t.Error("explained a call with invalid arguments")
	}
}
