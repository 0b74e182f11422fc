package toolcall_test

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/sandpiper-mcp/sandpiper/internal/audit"
	"github.com/sandpiper-mcp/sandpiper/internal/fault"
	"github.com/sandpiper-mcp/sandpiper/internal/guardrail"
	"github.com/sandpiper-mcp/sandpiper/internal/home/approval"
	"github.com/sandpiper-mcp/sandpiper/internal/home/approval/grant"
	"github.com/sandpiper-mcp/sandpiper/internal/policy"
	"github.com/sandpiper-mcp/sandpiper/internal/tool"
	"github.com/sandpiper-mcp/sandpiper/internal/toolcall"
)

// granting answers each approval with a scope.
func granting(scope string) func(context.Context, tool.Approval) (tool.Reply, error) {
	return func(context.Context, tool.Approval) (tool.Reply, error) {
		return tool.Reply{Action: tool.Accept, Content: json.RawMessage(`{"approve":true,"for":"` + scope + `"}`)}, nil
	}
}

// errAsked is returned by unanswered.
var errAsked = fault.New(fault.Unavailable, "asked")

func unanswered(context.Context, tool.Approval) (tool.Reply, error) { return tool.Reply{}, errAsked }

// allowed reports whether a call is made without asking.
func (g *approvalRig) allowed(c tool.Call) bool {
	g.t.Helper()
	before := len(g.calls)
	_, err := g.caller().Call(g.t.Context(), withApprover(c, unanswered))
	if made := len(g.calls) > before; made != (err == nil) {
		g.t.Fatalf("made: %t, %v", made, err)
	}
	return err == nil
}

// grant makes a call whose approval has a scope.
func (g *approvalRig) grant(scope string, c tool.Call) {
	g.t.Helper()
	if _, err := g.caller().Call(g.t.Context(), withApprover(c, granting(scope))); err != nil {
		g.t.Fatal(err)
	}
}

// by returns a call of crm.send by an execution and a live interpreter.
func by(execution, interpreter, to string) tool.Call {
	c := call("crm", "send", fmt.Sprintf(`{"to":%q}`, to))
	c.Execution, c.Session, c.Origin = execution, "report", tool.Origin{Interpreter: interpreter}
	return c
}

func TestGrantCoversItsScopeOnly(t *testing.T) {
	other := call("crm", "read", `{}`)
	other.Origin.Interpreter = "i1"
	for scope, want := range map[string][]bool{ // of another call, execution, and interpreter of the session; of a client
		"once":      {false, false, false, false},
		"execution": {true, false, false, false},
		"session":   {true, true, false, false},
		"tool":      {true, true, true, true},
	} {
		g := newApprovalRig(t, 0)
		g.grant(scope, by("exec_1", "i1", "ann"))
		got := []bool{g.allowed(by("exec_1", "i1", "all@example.com")), g.allowed(by("exec_2", "i1", "bob")),
			g.allowed(by("exec_3", "i2", "bob")), g.allowed(by("", "", "bob"))}
		if !slices.Equal(got, want) {
			t.Errorf("%s: %t, want %t", scope, got, want)
		}
		if g.allowed(other) {
			t.Errorf("%s: another tool is allowed", scope)
		}
	}
}

// A model changes nothing that a grant depends on: only the tool's server can change its definition, and the
// policy decides first.
func TestGrantEndsWithDefinitionPolicyAndTime(t *testing.T) {
	for _, scope := range []string{"execution", "session", "tool"} {
		g := newApprovalRig(t, 0)
		g.grant(scope, by("exec_1", "i1", "ann"))
		put(t, g.cat, "Sends to everybody.")
		if _, err := g.cat.Accept(t.Context(), "crm"); err != nil {
			t.Fatal(err)
		}
		if g.allowed(by("exec_1", "i1", "bob")) {
			t.Errorf("%s: a changed tool is allowed", scope)
		}

		g = newApprovalRig(t, 0)
		g.grant(scope, by("exec_1", "i1", "ann"))
		g.stack = toolcall.New(toolcall.Config{Catalog: g.cat, Upstream: g.server,
			Policy: func() *policy.Policy { return ruling(t, policy.Block) }})
		if g.allowed(by("exec_1", "i1", "bob")) {
			t.Errorf("%s: a blocked call is allowed", scope)
		}

		g = newApprovalRig(t, 200*time.Millisecond)
		first := by("exec_1", "i1", "ann")
		for unwrapped(g.caller().Call(t.Context(), withApprover(first, granting(scope)))) != nil { // the machine is slow
			first.Execution += "x"
		}
		for scope != "tool" && len(g.grants()) > 0 {
			time.Sleep(10 * time.Millisecond)
		}
		if got, want := g.allowed(by(first.Execution, "i1", "bob")), scope == "tool"; got != want {
			t.Errorf("%s: allowed after its time: %t", scope, got)
		}
	}
}

// grants returns the grants in force.
func (g *approvalRig) grants() []grant.Grant {
	g.t.Helper()
	all, err := g.home.Approvals.Grants.List(g.t.Context())
	if err != nil {
		g.t.Fatal(err)
	}
	return all
}

func TestRevokedGrantAsksAgain(t *testing.T) {
	g := newApprovalRig(t, 0)
	g.grant("tool", by("exec_1", "", "ann"))
	all := g.grants()
	if len(all) != 1 {
		t.Fatal(all)
	}
	_, err := g.home.Approvals.Grants.Revoke(t.Context(), all[0].ID, func(grant.Grant) error { return nil })
	if err != nil {
		t.Fatal(err)
	}
	if g.allowed(by("exec_1", "", "bob")) {
		t.Error("allowed after it was revoked")
	}
	_, err = g.home.Approvals.Grants.Revoke(t.Context(), all[0].ID, func(grant.Grant) error { return nil })
	if fault.KindOf(err) != fault.NotFound {
		t.Error(err)
	}
}

// A person who allows all calls of an execution is not asked about those that wait already, and is about others.
func TestGrantApprovesWaitingCalls(t *testing.T) {
	g := newApprovalRig(t, 0)
	var waiting sync.WaitGroup
	waiting.Add(3)
	results := make(chan error, 3)
	for _, to := range []string{"ann", "bob", "cid"} {
		go func() {
			_, err := g.caller().Call(t.Context(), withApprover(by("exec_1", "", to),
				func(ctx context.Context, _ tool.Approval) (tool.Reply, error) {
					waiting.Done()
					<-ctx.Done()
					return tool.Reply{}, context.Cause(ctx)
				}))
			results <- err
		}()
	}
	waiting.Wait()
	elsewhere := by("exec_2", "", "dan")
	if g.allowed(elsewhere) {
		t.Error("another execution is allowed")
	}
	open, err := g.home.Approvals.List(t.Context(), false)
	if err != nil || len(open) != 4 {
		t.Fatal(open, err)
	}
	if _, err := g.home.Approvals.Answer(t.Context(), open[0].ID,
		approval.Answer{Approve: true, By: approval.CommandLine, Scope: grant.Execution}); err != nil {
		t.Fatal(err)
	}
	for range 3 {
		if err := <-results; err != nil {
			t.Error(err)
		}
	}
	if open, err := g.home.Approvals.List(t.Context(), false); err != nil || len(open) != 1 || open[0].Execution != "exec_2" {
		t.Errorf("%+v %v", open, err)
	}
}

// A hook judges each call, so that a grant neither covers what it asks about nor comes from it.
func TestHookAsksDespiteGrant(t *testing.T) {
	g := newApprovalRig(t, 0)
	ask := &hook{says: guardrail.Decision{Action: guardrail.Allow}}
	guard, err := guardrail.New(guardrail.Config{Hooks: []guardrail.HookConfig{{On: guardrail.BeforeCall, Hook: ask}}})
	if err != nil {
		t.Fatal(err)
	}
	var lines []audit.Line
	g.stack = toolcall.New(toolcall.Config{Catalog: g.cat, Upstream: g.server,
		Policy: func() *policy.Policy { return ruling(t, policy.Ask) },
		Guard:  func() *guardrail.Guard { return guard }, Audit: func(l audit.Line) { lines = append(lines, l) }})
	g.grant("execution", by("exec_1", "", "ann"))
	if !g.allowed(by("exec_1", "", "bob")) {
		t.Error("not allowed")
	}
	given := g.grants()
	if !slices.ContainsFunc(lines, func(l audit.Line) bool {
		return l.Decision == "granted" && l.Approval == given[0].ID && l.By == approval.Client && l.Execution == "exec_1" &&
			l.Tool == "send"
	}) {
		t.Errorf("the audit log has %+v", lines)
	}
	ask.says = guardrail.Decision{Action: guardrail.Ask, Reason: "odd"}
	if g.allowed(by("exec_1", "", "all@example.com")) {
		t.Error("a call that the hook asks about is allowed")
	}
	open, err := g.home.Approvals.List(t.Context(), false)
	if err != nil || len(open) != 1 || len(open[0].Scopes()) != 1 || string(approval.FormOf(open[0])) != approval.Form {
		t.Fatalf("%+v %v", open, err)
	}
	for _, scope := range []grant.Scope{grant.Execution, grant.Session, grant.Tool} {
		if _, err := g.home.Approvals.Answer(t.Context(), open[0].ID,
			approval.Answer{Approve: true, Scope: scope}); fault.KindOf(err) != fault.Invalid {
			t.Errorf("%s: %v", scope, err)
		}
	}
	// Policy and hook ask: the person cannot allow more than this call either.
	other := by("exec_9", "", "eve")
	g.allowed(other)
	if open, err = g.home.Approvals.List(t.Context(), false); err != nil || len(open) != 2 || len(open[1].Scopes()) != 1 {
		t.Errorf("%+v %v", open, err)
	}
}

func TestDryRunListsGrantedCalls(t *testing.T) {
	g := newApprovalRig(t, 0)
	g.grant("tool", by("exec_1", "", "ann"))
	plan := &toolcall.Plan{}
	res, err := g.stack.For(toolcall.Owner{Home: g.home, Gate: open(t), Plan: plan}).Call(t.Context(), by("exec_2", "", "bob"))
	if err != nil || res.Planned != 1 || len(g.calls) != 1 {
		t.Errorf("%+v, %v, %d calls", res, err, len(g.calls))
	}
}

// The form says what a choice allows, and offers none that is not possible.
func TestFormOffersScopes(t *testing.T) {
	g := newApprovalRig(t, 0)
	form := func(c tool.Call) (schema string) {
		_, _ = g.caller().Call(t.Context(), withApprover(c, func(_ context.Context, a tool.Approval) (tool.Reply, error) {
			schema = string(a.Schema)
			return tool.Reply{Action: tool.Decline}, nil
		}))
		return schema
	}
	all := form(by("exec_1", "i1", "ann"))
	for _, want := range []string{`"enum":["once","execution","session","tool"]`, `"default":"once"`, "ANY arguments",
		`This adds the rule {tool: \"crm.send\", decision: allow}`} {
		if !strings.Contains(all, want) {
			t.Errorf("no %s in %s", want, all)
		}
	}
	if client := form(by("", "", "ann")); !strings.Contains(client, `"enum":["once","tool"]`) {
		t.Error(client)
	}
}
