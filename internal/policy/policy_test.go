package policy_test

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/sandpiper-mcp/sandpiper/internal/fault"
	"github.com/sandpiper-mcp/sandpiper/internal/policy"
	"github.com/sandpiper-mcp/sandpiper/internal/store/tenant"
	"github.com/sandpiper-mcp/sandpiper/internal/tool"
)

func open(t testing.TB, cfg policy.Config) *policy.Policy {
	t.Helper()
	p, err := policy.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// call returns a call of a tool without annotations.
func call(server, name, args string) policy.Call {
	return policy.Call{Ref: tool.Ref{Server: server, Tool: name}, Tenant: tenant.Local, Execution: "exec_1", Args: json.RawMessage(args)}
}

func decide(t testing.TB, p *policy.Policy, c policy.Call) string {
	t.Helper()
	d, err := p.Decide(t.Context(), c)
	if err != nil {
		return "error: " + fault.Message(err)
	}
	return string(d.Verdict) + " " + d.Rule
}

func mark(b bool) *bool { return &b }

func TestDefaultAsksForDestructiveTools(t *testing.T) {
	for _, tc := range []struct {
		hints tool.Hints
		def   policy.Verdict
		want  string
	}{
		{want: "allow default"},
		{hints: tool.Hints{ReadOnly: mark(true)}, want: "allow default"},
		{hints: tool.Hints{ReadOnly: mark(false), Destructive: mark(false)}, want: "allow default"},
		{hints: tool.Hints{Destructive: mark(true)}, want: "ask default"},
		{hints: tool.Hints{Destructive: mark(true), ReadOnly: mark(true)}, want: "ask default"},
		{hints: tool.Hints{Destructive: mark(true)}, def: policy.Allow, want: "allow default"},
		{def: policy.Ask, want: "ask default"},
		{hints: tool.Hints{ReadOnly: mark(true)}, def: policy.Block, want: "block default"},
	} {
		c := call("crm", "drop", `{}`)
		c.Hints = tc.hints
		if got := decide(t, open(t, policy.Config{Default: tc.def}), c); got != tc.want {
			t.Errorf("%+v with default %q: %s, want %s", tc.hints, tc.def, got, tc.want)
		}
	}
	if got := decide(t, policy.Default(), call("a", "b", "")); got != "allow default" {
		t.Error(got)
	}
}

func TestFirstMatchingRuleDecides(t *testing.T) {
	acme, err := tenant.Parse("acme")
	if err != nil {
		t.Fatal(err)
	}
	p := open(t, policy.Config{Rules: []policy.Rule{
		{Scope: policy.Scope{Tools: []string{"crm.get_*", "crm.list_*"}}, Decision: policy.Allow},
		{Name: "no deletes", Scope: policy.Scope{Tools: []string{"*.delete_*"}}, Decision: policy.Block, Reason: "nothing is deleted here"},
		{Scope: policy.Scope{Server: "mail", Tenants: []string{"ac*", "ops"}}, Decision: policy.Ask},
		{Scope: policy.Scope{Tools: []string{"m*.*"}, Server: "mail"}, Decision: policy.Block},
		{When: "tool.destructive && tenant != 'acme'", Decision: policy.Ask},
		{When: "tool.server == 'pay' && args.amount > 1000", Decision: policy.Block},
		{Scope: policy.Scope{Server: "git.hub"}, Decision: policy.Block},
	}})
	for _, tc := range []struct {
		server, tool, args string
		tenant             tenant.ID
		hints              tool.Hints
		want               string
	}{
		{server: "crm", tool: "get_delete_log", want: "allow rule 1"},
		{server: "crm", tool: "delete_contact", want: "block no deletes"},
		{server: "crm", tool: "undelete_all", want: "allow default"},
		{server: "mail", tool: "send", want: "block rule 4"},
		{server: "mail", tool: "send", tenant: acme, want: "ask rule 3"},
		{server: "mailer", tool: "send", want: "allow default"},
		{server: "db", tool: "drop", hints: tool.Hints{Destructive: mark(true)}, want: "ask rule 5"},
		{server: "db", tool: "drop", hints: tool.Hints{Destructive: mark(true)}, tenant: acme, want: "ask default"},
		{server: "db", tool: "drop", hints: tool.Hints{Destructive: mark(false)}, want: "allow default"},
		{server: "pay", tool: "send", args: `{"amount": 1000}`, want: "allow default"},
		{server: "pay", tool: "send", args: `{"amount": 1000.5}`, want: "block rule 6"},
		{server: "git.hub", tool: "x", want: "block rule 7"},
		{server: "git", tool: "hub.x", want: "allow default"},
	} {
		c := call(tc.server, tc.tool, tc.args)
		if !tc.tenant.IsZero() {
			c.Tenant = tc.tenant
		}
		c.Hints = tc.hints
		if got := decide(t, p, c); got != tc.want {
			t.Errorf("%s.%s(%s) of %s: %s, want %s", tc.server, tc.tool, tc.args, c.Tenant, got, tc.want)
		}
	}
	d, err := p.Decide(t.Context(), call("x", "delete_all", "{}"))
	if diff := cmp.Diff(policy.Decision{Verdict: policy.Block, Rule: "no deletes", Reason: "nothing is deleted here"}, d); err != nil ||
		diff != "" {
		t.Error(err, diff)
	}
}

func TestOrderOfRulesWithAndWithoutPatterns(t *testing.T) {
	p := open(t, policy.Config{Rules: []policy.Rule{
		{Scope: policy.Scope{Tools: []string{"crm.*"}, Tenants: []string{"acme"}}, Decision: policy.Block},
		{Scope: policy.Scope{Tools: []string{"crm.get", "crm.get", "crm.list"}}, When: "args.n == 1", Decision: policy.Ask},
		{Scope: policy.Scope{Tools: []string{"*.get"}}, When: "args.n == 2", Decision: policy.Allow},
		{Scope: policy.Scope{Tools: []string{"crm.get"}, Server: "mail"}, Decision: policy.Ask},
		{Scope: policy.Scope{Tools: []string{"crm.get"}}, Decision: policy.Block},
		{Decision: policy.Ask},
	}})
	for c, want := range map[[3]string]string{
		{"crm", "get", `{"n": 1}`}: "ask rule 2", {"crm", "get", `{"n": 2}`}: "allow rule 3", {"crm", "get", `{"n": 3}`}: "block rule 5",
		{"crm", "list", `{"n": 1}`}: "ask rule 2", {"crm", "list", `{"n": 2}`}: "ask rule 6", {"mail", "get", `{"n": 2}`}: "allow rule 3",
	} {
		if got := decide(t, p, call(c[0], c[1], c[2])); got != want {
			t.Errorf("%v: %s, want %s", c, got, want)
		}
	}
}

// Each condition is evaluated in a rule that blocks and in one that allows: one without
// an answer ("unsure") blocks in both.
func TestConditions(t *testing.T) {
	args := `{"n": 3, "f": 3.0, "big": 18446744073709551615, "huge": 1` + strings.Repeat("0", 400) + `, "neg": -9223372036854775808, "below": -1` + strings.Repeat("0", 30) + `,
		"s": "Ann@Example.com", "t": true, "nil": null, "list": [1, 2.0, "x"], "o": {"deep": {"n": 7}}, "odd-name": 1}`
	for when, want := range map[string]string{
		"args.n == 3": "yes", "args.f == 3": "yes", "args.n == 3.0": "yes", "args.f > 2": "yes", "args.n > 2.5": "yes",
		"args.n >= 3": "yes",
		"args.n < 3":  "no", "3 < args.n": "no", "2 < args.n": "yes", "3 >= args.f": "yes", "args.n != 3": "no",
		"args.n in [1, 2, 3]": "yes", "args.n in [1, 2]": "no",
		"args.big > 1000": "yes", "args.big == 18446744073709551615u": "yes", "args.huge > 1000": "yes", "args.huge < 1000": "no",
		"args.neg < 0": "yes", "args.below < -5": "yes",
		"args.n == '3'": "no", "args.s == 3": "no", "args.s > 3": "unsure", "args.nil == null": "yes", "args.nil == 3": "no",
		"args.nil > 3": "unsure", "args.n == null": "no",
		"args.t": "yes", "!args.t": "no", "args.t == true": "yes", "args.n": "unsure", "!args.n": "unsure", "args.t && args.t": "yes",
		"args.gone == 3": "unsure", "args.gone != 3": "unsure", "!(args.gone == 3)": "unsure", "args.gone": "unsure",
		"args.gone in [1]": "unsure",
		"has(args.gone)":   "no", "!has(args.gone)": "yes", "has(args.n)": "yes", "has(args.gone) && args.gone > 3": "no",
		"args.gone > 3 && has(args.gone)": "no",
		"has(args.gone) || args.n == 3":   "yes", "args.gone == 3 || args.n == 3": "yes", "args.n == 4 && args.gone == 3": "no",
		"args.gone == 3 && args.n == 4": "no", "args.n == 3 && args.gone == 3": "unsure",
		"args.o.deep.n == 7": "yes", "args.o.gone.n == 7": "unsure", "args.n.deep == 7": "unsure", "has(args.o.deep)": "yes",
		"has(args.o.gone)": "no", "has(args.gone.x)": "unsure", "has(args.n.x)": "unsure",
		"args['odd-name'] == 1": "yes", "args['gone'] == 1": "unsure", "'n' in args": "yes", "'gone' in args": "no",
		"args.s.startsWith('Ann')": "yes", "args.s.endsWith('.org')": "no", "args.s.contains('@')": "yes",
		"args.n.startsWith('x')": "unsure", "args.s.matches('(?i)@example\\\\.com$')": "yes",
		"args.list.exists(x, x == 2)": "yes", "args.list.all(x, x == 2)": "no", "args.list[2] == 'x'": "yes",
		"args.list[7] == 'x'": "unsure", "size(args.list) == 3": "yes", "args.list == [1, 2, 'x']": "yes",
		"args.n + 1 == 4": "yes", "args.f + 1 == 4": "unsure", "args.big + 1u > 0u": "unsure", "args.n / 0 == 1": "unsure",
		"double(args.n) * 1.5 > 4.0": "yes", "int(args.s) == 3": "unsure",
		"tool.server == 'crm' && tool.name == 'send'": "yes", "tool.name.startsWith('se')": "yes", "tool.trusted": "no",
		"!tool.trusted": "yes", "tool.read_only || tool.destructive || tool.idempotent || tool.open_world": "no",
		"tenant == 'local' && execution == 'exec_1' && session == ''": "yes", "tenant in ['a', 'b']": "no", "true": "yes",
		"args.size() > 5": "yes",
	} {
		c := call("crm", "send", args)
		block := decide(t, open(t, policy.Config{Rules: []policy.Rule{{When: when, Decision: policy.Block}}}), c)
		allow := decide(t, open(t, policy.Config{Default: policy.Block, Rules: []policy.Rule{{When: when, Decision: policy.Allow}}}), c)
		got := map[[2]string]string{
			{"block rule 1", "allow rule 1"}: "yes", {"allow default", "block default"}: "no", {"block rule 1", "block default"}: "unsure",
		}[[2]string{block, allow}]
		if got != want {
			t.Errorf("%s: %q (to block: %s; to allow: %s), want %s", when, got, block, allow, want)
		}
	}
}

// A call is judged as if an undecided condition held and as if it did not, and the
// stricter verdict counts.
func TestUndecidedConditionIsNeverLooser(t *testing.T) {
	for _, tc := range []struct {
		rules, want string // decisions; ? marks a condition without an answer
		def         policy.Verdict
	}{
		{rules: "block?", want: "block rule 1"},
		{rules: "ask?", want: "ask rule 1"},
		{rules: "allow?", want: "allow default"},
		{rules: "allow?", def: policy.Block, want: "block default"},
		{rules: "allow? ask", want: "ask rule 2"},
		{rules: "ask? allow", want: "ask rule 1"},
		{rules: "ask? block", want: "block rule 2"},
		{rules: "ask? block?", want: "block rule 2"},
		{rules: "ask? allow?", def: policy.Block, want: "block default"},
		{rules: "allow block?", want: "allow rule 1"},
		{rules: "ask? ask", want: "ask rule 2"},
	} {
		cfg := policy.Config{Default: tc.def}
		for _, r := range strings.Fields(tc.rules) {
			verdict, unsure := strings.CutSuffix(r, "?")
			one := policy.Rule{Decision: policy.Verdict(verdict)}
			if unsure {
				one.When = "args.gone > 3"
			}
			cfg.Rules = append(cfg.Rules, one)
		}
		if got := decide(t, open(t, cfg), call("a", "b", `{}`)); got != tc.want {
			t.Errorf("%s: %s, want %s", tc.rules, got, tc.want)
		}
	}
}

func TestConditionOverCostLimitIsUndecided(t *testing.T) {
	list := "[" + strings.Repeat("1,", 2000) + "1]"
	p := open(t, policy.Config{Rules: []policy.Rule{{When: "args.l.exists(x, args.l.exists(y, args.l.exists(z, x + y + z == 0)))",
		Decision: policy.Block}}})
	if got := decide(t, p, call("a", "b", `{"l":`+list+`}`)); got != "block rule 1" {
		t.Error(got)
	}
	if got := decide(t, p, call("a", "b", `{"l":[1, 2]}`)); got != "allow default" {
		t.Error(got)
	}
}

func TestDecideRejectsInvalidArguments(t *testing.T) {
	p := open(t, policy.Config{Rules: []policy.Rule{{When: "has(args.x)", Decision: policy.Block}}})
	for _, args := range []string{`[]`, `{`, `{"a":1,"a":2}`, `"x"`, `{} {}`, strings.Repeat(`{"a":`, 1000)} {
		if got := decide(t, p, call("a", "b", args)); !strings.HasPrefix(got, "error: the arguments of a.b: ") {
			t.Errorf("%.40s: %s", args, got)
		}
	}
	if got := decide(t, p, call("a", "b", "")); got != "allow default" {
		t.Error(got)
	}
}

func TestNewRejectsInvalidPolicyWithLocation(t *testing.T) {
	many := strings.Repeat("x", 400)
	for _, tc := range []struct {
		rule policy.Rule
		want string
	}{
		{policy.Rule{}, "f line 3: rule 1 of the policy has no decision: write allow, ask or block"},
		{policy.Rule{Decision: "maybe"}, `rule 1 of the policy has the decision "maybe"; it must be allow, ask or block`},
		{policy.Rule{Name: "n", Decision: "deny"}, `rule 1 (n) of the policy has the decision "deny"`},
		{policy.Rule{Name: "default", Decision: "ask"}, `has the name "default", which is reserved`},
		{policy.Rule{Name: "rule 7", Decision: "ask"}, `has the name "rule 7", which is reserved`},
		{policy.Rule{Name: "a\nb", Decision: "ask"}, `has the name "a\nb"; a name is one line of at most 80 bytes`},
		{policy.Rule{Decision: "ask", Scope: policy.Scope{Tools: []string{"crm.[a-z]*"}}},
			`has the tool "crm.[a-z]*", which is not a valid pattern: * matches any characters`},
		{policy.Rule{Decision: "ask", Scope: policy.Scope{Tools: []string{""}}}, `has an empty tool`},
		{policy.Rule{Decision: "ask", Scope: policy.Scope{Tools: []string{"send"}}},
			`has the tool "send", which matches none: write server.tool`},
		{policy.Rule{Decision: "ask", Scope: policy.Scope{Server: "a?"}}, `has the server "a?", which is not a valid pattern`},
		{policy.Rule{Decision: "ask", Scope: policy.Scope{Tenants: []string{many}}}, `has the tenant "xxx`},
		{policy.Rule{Decision: "ask", When: "args.a >"}, "has a wrong condition (when): column 9: Syntax error: mismatched input '<EOF>'"},
		{policy.Rule{Decision: "ask", When: "tool.destructve"},
			"column 5: undeclared reference to 'tool.destructve' (did you mean 'tool.destructive'?)"},
		{policy.Rule{Decision: "ask", When: "true &&\ntool.name > 3"},
			"line 2, column 11: found no matching overload for '_>_' applied to '(string, int)'"},
		{policy.Rule{Decision: "ask", When: "tool.name"}, "has a condition (when) that is string; it must be true or false"},
		{policy.Rule{Decision: "ask", When: "1 / 0 == 1"}, "has a condition (when) that never has an answer: division by zero"},
		{policy.Rule{Decision: "ask", When: "args.s.matches('(')"},
			"has a condition (when) that cannot be evaluated: error parsing regexp"},
		{policy.Rule{Decision: "ask", When: "args.s == '" + strings.Repeat("x", 10_000) + "'"}, "has a wrong condition (when)"},
	} {
		tc.rule.At = "f line 3"
		_, err := policy.New(policy.Config{Rules: []policy.Rule{tc.rule}})
		if err == nil || fault.KindOf(err) != fault.Invalid || !strings.HasPrefix(fault.Message(err), "f line 3: rule 1") ||
			!strings.Contains(fault.Message(err), tc.want) {
			t.Errorf("%+v: %v\nwant %s", tc.rule, err, tc.want)
		}
	}
	for want, cfg := range map[string]policy.Config{
		`f line 9: the name "twice" is already used, at f line 3`: {Rules: []policy.Rule{{Name: "twice",
			Decision: "ask", At: "f line 3"}}, Budgets: []policy.Budget{{Name: "twice", Calls: 1, Per: "hour", At: "f line 9"}}},
		`the default of the policy is "deny"`: {Default: "deny"},
		`budget 1 of the policy counts per "week"; it must be execution, minute, hour or day`: {Budgets: []policy.Budget{{Calls: 1,
			Per: "week"}}},
		`budget 1 of the policy has 0 calls`: {Budgets: []policy.Budget{{Per: "day"}}},
		`budget 1 of the policy has the tool "a"`: {Budgets: []policy.Budget{{Per: "day", Calls: 1,
			Scope: policy.Scope{Tools: []string{"a"}}}}},
	} {
		if _, err := policy.New(cfg); err == nil || !strings.HasPrefix(fault.Message(err), want) {
			t.Errorf("%v\nwant %s", err, want)
		}
	}
}

func ExamplePolicy_Decide() {
	p, err := policy.New(policy.Config{Rules: []policy.Rule{
		{Name: "large payments", Scope: policy.Scope{Tools: []string{"bank.pay*"}}, When: "args.amount > 1000", Decision: policy.Ask},
	}})
	if err != nil {
		panic(err)
	}
	for _, args := range []string{`{"amount": 20}`, `{"amount": 2000}`, `{}`} {
		d, err := p.Decide(context.Background(), policy.Call{Ref: tool.Ref{Server: "bank", Tool: "pay"}, Args: json.RawMessage(args)})
		fmt.Println(args, d.Verdict, d.Rule, err)
	}
	// Output:
	// {"amount": 20} allow default <nil>
	// {"amount": 2000} ask large payments <nil>
	// {} ask large payments <nil>
}
