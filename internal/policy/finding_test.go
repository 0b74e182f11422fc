package policy_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/sandpiper-mcp/sandpiper/internal/policy"
)

func tools(names ...string) policy.Scope { return policy.Scope{Tools: names} }

func TestWhatCanNeverMatchIsSaid(t *testing.T) {
	servers := []string{"crm", "mail", "git.hub"}
	const nothing = "can never match: it is about no server that is configured (crm, mail, git.hub)"
	const before = "can never match: rule 1 before it decides all that it is about"
	for _, tc := range []struct {
		name  string
		rules []policy.Rule
		want  string // of the last rule
	}{
		{name: "all is well", rules: []policy.Rule{{Scope: tools("crm.get_*")}, {Scope: tools("crm.*")}, {Scope: tools("*")}}},
		{name: "a literal behind its server", rules: []policy.Rule{{Scope: policy.Scope{Server: "crm"}}, {Scope: tools("crm.get")}}, want: before},
		{name: "a pattern behind its server", rules: []policy.Rule{{Scope: policy.Scope{Server: "c*"}}, {Scope: tools("crm.get_*", "crm.list_*")}}, want: before},
		{name: "a narrower pattern", rules: []policy.Rule{{Scope: tools("*.delete_*")}, {Scope: tools("mail.delete_all*")}}, want: before},
		{name: "a wider pattern", rules: []policy.Rule{{Scope: tools("mail.delete_all*")}, {Scope: tools("*.delete_*")}}},
		{name: "a server behind its pattern", rules: []policy.Rule{{Scope: tools("crm.*")}, {Scope: policy.Scope{Server: "crm"}}}, want: before},
		{name: "behind everything", rules: []policy.Rule{{}, {When: "tool.destructive"}}, want: before},
		{name: "behind a condition", rules: []policy.Rule{{When: "tool.destructive"}, {Scope: tools("crm.get")}}},
		{name: "behind one of two", rules: []policy.Rule{{Scope: tools("crm.*")}, {Scope: tools("crm.get", "mail.send")}}},
		{name: "behind both", rules: []policy.Rule{{Scope: tools("crm.*")}, {Scope: tools("mail.s*")}, {Scope: tools("crm.get", "mail.send")}}, want: "can never match: rule 1, rule 2 before it decides all that it is about"},
		{name: "behind that of another tenant", rules: []policy.Rule{{Scope: policy.Scope{Tenants: []string{"acme"}}}, {Scope: tools("crm.get")}}},
		{name: "behind that of the tenant", rules: []policy.Rule{{Scope: policy.Scope{Tenants: []string{"ac*"}}}, {Scope: policy.Scope{Tenants: []string{"acme", "acorn"}}}}, want: before},
		{name: "behind that of one tenant", rules: []policy.Rule{{Scope: policy.Scope{Tenants: []string{"acme"}}}, {Scope: policy.Scope{Tenants: []string{"acme", "ops"}}}}},
		{name: "a server that there is not", rules: []policy.Rule{{Scope: policy.Scope{Server: "crn"}}}, want: nothing},
		{name: "tools of servers that there are not", rules: []policy.Rule{{Scope: tools("delete_*", "cr.*")}}, want: nothing},
		{name: "a tool of the wrong server", rules: []policy.Rule{{Scope: policy.Scope{Server: "mail", Tools: []string{"crm.*"}}}}, want: nothing},
		{name: "a condition on a server that there is not", rules: []policy.Rule{{When: "tool.server == 'hr' && tool.destructive"}}, want: nothing},
		{name: "a condition on a server", rules: []policy.Rule{{When: "'crm' == tool.server && tool.destructive"}}},
		{name: "a server with a dot", rules: []policy.Rule{{Scope: tools("git.hub.list*")}}},
		{name: "half of a server with a dot", rules: []policy.Rule{{Scope: tools("git.*")}}},
		{name: "a false condition", rules: []policy.Rule{{When: "tool.destructive && 1 > 2"}}, want: "can never match: its condition is false, whatever the call is"},
		{name: "tools that there are not", rules: []policy.Rule{{Scope: tools("crm.delete_*")}}, want: "matches no tool that crm have now"},
		{name: "tools that are not known", rules: []policy.Rule{{Scope: tools("mail.delete_*")}}},
		{name: "arguments that most lack", rules: []policy.Rule{{When: "args.path.startsWith('/etc')"}}, want: "is about all tools, and holds for each that lacks an argument its condition looks at; name tools, or write has(args.x) && … before"},
		{name: "arguments that may lack", rules: []policy.Rule{{When: "has(args.path) && args.path.startsWith('/etc')"}}},
		{name: "arguments of a tool", rules: []policy.Rule{{When: "tool.name == 'get' && args.path.startsWith('/etc')"}}},
		{name: "elements of arguments", rules: []policy.Rule{{When: "has(args.l) && args.l.exists(x, x == 1)"}}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			for i := range tc.rules {
				tc.rules[i].Decision = policy.Block
			}
			got := open(t, policy.Config{Rules: tc.rules}).Findings(policy.Known{Servers: servers, Tools: map[string][]string{"crm": {"get_contact", "get", "list_all"}}})
			var want []policy.Finding
			if tc.want != "" {
				want = []policy.Finding{{Rule: "rule " + string(rune('0'+len(tc.rules))), Text: tc.want}}
			}
			if d := cmp.Diff(want, got); d != "" {
				t.Error(d)
			}
		})
	}
	p := open(t, policy.Config{Rules: []policy.Rule{{Scope: tools("hr.*"), Decision: policy.Ask}}, Budgets: []policy.Budget{{Name: "b", Scope: tools("hr.*"), Calls: 1, Per: policy.Day, At: "f line 2"}}})
	if got := p.Findings(policy.Known{}); got != nil {
		t.Error("nothing is configured, and yet", got)
	}
	got := p.Findings(policy.Known{Servers: servers})
	if len(got) != 2 || !strings.HasPrefix(got[1].String(), "f line 2: b of the policy can never match: ") {
		t.Error(got)
	}
}

func TestAnExplanationSaysHowADecisionCameAbout(t *testing.T) {
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
		Budgets: []policy.Budget{{Calls: 2, Per: policy.Hour}, {Scope: tools("mail.*"), Calls: 2, Per: policy.Hour}, {Name: "each", Calls: 5, Per: policy.Execution, At: "f line 9"}},
	})
	c := call("crm", "send", `{"n": 3}`)
	got, err := p.Explain(t.Context(), c)
	want := policy.Explanation{
		Decision: policy.Decision{Verdict: policy.Ask, Rule: "gone", Reason: "its condition cannot be decided for these arguments, so the call is treated as if it held"},
		Looked: []policy.Look{
			{Rule: "rule 1", At: "f line 1", Decision: policy.Block, Fits: "no", Why: "it is about other servers"},
			{Rule: "rule 2", Decision: policy.Block, Fits: "no", Why: "it is about other tools"},
			{Rule: "rule 3", Decision: policy.Block, Fits: "no", Why: "it is about other tenants"},
			{Rule: "rule 4", Decision: policy.Block, Fits: "no", Why: "its condition is false"},
			{Rule: "rule 5", Decision: policy.Block, Fits: "no", Why: "its condition is false"},
			{Rule: "gone", Decision: policy.Ask, Fits: "unsure", Why: "its condition has no answer: no such key: gone"},
			{Rule: "sends", Decision: policy.Allow, Fits: "yes"},
		},
		Budgets: []policy.Left{{Budget: "budget 1", Calls: 2, Per: policy.Hour, Left: 2}, {Budget: "each", At: "f line 9", Calls: 5, Per: policy.Execution, Left: 5}},
	}
	if d := cmp.Diff(want, got); err != nil || d != "" {
		t.Error(err, d)
	}
	if d, err := p.Decide(t.Context(), c); err != nil || d != got.Decision {
		t.Errorf("decided %+v, %v", d, err)
	}
	if _, err := p.Explain(t.Context(), call("crm", "send", `[]`)); err == nil {
		t.Error("arguments that are none are explained")
	}
}
