package policy_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/sandpiper-mcp/sandpiper/internal/fault"
	"github.com/sandpiper-mcp/sandpiper/internal/policy"
	"github.com/sandpiper-mcp/sandpiper/internal/store/tenant"
)

var (
	gvisor  = policy.Sandbox{Name: "gvisor", Strength: 2}
	microvm = policy.Sandbox{Name: "microvm", Strength: 3}
)

func TestOrderOfSandboxes(t *testing.T) {
	kinds := []policy.Sandbox{{}, policy.Process, gvisor, microvm, policy.NoCode}
	for i, has := range kinds {
		for j, required := range kinds {
			if has.Satisfies(required) != (i >= j) {
				t.Errorf("%q satisfies %q: %t", has, required, i < j)
			}
		}
	}
	if (policy.Sandbox{Name: "wasm"}).Satisfies(policy.Process) {
		t.Error("an unknown sandbox satisfies a requirement")
	}
}

// isolating requires sandboxes of some calls. Its rules are in an order in which others decide first.
var isolating = policy.Config{Sandboxes: []policy.Sandbox{gvisor, microvm}, Rules: []policy.Rule{
	{Scope: policy.Scope{Tools: []string{"bank.get_*"}}, Decision: policy.Allow},
	{Name: "money", Scope: policy.Scope{Server: "bank"}, Sandbox: "gvisor", Reason: "it is money"},
	{Scope: policy.Scope{Tools: []string{"bank.pay"}}, When: "args.amount > 1000", Sandbox: "microvm", Decision: policy.Ask},
	{Scope: policy.Scope{Tools: []string{"mail.send"}, Tenants: []string{"acme"}}, Sandbox: "gvisor"},
	{When: "tool.server == 'dns'", Sandbox: "gvisor"},
	{Scope: policy.Scope{Tools: []string{"bank.get_*"}}, Decision: policy.Block},
}}

func TestStrongestSandboxIsRequired(t *testing.T) {
	p := open(t, isolating)
	acme, err := tenant.Parse("acme")
	if err != nil {
		t.Fatal(err)
	}
	of := func(id tenant.ID, c policy.Call) policy.Call {
		c.Tenant = id
		return c
	}
	for _, tc := range []struct {
		call           policy.Call
		required, rule string
		decision       string
	}{
		{call("bank", "get_balance", `{}`), "gvisor", "money", "allow rule 1"},
		{call("bank", "pay", `{"amount": 5}`), "gvisor", "money", "allow default"},
		{call("bank", "pay", `{"amount": 5000}`), "microvm", "rule 3", "ask rule 3"},
		{call("bank", "pay", `{}`), "microvm", "rule 3", "ask rule 3"}, // cannot be decided
		{call("mail", "send", `{}`), "", "", "allow default"},
		{of(acme, call("mail", "send", `{}`)), "gvisor", "rule 4", "allow default"},
		{of(acme, call("mail", "list", `{}`)), "", "", "allow default"},
		{call("dns", "look_up", `{}`), "gvisor", "rule 5", "allow default"},
	} {
		r, err := p.Requires(t.Context(), tc.call)
		if err != nil || r.Sandbox.Name != tc.required || r.Rule != tc.rule {
			t.Errorf("%s %s: %+v, %v", tc.call.Ref, tc.call.Args, r, err)
		}
		if got := decide(t, p, tc.call); got != tc.decision {
			t.Errorf("%s %s: %s, want %s", tc.call.Ref, tc.call.Args, got, tc.decision)
		}
	}
	if r, _ := p.Requires(t.Context(), call("bank", "look", `{}`)); r.By() != "money: it is money" {
		t.Error(r.By())
	}
	if r, err := p.Requires(t.Context(), call("bank", "pay", `{"amount": 1, "amount": 2}`)); err == nil {
		t.Errorf("arguments that cannot be decoded require %+v", r)
	}
	for server, want := range map[string]string{"bank": "microvm", "mail": "", "dns": "gvisor", "ban": "", "": ""} {
		if r := p.MayRequire(tenant.Local, server); r.Sandbox.Name != want {
			t.Errorf("%s may require %+v", server, r)
		}
	}
	if r := p.MayRequire(acme, "mail"); r.Sandbox != gvisor {
		t.Errorf("mail may require %+v of acme", r)
	}
	if !p.RequiresSandbox() || policy.Default().RequiresSandbox() {
		t.Error("RequiresSandbox")
	}
}

func TestProjectCanOnlyRequireMore(t *testing.T) {
	project := policy.Config{Rules: []policy.Rule{
		{Scope: policy.Scope{Server: "bank"}, Sandbox: "microvm"},
		{Scope: policy.Scope{Server: "dns"}, Decision: policy.Allow},
	}}
	cfg := isolating
	cfg.Project = &project
	p := open(t, cfg)
	for server, want := range map[string]string{"bank": "microvm project rule 1", "dns": "gvisor rule 5", "mail": " "} {
		r, err := p.Requires(t.Context(), call(server, "x", `{}`))
		may := p.MayRequire(tenant.Local, server)
		if err != nil || r.Sandbox.Name+" "+r.Rule != want || may.Sandbox != r.Sandbox && server != "bank" {
			t.Errorf("%s: %+v, %+v, %v", server, r, may, err)
		}
	}
	if p := open(t, policy.Config{Project: &project, Sandboxes: isolating.Sandboxes}); !p.RequiresSandbox() || p.MayRequire(tenant.Local,
		"bank").Sandbox != microvm {
		t.Error("the rules of a project alone have no effect")
	}
}

func TestSandboxOfRuleIsChecked(t *testing.T) {
	for _, tc := range []struct {
		rule policy.Rule
		want string
	}{
		{policy.Rule{Sandbox: "process"}, `rule 1 of the policy requires the sandbox "process"; it must be gvisor or microvm`},
		{policy.Rule{Sandbox: "wasm", Decision: policy.Allow}, `requires the sandbox "wasm"`},
		{policy.Rule{Sandbox: "gvisor", Decision: "deny"}, `has the decision "deny"`},
		{policy.Rule{}, "has no decision"},
	} {
		if _, err := policy.New(policy.Config{Rules: []policy.Rule{tc.rule},
			Sandboxes: isolating.Sandboxes}); fault.KindOf(err) != fault.Invalid || !strings.Contains(fault.Message(err), tc.want) {
			t.Errorf("%+v: %v", tc.rule, err)
		}
	}
	if _, err := policy.New(policy.Config{Rules: []policy.Rule{{Sandbox: "gvisor"}}}); !strings.Contains(fault.Message(err),
		`requires the sandbox "gvisor", which this program does not have`) {
		t.Error(err)
	}
}

func TestExplanationShowsRequiredSandbox(t *testing.T) {
	x, err := open(t, isolating).Explain(t.Context(), call("bank", "get_balance", `{}`))
	if err != nil {
		t.Fatal(err)
	}
	b, err := json.Marshal(x)
	const want = `{"decision":"allow","rule":"rule 1","requires":{"sandbox":"gvisor","rule":"money","reason":"it is money"},"looked_at":[` +
		`{"rule":"rule 1","decision":"allow","fits":"yes"},` +
		`{"rule":"money","sandbox":"gvisor","fits":"yes"},` +
		`{"rule":"rule 3","decision":"ask","sandbox":"microvm","fits":"no","why":"it applies to other tools"},` +
		`{"rule":"rule 4","sandbox":"gvisor","fits":"no","why":"it applies to other tools"},` +
		`{"rule":"rule 5","sandbox":"gvisor","fits":"no","why":"its condition is false"}],"budgets":[]}`
	if string(b) != want || err != nil {
		t.Errorf("got  %s\nwant %s", b, want)
	}
}

func TestFindingsOfRulesWithSandboxes(t *testing.T) {
	p := open(t, policy.Config{Sandboxes: isolating.Sandboxes, Rules: []policy.Rule{
		{Scope: policy.Scope{Server: "bank"}, Sandbox: "gvisor"}, // decides nothing, so that it covers no rule
		{Scope: policy.Scope{Server: "bank"}, Decision: policy.Block},
		{Scope: policy.Scope{Tools: []string{"bank.pay"}}, Sandbox: "microvm", Decision: policy.Ask}, // its sandbox counts
		{Scope: policy.Scope{Server: "bnak"}, Sandbox: "gvisor"},
	}})
	all := p.Findings(policy.Inventory{Servers: []string{"bank"}})
	if len(all) != 1 || all[0].Rule != "rule 4" || !strings.Contains(all[0].Text, "names none of the configured servers") {
		t.Errorf("%+v", all)
	}
}
