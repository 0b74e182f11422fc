package policy_test

import (
	"testing"

	"github.com/sandpiper-mcp/sandpiper/internal/policy"
)

// FuzzDecide evaluates any condition for any arguments. Nothing panics, an undecided
// condition allows nothing, and Explain returns the decision of Decide.
func FuzzDecide(f *testing.F) {
	for _, when := range []string{
		"args.n == 3", "args.n > 2.5", "args.a.b.c == 'x'", "has(args.a.b) && args.a.b", "!args.t", "args.l.exists(x, x > 1)",
		"args.s.matches('^a+$')",
		"args['n'] in [1, 2.0, 'x', null]", "3 <= args.n", "args.n != null", "tool.destructive || args.n == 1",
		"tenant == 'local' && args.s.startsWith('a')", "size(args) > 1",
		"int(args.s) == 3", "args.n * 2 > 3 ? args.t : false", "args == {'n': 3}", "true", "",
	} {
		f.Add("crm.*", when, `{"n": 3, "f": 2.5, "a": {"b": {"c": "x"}}, "t": true, "l": [1, 2], "s": "aaa"}`)
		f.Add("*.se*d", when, `{"n": 18446744073709551617, "a": 3, "t": null, "l": {}, "s": 1e999}`)
	}
	f.Add("", "args.n == 3", `{"n": -0.0}`)
	f.Add("crm.send", "has(args.n)", `[]`)
	f.Fuzz(func(t *testing.T, pattern, when, args string) {
		decide := func(when string, verdict, def policy.Verdict) (policy.Decision, error) {
			r := policy.Rule{When: when, Decision: verdict}
			if pattern != "" {
				r.Tools = []string{pattern}
			}
			p, err := policy.New(policy.Config{Rules: []policy.Rule{r}, Default: def})
			if err != nil {
				return policy.Decision{}, err
			}
			p.Findings(policy.Inventory{Servers: []string{"crm", "a"}, Tools: map[string][]string{"crm": {"send"}}})
			c := call("crm", "send", args)
			d, err := p.Decide(t.Context(), c)
			e, wrong := p.Explain(t.Context(), c)
			if (err == nil) != (wrong == nil) || err == nil && e.Decision != d {
				t.Errorf("decided %+v, %v; explained %+v, %v", d, err, e.Decision, wrong)
			}
			return d, err
		}
		block, err := decide(when, policy.Block, policy.Allow)
		if err != nil {
			return // an invalid policy or invalid arguments: nothing is allowed
		}
		allow, err := decide(when, policy.Allow, policy.Block)
		if err != nil {
			t.Fatalf("invalid as a rule that allows: %v", err)
		}
		ask, err := decide(when, policy.Ask, policy.Allow)
		if err != nil {
			t.Fatalf("invalid as a rule that asks: %v", err)
		}
		if block.Rule == "default" && (ask.Rule != "default" || allow.Rule != "default") {
			t.Errorf("not matched as a rule that blocks, but as one that asks: %+v, or allows: %+v", ask, allow)
		}
		if block.Reason != "" && (allow.Verdict != policy.Block || ask.Verdict != policy.Ask) {
			t.Errorf("undecided, but allow decides %+v and ask decides %+v", allow, ask)
		}
	})
}
