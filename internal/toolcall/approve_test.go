package toolcall_test

import (
	"bytes"
	"context"
	"encoding/json"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/sandpiper-mcp/sandpiper/internal/fault"
	"github.com/sandpiper-mcp/sandpiper/internal/home"
	"github.com/sandpiper-mcp/sandpiper/internal/home/approval"
	"github.com/sandpiper-mcp/sandpiper/internal/policy"
	"github.com/sandpiper-mcp/sandpiper/internal/store"
	"github.com/sandpiper-mcp/sandpiper/internal/store/tenant"
	"github.com/sandpiper-mcp/sandpiper/internal/tool"
	"github.com/sandpiper-mcp/sandpiper/internal/tool/catalog"
	"github.com/sandpiper-mcp/sandpiper/internal/toolcall"
)

// approvalRig is a rig whose policy requires approval of every call.
type approvalRig struct {
	*server
	cat   *catalog.Catalog
	stack *toolcall.Stack
	t     *testing.T
}

func approvals(timeout time.Duration) func(tenant.ID, *store.DB) (*approval.Store, error) {
	return func(id tenant.ID, db *store.DB) (*approval.Store, error) {
		return approval.New(approval.Config{DB: db, Tenant: id, Key: bytes.Repeat([]byte{1}, 32), Timeout: timeout})
	}
}

func newApprovalRig(t *testing.T, timeout time.Duration) *approvalRig {
	t.Helper()
	dir := t.TempDir()
	homes, err := home.Open(t.Context(), home.Config{Root: filepath.Join(dir, "data"), Approvals: approvals(timeout)})
	if err != nil {
		t.Fatal(err)
	}
	home, err := homes.Acquire(t.Context(), tenant.Local)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { home.Release(context.Background()); homes.Close() })
	cat, err := catalog.Open(catalog.Config{Dir: filepath.Join(dir, "catalog"), Servers: []catalog.Configured{{Name: "crm"}}})
	if err != nil {
		t.Fatal(err)
	}
	put(t, cat, "Sends.")
	rules, err := policy.New(policy.Config{Default: policy.Ask})
	if err != nil {
		t.Fatal(err)
	}
	s := &server{home: home, answer: func(tool.Call) (tool.Result, error) { return text(`{"id": 5}`), nil }}
	return &approvalRig{s, cat, toolcall.New(toolcall.Config{Catalog: cat, Upstream: s, Policy: func() *policy.Policy { return rules }}), t}
}

// caller returns the caller of one run of the code.
func (g *approvalRig) caller() tool.Caller {
	return g.stack.For(toolcall.Owner{Home: g.home, Gate: open(g.t)})
}

// withApprover returns c with ask as the user who answers its approvals.
func withApprover(c tool.Call, ask func(context.Context, tool.Approval) (tool.Reply, error)) tool.Call {
	c.Approve = ask
	return c
}

func yes(context.Context, tool.Approval) (tool.Reply, error) {
	return tool.Reply{Action: tool.Accept, Content: json.RawMessage(`{"approve":true}`)}, nil
}

// failIfAsked fails the test.
func (g *approvalRig) failIfAsked(context.Context, tool.Approval) (tool.Reply, error) {
	g.t.Error("approval was requested again")
	return tool.Reply{Action: tool.Decline}, nil
}

// wantRefused checks that err contains want and that the server was not called.
func (g *approvalRig) wantRefused(err error, want string) {
	g.t.Helper()
	if err == nil || !strings.Contains(fault.Message(err)+err.Error(), want) {
		g.t.Errorf("%v, want %q", err, want)
	}
	if len(g.calls) != 0 {
		g.t.Errorf("the server was called: %+v", g.calls)
	}
}

func TestApprovedCallSendsTheShownArguments(t *testing.T) {
	g := newApprovalRig(t, 0)
	var shown string
	_, err := g.caller().Call(t.Context(), withApprover(call("crm", "send", `{ "to":"ann", "n": 12345678901234567890}`),
		func(ctx context.Context, a tool.Approval) (tool.Reply, error) {
			shown = a.Text
			if r, err := g.home.Approvals.Find(ctx, a.ID); err != nil || r.State != approval.Open ||
				string(r.Shown) != `{"to":"ann","n":12345678901234567890}` {
				t.Errorf("%+v %v", r, err)
			}
			return yes(ctx, a)
		}))
	if err != nil || len(g.calls) != 1 || string(g.calls[0].Args) != `{"to":"ann","n":12345678901234567890}` || !strings.Contains(shown,
		`"n": 12345678901234567890`) {
		t.Errorf("%v %+v\n%s", err, g.calls, shown)
	}
}

func TestApprovalIsInvalidAfterToolChange(t *testing.T) {
	g := newApprovalRig(t, 0)
	_, err := g.caller().Call(t.Context(), withApprover(call("crm", "send", `{"to":"ann"}`),
		func(ctx context.Context, a tool.Approval) (tool.Reply, error) {
			put(t, g.cat, "Sends to everybody.")
			return yes(ctx, a)
		}))
	g.wantRefused(err, "its definition has changed")
	put(t, g.cat, "Sends.")
	_, err = g.caller().Call(t.Context(), withApprover(call("crm", "send", `{"to":"bob"}`),
		func(ctx context.Context, a tool.Approval) (tool.Reply, error) {
			put(t, g.cat, "Sends to everybody.")
			if _, err := g.cat.Accept(ctx, "crm"); err != nil {
				t.Error(err)
			}
			return yes(ctx, a)
		}))
	g.wantRefused(err, "the tool has changed since approval")
}

func TestFirstAnswerToApprovalCounts(t *testing.T) {
	g := newApprovalRig(t, 0)
	// the approval is answered elsewhere while the client shows the question
	_, err := g.caller().Call(t.Context(), withApprover(call("crm", "send", `{"to":"ann"}`), func(ctx context.Context, a tool.Approval) (tool.Reply, error) {
		if _, err := g.home.Approvals.Answer(t.Context(), a.ID, approval.Answer{By: approval.CommandLine, Note: "no\nway"}); err != nil {
			t.Error(err)
		}
		<-ctx.Done() // the question is withdrawn
		return tool.Reply{}, context.Cause(ctx)
	}))
	g.wantRefused(err, `the user declined: no\u000away`)
	// the client still sends its answer
	_, err = g.caller().Call(t.Context(), withApprover(call("crm", "send", `{"to":"bob"}`), func(ctx context.Context, a tool.Approval) (tool.Reply, error) {
		if _, err := g.home.Approvals.Answer(t.Context(), a.ID, approval.Answer{By: approval.CommandLine}); err != nil {
			t.Error(err)
		}
		return yes(ctx, a)
	}))
	g.wantRefused(err, "the user declined")
}

func TestEachCallNeedsItsOwnApproval(t *testing.T) {
	g := newApprovalRig(t, 0)
	run := g.caller()
	var ids sync.Map
	n := 0
	ask := func(ctx context.Context, a tool.Approval) (tool.Reply, error) {
		if _, known := ids.LoadOrStore(a.ID, true); !known {
			n++
		}
		return yes(ctx, a)
	}
	for _, args := range []string{`{"to":"ann"}`, `{"to":"ann"}`, `{"to":"bob"}`} {
		if _, err := run.Call(t.Context(), withApprover(call("crm", "send", args), ask)); err != nil {
			t.Error(err)
		}
	}
	if n != 3 || len(g.calls) != 3 {
		t.Errorf("%d approvals for %d calls", n, len(g.calls))
	}
}

// An execution that ended while approval was pending is resumed with the answer.
func TestReplayUsesEarlierApproval(t *testing.T) {
	g := newApprovalRig(t, 0)
	ctx, end := context.WithCancel(t.Context())
	var id string
	_, err := g.caller().Call(ctx, withApprover(call("crm", "send", `{"to":"ann"}`),
		func(ctx context.Context, a tool.Approval) (tool.Reply, error) {
			id = a.ID
			end()
			<-ctx.Done()
			return tool.Reply{}, context.Cause(ctx)
		}))
	if err == nil {
		t.Fatal("a call of an ended run succeeded")
	}
	if _, err := g.home.Approvals.Answer(t.Context(), id, approval.Answer{Approve: true, By: approval.CommandLine}); err != nil {
		t.Fatal(err)
	}
	other := call("crm", "send", `{"to":"ann"}`)
	other.Execution = "exec_2"
	_, err = g.caller().Call(t.Context(), withApprover(other, func(context.Context, tool.Approval) (tool.Reply, error) {
		return tool.Reply{Action: tool.Decline}, nil
	}))
	g.wantRefused(err, "declined")
	if _, err := g.caller().Call(t.Context(), withApprover(call("crm", "send", `{"to":"ann"}`), g.failIfAsked)); err != nil ||
		len(g.calls) != 1 {
		t.Errorf("%v, %d calls", err, len(g.calls))
	}
}

// A process that ends after it has used an approval, before the start of the call is on disk, has not made
// the call. The next one makes it, without asking again.
func TestReplayMakesApprovedCallThatWasNotBegun(t *testing.T) {
	c := newRestarts(t)
	rules, err := policy.New(policy.Config{Default: policy.Ask})
	if err != nil {
		t.Fatal(err)
	}
	c.stack = toolcall.New(toolcall.Config{Catalog: c.cat, Upstream: c.server, Policy: func() *policy.Policy { return rules }})
	send := call("crm", "send", `{"to":"ann"}`)
	asked := 0
	send = withApprover(send, func(ctx context.Context, a tool.Approval) (tool.Reply, error) {
		asked++
		return yes(ctx, a)
	})
	run := func(caller tool.Caller, wantAsked, wantCalls int) {
		t.Helper()
		asked = 0
		_, err := caller.Call(t.Context(), send)
		if err != nil || asked != wantAsked || len(c.calls) != wantCalls {
			t.Errorf("%v; asked %d times, want %d; called %d times, want %d", err, asked, wantAsked, len(c.calls), wantCalls)
		}
	}
	run(c.first(t), 1, 1)
	c.start(t)
	lost := c.first(t) // a record without the call
	run(lost, 0, 1)
	run(lost, 1, 2) // a second, equal call
	c.start(t)
	send.Args = json.RawMessage(`{"to":"bob"}`)
	run(c.first(t), 1, 1)

	// A call that may have been made needs its own approval, after the person has decided to make it again.
	c = newRestarts(t)
	c.stack = toolcall.New(toolcall.Config{Catalog: c.cat, Upstream: c.server, Policy: func() *policy.Policy { return rules }})
	c.interrupt(t, c.first(t), send)
	c.answer = func(tool.Call) (tool.Result, error) { return text(`"sent"`), nil }
	send.Decide = func(context.Context, int, tool.Ref, json.RawMessage) (tool.Decision, error) {
		return tool.Decision{Outcome: tool.NoEffect}, nil
	}
	run(c.resume(t), 1, 1)
}

func TestReplayUsesEarlierDenial(t *testing.T) {
	g := newApprovalRig(t, 0)
	deny := func(context.Context, tool.Approval) (tool.Reply, error) {
		return tool.Reply{Action: tool.Accept, Content: json.RawMessage(`{"approve":false,"reason":"not today"}`)}, nil
	}
	for i := range 3 {
		ask := g.failIfAsked
		if i == 0 {
			ask = deny
		}
		_, err := g.caller().Call(t.Context(), withApprover(call("crm", "send", `{"to":"ann"}`), ask))
		g.wantRefused(err, "the user declined: not today")
	}
}

func TestDenialOutsideExecutionIsReportedOnce(t *testing.T) {
	g := newApprovalRig(t, 0)
	c := call("crm", "send", `{"to":"ann"}`)
	c.Execution = ""
	_, err := g.caller().Call(t.Context(), c)
	g.wantRefused(err, "it needs approval ")
	waits, err := g.home.Approvals.List(t.Context(), false)
	if err != nil || len(waits) != 1 {
		t.Fatal(waits, err)
	}
	if _, err := g.home.Approvals.Answer(t.Context(), waits[0].ID, approval.Answer{By: approval.CommandLine, Note: "no"}); err != nil {
		t.Fatal(err)
	}
	_, err = g.caller().Call(t.Context(), withApprover(c, g.failIfAsked))
	g.wantRefused(err, "the user declined: no")
	_, err = g.caller().Call(t.Context(), c)
	g.wantRefused(err, "it needs approval ")
	all, err := g.home.Approvals.List(t.Context(), true)
	if err != nil || len(all) != 2 || all[0].State != approval.Denied || all[1].State != approval.Open {
		t.Errorf("%+v %v", all, err)
	}
}

func TestRepeatedCallUsesLaterApproval(t *testing.T) {
	g := newApprovalRig(t, 0)
	c := call("crm", "send", `{"to":"ann"}`)
	c.Execution = ""
	_, err := g.caller().Call(t.Context(), c)
	g.wantRefused(err, "it needs approval ")
	_, err = g.caller().Call(t.Context(), withApprover(c, func(context.Context, tool.Approval) (tool.Reply, error) {
		return tool.Reply{}, fault.New(fault.Unavailable, "the client did not show it")
	}))
	g.wantRefused(err, "it needs approval ")
	open, err := g.home.Approvals.List(t.Context(), false)
	if err != nil || len(open) != 1 || !strings.Contains(fault.Hint(unwrapped(g.caller().Call(t.Context(), c))),
		"approvals approve "+open[0].ID) {
		t.Fatal(open, err)
	}
	if _, err := g.home.Approvals.Answer(t.Context(), open[0].ID, approval.Answer{Approve: true, By: approval.CommandLine}); err != nil {
		t.Fatal(err)
	}
	var wg sync.WaitGroup
	passed := make(chan bool, 4)
	for range 4 { // concurrently
		wg.Go(func() {
			_, err := g.caller().Call(t.Context(), c)
			passed <- err == nil
		})
	}
	wg.Wait()
	n := 0
	for range 4 {
		if <-passed {
			n++
		}
	}
	if n != 1 || len(g.calls) != 1 {
		t.Errorf("%d passed, and %d were made", n, len(g.calls))
	}
}

func unwrapped(_ tool.Result, err error) error { return err }

func TestApprovalExpires(t *testing.T) {
	g := newApprovalRig(t, time.Millisecond)
	_, err := g.caller().Call(t.Context(), withApprover(call("crm", "send", `{"to":"ann"}`),
		func(ctx context.Context, _ tool.Approval) (tool.Reply, error) {
			<-ctx.Done()
			return tool.Reply{}, context.Cause(ctx)
		}))
	g.wantRefused(err, "is expired")
}
