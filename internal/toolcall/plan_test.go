package toolcall_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/sandpiper-mcp/sandpiper/internal/fault"
	"github.com/sandpiper-mcp/sandpiper/internal/policy"
	"github.com/sandpiper-mcp/sandpiper/internal/tool"
	"github.com/sandpiper-mcp/sandpiper/internal/toolcall"
)

// dryRunRig is a rig whose calls go into a plan; policy has a default verdict.
func dryRunRig(t *testing.T, v policy.Verdict) (*rig, *toolcall.Plan, *toolcall.Stack) {
	t.Helper()
	r, plan := newRig(t), &toolcall.Plan{}
	rules, err := policy.New(policy.Config{Default: v})
	if err != nil {
		t.Fatal(err)
	}
	stack := toolcall.New(toolcall.Config{Catalog: r.cat, Upstream: r.server, Policy: func() *policy.Policy { return rules }})
	r.Caller = stack.For(toolcall.Owner{Home: r.home, Gate: open(t), Plan: plan})
	return r, plan, stack
}

func to(call int, argument string, result ...any) []tool.Reference {
	return []tool.Reference{{Argument: tool.Path{argument}, Call: call, Result: result}}
}

func TestDryRunPlansCallsThatMayChangeSomething(t *testing.T) {
	for _, v := range []policy.Verdict{policy.Allow, policy.Ask} {
		r, plan, _ := dryRunRig(t, v)
		for i, c := range []tool.Call{
			call("crm", "send", `{"to": "ann"}`),
			{Ref: tool.Ref{Server: "crm", Tool: "send"}, Args: json.RawMessage(`{"to": null, "n": 5}`), References: to(1, "to", "id")},
			{Ref: tool.Ref{Server: "crm", Tool: "read"}, Args: json.RawMessage(`{"id": null}`), References: to(2, "id")},
		} {
			if res, err := r.Caller.Call(t.Context(), c); err != nil || res.Planned != i+1 {
				t.Fatalf("call %d: %+v %v", i+1, res, err)
			}
		}
		var got []string
		for _, p := range plan.Calls() {
			got = append(got, p.String()+" "+string(p.Args))
			if len(p.Schema) != 64 {
				t.Errorf("%s has the hash %q", p.Ref, p.Schema)
			}
		}
		want := []string{`crm.send {"to":"ann"}`, `crm.send {"to":null,"n":5}`, `crm.read {"id":null}`}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Error(diff)
		}
		if entries, _ := r.home.Journal.List(t.Context(), 10); len(entries) > 0 {
			t.Errorf("on record: %+v", entries)
		}
	}
}

func TestDryRunPlansReadsThatNeedApproval(t *testing.T) {
	for v, made := range map[policy.Verdict]int{policy.Allow: 1, policy.Ask: 0, policy.Block: 0} {
		r, plan, _ := dryRunRig(t, v)
		res, err := r.Caller.Call(t.Context(), call("crm", "read", `{}`))
		if planned := len(plan.Calls()); len(r.calls) != made || res.Planned != planned || (planned == 1) != (v == policy.Ask) ||
			(err != nil) != (v == policy.Block) {
			t.Errorf("%s: %+v %v, %d calls, %d planned", v, res, err, len(r.calls), planned)
		}
	}
}

func TestDryRunRejectsInvalidCalls(t *testing.T) {
	send := tool.Ref{Server: "crm", Tool: "send"}
	for name, row := range map[string]struct {
		call tool.Call
		want string
	}{
		"wrong arguments": {call("crm", "send", `{"to": 5}`), "expected a string"},
		"a null without a reference": {tool.Call{Ref: send, Args: json.RawMessage(`{"to": null}`)},
			"expected a string, got None"},
		"an invalid argument next to a reference": {tool.Call{Ref: send, Args: json.RawMessage(`{"to": null, "n": "x"}`),
			References: to(1, "to")}, "argument n"},
		"a reference to no call": {tool.Call{Ref: send, Args: json.RawMessage(`{"to": null}`), References: to(2, "to")},
			"call 2, and there are 1"},
		"a reference to call 0": {tool.Call{Ref: send, Args: json.RawMessage(`{"to": null}`), References: to(0, "to")}, "call 0"},
		"a reference over a value": {tool.Call{Ref: send, Args: json.RawMessage(`{"to": "x"}`), References: to(1, "to")},
			"have no placeholder at"},
		"a reference to no argument": {tool.Call{Ref: send, Args: json.RawMessage(`{"to": "x"}`), References: to(1, "n")},
			"have no placeholder at"},
		"a reference in place of all": {tool.Call{Ref: send, Args: json.RawMessage(`{"to": "x"}`),
			References: []tool.Reference{{Call: 1}}}, "have no placeholder at"},
		"an unknown tool": {call("crm", "sned", `{}`), "did you mean"},
		"more than is taken of one plan": {tool.Call{Ref: send, Args: json.RawMessage(`{"to": "` + strings.Repeat("x", 1<<20) + `"}`)},
			"at most 200 calls"},
	} {
		t.Run(name, func(t *testing.T) {
			r, plan, _ := dryRunRig(t, policy.Allow)
			if _, err := r.Caller.Call(t.Context(), call("crm", "send", `{"to": "ann"}`)); err != nil {
				t.Fatal(err)
			}
			_, err := r.Caller.Call(t.Context(), row.call)
			if err == nil || !strings.Contains(fault.Message(err), row.want) || len(plan.Calls()) != 1 {
				t.Errorf("%v, planned %d", err, len(plan.Calls()))
			}
		})
	}
	r, plan, _ := dryRunRig(t, policy.Block)
	if _, err := r.Caller.Call(t.Context(), call("crm", "send", `{"to": "ann"}`)); fault.KindOf(err) != fault.Denied ||
		len(plan.Calls()) > 0 {
		t.Errorf("blocked: %v, planned %d", err, len(plan.Calls()))
	}
	plain := newRig(t)
	if _, err := plain.Caller.Call(t.Context(), tool.Call{Ref: send, Args: json.RawMessage(`{"to": null}`),
		References: to(1, "to")}); fault.KindOf(err) != fault.Invalid || len(plain.calls) > 0 {
		t.Errorf("a reference outside a dry run: %v", err)
	}
}

func TestEndedPlanRejectsCalls(t *testing.T) {
	r, plan, _ := dryRunRig(t, policy.Allow)
	if _, err := r.Caller.Call(t.Context(), call("crm", "send", `{"to": "ann"}`)); err != nil {
		t.Fatal(err)
	}
	if n, first := plan.End(); n != 1 || !first {
		t.Errorf("ended with %d, %v", n, first)
	}
	for _, c := range []tool.Call{call("crm", "send", `{"to": "bob"}`), call("crm", "read", `{}`)} {
		if _, err := r.Caller.Call(t.Context(), c); fault.KindOf(err) != fault.Denied {
			t.Errorf("%s: %v", c.Ref, err)
		}
	}
	if _, first := plan.End(); first || len(plan.Calls()) != 1 || len(r.calls) > 0 {
		t.Errorf("%d planned, %d called", len(plan.Calls()), len(r.calls))
	}
}

func TestResolveReplacesReferencesByResults(t *testing.T) {
	var results []any
	if err := json.Unmarshal([]byte(`[{"id": "c7", "lines": [{"no": 1}, {"no": 2}]}, null]`), &results); err != nil {
		t.Fatal(err)
	}
	for _, row := range []struct{ result, want string }{
		{`[]`, `{"z":1,"x":[{"y":{"id":"c7","lines":[{"no":1},{"no":2}]}}]}`},
		{`["id"]`, `{"z":1,"x":[{"y":"c7"}]}`},
		{`["lines",1,"no"]`, `{"z":1,"x":[{"y":2}]}`},
		{`["lines",-2,"no"]`, `{"z":1,"x":[{"y":1}]}`},
		{`["lines",2]`, ""}, {`["lines",-3]`, ""}, {`["nope"]`, ""}, {`["id",0]`, ""}, {`[0]`, ""}, {`["lines","0"]`, ""},
	} {
		var path tool.Path
		if err := json.Unmarshal([]byte(row.result), &path); err != nil {
			t.Fatal(err)
		}
		p := toolcall.Planned{Args: json.RawMessage(`{"z":1,"x":[{"y":null}]}`),
			References: []tool.Reference{{Argument: tool.Path{"x", 0, "y"}, Call: 1, Result: path}}}
		got, err := p.Resolve(results)
		if string(got) != row.want || (err == nil) != (row.want != "") {
			t.Errorf("%s: %s %v", row.result, got, err)
		}
	}
	for _, wrong := range []string{`[1.5]`, `[null]`, `[{}]`, `[1e300]`, `"id"`, `[` + strings.Repeat(`"x",`, 64) + `"x"]`} {
		if err := json.Unmarshal([]byte(wrong), new(tool.Path)); err == nil {
			t.Errorf("%s is a path", wrong)
		}
	}
}

func TestCheckUnchangedRejectsChangedTool(t *testing.T) {
	r, plan, stack := dryRunRig(t, policy.Allow)
	if _, err := r.Caller.Call(t.Context(), call("crm", "send", `{"to": "ann"}`)); err != nil {
		t.Fatal(err)
	}
	p := plan.Calls()[0]
	if err := stack.CheckUnchanged(t.Context(), toolcall.Owner{Home: r.home}, p); err != nil {
		t.Fatal(err)
	}
	put(t, r.cat, "Sends, and more.")
	if err := stack.CheckUnchanged(t.Context(), toolcall.Owner{Home: r.home}, p); fault.KindOf(err) != fault.Denied {
		t.Errorf("%v", err)
	}
}
