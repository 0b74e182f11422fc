package toolcall_test

import (
	"context"
	"sync/atomic"
	"testing"

	"github.com/sandpiper-mcp/sandpiper/internal/fault"
	"github.com/sandpiper-mcp/sandpiper/internal/policy"
	"github.com/sandpiper-mcp/sandpiper/internal/tool"
	"github.com/sandpiper-mcp/sandpiper/internal/toolcall"
)

// An execution keeps its policy when another one is loaded, unless that is stricter.
func TestLaterPolicyOnlyRestrictsRunningExecution(t *testing.T) {
	var now atomic.Pointer[policy.Policy]
	for _, c := range []struct{ began, later, running, next policy.Verdict }{
		{policy.Allow, policy.Block, policy.Block, policy.Block},
		{policy.Block, policy.Allow, policy.Block, policy.Allow},
		{policy.Allow, policy.Allow, policy.Allow, policy.Allow},
	} {
		now.Store(ruling(t, c.began))
		g := newApprovalRig(t, 0)
		g.stack = toolcall.New(toolcall.Config{Catalog: g.cat, Upstream: g.server, Policy: now.Load})
		running := g.caller()
		now.Store(ruling(t, c.later))
		for _, of := range []struct {
			tool.Caller
			want policy.Verdict
		}{{running, c.running}, {g.caller(), c.next}} {
			_, err := of.Call(t.Context(), call("crm", "send", `{"to":"ann"}`))
			if (err == nil) != (of.want == policy.Allow) || err != nil && fault.KindOf(err) != fault.Denied {
				t.Errorf("began with %s, now %s: %v, want %s", c.began, c.later, err, of.want)
			}
		}
	}
}

func TestLaterPolicyBlocksApprovedCall(t *testing.T) {
	g := newApprovalRig(t, 0)
	var now atomic.Pointer[policy.Policy]
	now.Store(ruling(t, policy.Ask))
	g.stack = toolcall.New(toolcall.Config{Catalog: g.cat, Upstream: g.server, Policy: now.Load})
	_, err := g.caller().Call(t.Context(), withApprover(call("crm", "send", `{"to":"ann"}`),
		func(ctx context.Context, a tool.Approval) (tool.Reply, error) {
			now.Store(ruling(t, policy.Block))
			return yes(ctx, a)
		}))
	g.wantRefused(err, "policy says block")
}

func ruling(t *testing.T, d policy.Verdict) *policy.Policy {
	t.Helper()
	p, err := policy.New(policy.Config{Default: d})
	if err != nil {
		t.Fatal(err)
	}
	return p
}
