package policy_test

import (
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sandpiper-mcp/sandpiper/internal/policy"
	"github.com/sandpiper-mcp/sandpiper/internal/store/tenant"
	"github.com/sandpiper-mcp/sandpiper/internal/tool"
)

func withTenant(t testing.TB, c policy.Call, id, execution string) policy.Call {
	t.Helper()
	var err error
	if c.Tenant, err = tenant.Parse(id); err != nil {
		t.Fatal(err)
	}
	c.Execution = execution
	return c
}

// countAllowed makes n calls and returns how many were allowed.
func countAllowed(t *testing.T, p *policy.Policy, c policy.Call, n int) (allowed int) {
	t.Helper()
	for range n {
		if d, err := p.Decide(t.Context(), c); err != nil || d.Verdict != policy.Allow {
			continue
		}
		if p.Take(c).Verdict == policy.Allow {
			allowed++
		}
	}
	return allowed
}

func TestBudgetPerTenantRecovers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := open(t, policy.Config{Budgets: []policy.Budget{{Name: "mails", Scope: tools("mail.send*"), Calls: 3, Per: policy.Hour}}})
		send := withTenant(t, call("mail", "send_all", `{}`), "acme", "exec_1")
		if got := countAllowed(t, p, send, 2); got != 2 {
			t.Errorf("allowed %d calls of 2", got)
		}
		time.Sleep(20 * time.Minute)
		if got := countAllowed(t, p, send, 5); got != 1 {
			t.Errorf("allowed %d calls, want the 1 that was left", got)
		}
		d, err := p.Decide(t.Context(), send)
		want := "its 3 calls in an hour are used up; the next may be made in 40m0s, at " + time.Now().Add(40*time.Minute).UTC().
			Format(time.RFC3339)
		if err != nil || d != (policy.Decision{Verdict: policy.Block, Rule: "mails", Reason: want}) {
			t.Errorf("%+v, %v", d, err)
		}
		if e, err := p.Explain(t.Context(), send); err != nil || e.Budgets[0].Left != 0 ||
			time.Until(*e.Budgets[0].FreeAt) != 40*time.Minute {
			t.Errorf("%+v, %v", e, err)
		}
		if got := countAllowed(t, p, withTenant(t, send, "ops", "exec_1"), 5); got != 3 {
			t.Errorf("allowed %d calls of another tenant, want 3", got)
		}
		if got := countAllowed(t, p, withTenant(t, call("mail", "read", `{}`), "acme", ""), 50); got != 50 {
			t.Errorf("allowed %d calls of another tool, want 50", got)
		}
		time.Sleep(40*time.Minute - time.Second)
		if got := countAllowed(t, p, send, 1); got != 0 {
			t.Error("allowed a call before an hour had passed")
		}
		time.Sleep(time.Second)
		if got := countAllowed(t, p, send, 5); got != 2 {
			t.Errorf("allowed %d calls, want the 2 that were made an hour ago", got)
		}
	})
}

func TestBudgetPerExecution(t *testing.T) {
	p := open(t, policy.Config{Budgets: []policy.Budget{{Calls: 2, Per: policy.Execution}, {Calls: 5, Per: policy.Day}}})
	c := call("crm", "send", `{}`)
	for i, want := range []int{2, 2, 1, 0} {
		if got := countAllowed(t, p, withTenant(t, c, "acme", fmt.Sprint("exec_", i)), 9); got != want {
			t.Errorf("execution %d: allowed %d calls, want %d", i, got, want)
		}
	}
	if got := countAllowed(t, p, withTenant(t, c, "ops", "exec_0"), 9); got != 2 {
		t.Errorf("allowed %d calls of an execution of another tenant with the same ID, want 2", got)
	}
	if got := countAllowed(t, p, withTenant(t, c, "third", ""), 9); got != 5 {
		t.Errorf("allowed %d calls without an execution, want 5", got)
	}
	d := p.Take(withTenant(t, c, "ops", "exec_0"))
	if d.Verdict != policy.Block || d.Rule != "budget 1" || d.Reason != "its 2 calls in this execution are used up" {
		t.Errorf("%+v", d)
	}
}

func TestTakeCountsInAllBudgetsOrNone(t *testing.T) {
	p := open(t, policy.Config{Budgets: []policy.Budget{{Calls: 3, Per: policy.Day},
		{Scope: tools("crm.send"), Calls: 1, Per: policy.Day}}})
	countAllowed(t, p, call("crm", "send", `{}`), 10)
	for range 10 { // neither Decide nor Explain counts
		p.Decide(t.Context(), call("crm", "get", `{}`))
		p.Explain(t.Context(), call("crm", "get", `{}`))
	}
	if got := countAllowed(t, p, call("crm", "get", `{}`), 10); got != 2 {
		t.Errorf("allowed %d calls of 2", got)
	}
}

func TestBudgetLimitsConcurrentCalls(t *testing.T) {
	p := open(t, policy.Config{Budgets: []policy.Budget{{Calls: 100, Per: policy.Day}, {Calls: 60, Per: policy.Execution}}})
	var wg sync.WaitGroup
	var allowed atomic.Int64
	for i := range 8 {
		wg.Go(func() { allowed.Add(int64(countAllowed(t, p, call("crm", "send", `{}`), 50))) })
		wg.Go(func() {
			c := call("crm", "send", `{}`)
			c.Execution = "exec_" + strings.Repeat("x", i)
			p.Explain(t.Context(), c)
		})
	}
	wg.Wait()
	if allowed.Load() != 60 {
		t.Errorf("allowed %d calls, want 60", allowed.Load())
	}
}

func TestBudgetHoldsInEverySlidingWindow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := open(t, policy.Config{Budgets: []policy.Budget{{Calls: 5000, Per: policy.Hour}}})
		var when []time.Time
		for range 20_000 {
			time.Sleep(400 * time.Millisecond)
			if p.Take(call("crm", "send", `{}`)).Verdict == policy.Allow {
				when = append(when, time.Now())
			}
		}
		for i := range when[5000:] {
			if d := when[i+5000].Sub(when[i]); d < time.Hour {
				t.Fatalf("allowed 5001 calls within %s", d)
			}
		}
		// Calls of one step expire together, so a call may be delayed by one step.
		if most := 20_000 * 2 / 5; len(when) < 5000*most/3600*99/100 {
			t.Errorf("allowed %d calls in %d seconds", len(when), most)
		}
	})
}

func TestCountersOfPastPeriodsAreRemoved(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := open(t, policy.Config{Budgets: []policy.Budget{{Calls: 5, Per: policy.Minute}, {Calls: 3, Per: policy.Execution}}})
		for i := range 200_000 {
			if i%10_000 == 0 {
				time.Sleep(time.Minute)
			}
			p.Take(withTenant(t, call("crm", "send", `{}`), fmt.Sprint("t", i), fmt.Sprint("exec_", i)))
		}
		if windows, executions := p.Counted(); windows > 40_000 || executions > 1<<16 {
			t.Errorf("%d windows and %d executions are stored", windows, executions)
		}
		if got := countAllowed(t, p, withTenant(t, call("crm", "send", `{}`), "t199999", "exec_199999"), 5); got != 2 {
			t.Errorf("allowed the last execution %d more calls, want 2", got)
		}
	})
}

func TestLaterPolicyKeepsCounts(t *testing.T) {
	budget := func(calls int, per policy.Per, tools ...string) policy.Budget {
		return policy.Budget{Calls: calls, Per: per, Scope: policy.Scope{Tools: tools}}
	}
	build := func(b ...policy.Budget) *policy.Policy {
		t.Helper()
		p, err := policy.New(policy.Config{Budgets: b})
		if err != nil {
			t.Fatal(err)
		}
		return p
	}
	call := withTenant(t, policy.Call{Ref: tool.Ref{Server: "crm", Tool: "send"}}, "acme", "exec_1")
	first := build(budget(3, policy.Hour, "crm.send"))
	if n := countAllowed(t, first, call, 2); n != 2 {
		t.Fatal(n)
	}
	more := build(budget(100, policy.Minute, "crm.*"), budget(5, policy.Hour, "crm.send"))
	more.KeepCounts(first)
	if n := countAllowed(t, first, call, 5); n != 1 { // an execution that began with it
		t.Errorf("the first policy allows %d more calls", n)
	}
	if n := countAllowed(t, more, call, 5); n != 2 {
		t.Errorf("the second policy allows %d more calls", n)
	}
	fewer := build(budget(4, policy.Hour, "crm.send"), budget(4, policy.Hour, "crm.send"))
	fewer.KeepCounts(more)
	if n := countAllowed(t, fewer, call, 5); n != 0 {
		t.Errorf("the third policy allows %d more calls", n)
	}
	other := build(budget(4, policy.Hour, "crm.*"))
	other.KeepCounts(fewer)
	if n := countAllowed(t, other, call, 5); n != 4 {
		t.Errorf("a budget for other calls allows %d", n)
	}
}
