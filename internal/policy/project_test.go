package policy_test

import (
	"testing"

	"github.com/sandpiper-mcp/sandpiper/internal/policy"
)

// rule returns a rule about tools.
func rule(tools string, v policy.Verdict) policy.Rule {
	return policy.Rule{Scope: policy.Scope{Tools: []string{tools}}, Decision: v}
}

func TestAProjectMakesAPolicyStricterOnly(t *testing.T) {
	for _, tc := range []struct {
		name          string
		user, project policy.Config
		want          string
	}{
		{"allow does not lift ask", policy.Config{Rules: []policy.Rule{rule("crm.*", policy.Ask)}}, policy.Config{Rules: []policy.Rule{rule("*.*", policy.Allow)}}, "ask"},
		{"ask does not lift block", policy.Config{Rules: []policy.Rule{rule("crm.*", policy.Block)}}, policy.Config{Rules: []policy.Rule{rule("crm.*", policy.Ask)}}, "block"},
		{"block lifts allow", policy.Config{Rules: []policy.Rule{rule("crm.*", policy.Allow)}}, policy.Config{Rules: []policy.Rule{rule("crm.*", policy.Block)}}, "block"},
		{"its default does not lift ours", policy.Config{Default: policy.Block}, policy.Config{Default: policy.Allow}, "block"},
		{"its default holds too", policy.Config{Default: policy.Allow}, policy.Config{Default: policy.Ask}, "ask"},
		{"without a default it says nothing of other tools", policy.Config{Default: policy.Allow}, policy.Config{Rules: []policy.Rule{rule("a.b", policy.Block)}}, "allow"},
	} {
		tc.user.Project = &tc.project
		p := open(t, tc.user)
		c := call("crm", "delete", "{}")
		c.Hints.Destructive = mark(true)
		d, err := p.Decide(t.Context(), c)
		if err != nil || string(d.Verdict) != tc.want {
			t.Errorf("%s: %+v, %v", tc.name, d, err)
		}
		if e, err := p.Explain(t.Context(), c); err != nil || e.Decision != d {
			t.Errorf("%s: explained as %+v, %v; decided as %+v", tc.name, e.Decision, err, d)
		}
	}
}

func TestBothBudgetsOfAProjectAndOfTheUserHold(t *testing.T) {
	budget := func(n int) policy.Config {
		return policy.Config{Default: policy.Allow, Budgets: []policy.Budget{{Name: "mail", Calls: n, Per: policy.Execution}}}
	}
	for _, n := range [][2]int{{2, 5}, {5, 2}} {
		cfg, project := budget(n[0]), budget(n[1])
		cfg.Project = &project
		if got := made(t, open(t, cfg), of(t, call("crm", "send", "{}"), "acme", "exec_1"), 9); got != 2 {
			t.Errorf("budgets of %v calls let %d pass, want 2", n, got)
		}
	}
}

func TestTheNameOfAProjectsRuleSaysSo(t *testing.T) {
	p := open(t, policy.Config{Rules: []policy.Rule{rule("a.b", policy.Ask)}, Project: &policy.Config{Rules: []policy.Rule{rule("crm.*", policy.Block)}}})
	if d, err := p.Decide(t.Context(), call("crm", "x", "{}")); err != nil || d.Rule != "project rule 1" {
		t.Errorf("%+v, %v", d, err)
	}
	if _, err := policy.New(policy.Config{Rules: []policy.Rule{{Name: "project rule 1", Decision: policy.Block}}}); err == nil {
		t.Error("a rule of the user may have the name of one of a project")
	}
}
