package policy_test

import (
	"testing"

	"github.com/sandpiper-mcp/sandpiper/internal/policy"
)

// rule returns a rule for a pattern of tools.
func rule(tools string, v policy.Verdict) policy.Rule {
	return policy.Rule{Scope: policy.Scope{Tools: []string{tools}}, Decision: v}
}

func TestProjectOnlyMakesPolicyStricter(t *testing.T) {
	for _, tc := range []struct {
		name          string
		user, project policy.Config
		want          string
	}{
		{"allow does not override ask", policy.Config{Rules: []policy.Rule{rule("crm.*", policy.Ask)}},
			policy.Config{Rules: []policy.Rule{rule("*.*", policy.Allow)}}, "ask"},
		{"ask does not override block", policy.Config{Rules: []policy.Rule{rule("crm.*", policy.Block)}},
			policy.Config{Rules: []policy.Rule{rule("crm.*", policy.Ask)}}, "block"},
		{"block overrides allow", policy.Config{Rules: []policy.Rule{rule("crm.*", policy.Allow)}},
			policy.Config{Rules: []policy.Rule{rule("crm.*", policy.Block)}}, "block"},
		{"its default does not override that of the user", policy.Config{Default: policy.Block}, policy.Config{Default: policy.Allow},
			"block"},
		{"its default applies", policy.Config{Default: policy.Allow}, policy.Config{Default: policy.Ask}, "ask"},
		{"without a default it does not apply to other tools", policy.Config{Default: policy.Allow},
			policy.Config{Rules: []policy.Rule{rule("a.b", policy.Block)}}, "allow"},
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

func TestBudgetsOfProjectAndUserBothApply(t *testing.T) {
	budget := func(n int) policy.Config {
		return policy.Config{Default: policy.Allow, Budgets: []policy.Budget{{Name: "mail", Calls: n, Per: policy.Execution}}}
	}
	for _, n := range [][2]int{{2, 5}, {5, 2}} {
		cfg, project := budget(n[0]), budget(n[1])
		cfg.Project = &project
		if got := countAllowed(t, open(t, cfg), withTenant(t, call("crm", "send", "{}"), "acme", "exec_1"), 9); got != 2 {
			t.Errorf("budgets of %v calls allowed %d, want 2", n, got)
		}
	}
}

func TestLabelOfProjectRule(t *testing.T) {
	p := open(t, policy.Config{Rules: []policy.Rule{rule("a.b", policy.Ask)},
		Project: &policy.Config{Rules: []policy.Rule{rule("crm.*", policy.Block)}}})
	if d, err := p.Decide(t.Context(), call("crm", "x", "{}")); err != nil || d.Rule != "project rule 1" {
		t.Errorf("%+v, %v", d, err)
	}
	if _, err := policy.New(policy.Config{Rules: []policy.Rule{{Name: "project rule 1", Decision: policy.Block}}}); err == nil {
		t.Error("accepted a rule of the user with the label of a project's rule")
	}
}
