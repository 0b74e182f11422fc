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
)

func of(t testing.TB, c policy.Call, id, execution string) policy.Call {
	t.Helper()
	var err error
	if c.Tenant, err = tenant.Parse(id); err != nil {
		t.Fatal(err)
	}
	c.Execution = execution
	return c
}

// made makes up to n calls, and returns how many were allowed to go on.
func made(t *testing.T, p *policy.Policy, c policy.Call, n int) (allowed int) {
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

func TestABudgetIsOfEachTenantAndComesBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := open(t, policy.Config{Budgets: []policy.Budget{{Name: "mails", Scope: tools("mail.send*"), Calls: 3, Per: policy.Hour}}})
		send := of(t, call("mail", "send_all", `{}`), "acme", "exec_1")
		if got := made(t, p, send, 2); got != 2 {
			t.Errorf("made %d calls of 2", got)
		}
		time.Sleep(20 * time.Minute)
		if got := made(t, p, send, 5); got != 1 {
			t.Errorf("made %d calls, of which 1 was left", got)
		}
		d, err := p.Decide(t.Context(), send)
		want := "its 3 calls in an hour are used up; the next may be made in 40m0s, at " + time.Now().Add(40*time.Minute).UTC().Format(time.RFC3339)
		if err != nil || d != (policy.Decision{Verdict: policy.Block, Rule: "mails", Reason: want}) {
			t.Errorf("%+v, %v", d, err)
		}
		if e, err := p.Explain(t.Context(), send); err != nil || e.Budgets[0].Left != 0 || time.Until(*e.Budgets[0].Free) != 40*time.Minute {
			t.Errorf("%+v, %v", e, err)
		}
		if got := made(t, p, of(t, send, "ops", "exec_1"), 5); got != 3 {
			t.Errorf("another tenant made %d calls of 3", got)
		}
		if got := made(t, p, of(t, call("mail", "read", `{}`), "acme", ""), 50); got != 50 {
			t.Errorf("another tool was called %d times of 50", got)
		}
		time.Sleep(40*time.Minute - time.Second)
		if got := made(t, p, send, 1); got != 0 {
			t.Error("a call was made too early")
		}
		time.Sleep(time.Second)
		if got := made(t, p, send, 5); got != 2 {
			t.Errorf("made %d calls, 2 of which were made an hour ago", got)
		}
	})
}

func TestABudgetOfAnExecutionIsOfEachExecution(t *testing.T) {
	p := open(t, policy.Config{Budgets: []policy.Budget{{Calls: 2, Per: policy.Execution}, {Calls: 5, Per: policy.Day}}})
	c := call("crm", "send", `{}`)
	for i, want := range []int{2, 2, 1, 0} {
		if got := made(t, p, of(t, c, "acme", fmt.Sprint("exec_", i)), 9); got != want {
			t.Errorf("execution %d made %d calls of %d", i, got, want)
		}
	}
	if got := made(t, p, of(t, c, "ops", "exec_0"), 9); got != 2 {
		t.Errorf("that of another tenant made %d", got)
	}
	if got := made(t, p, of(t, c, "third", ""), 9); got != 5 {
		t.Errorf("without an execution %d were made", got)
	}
	d := p.Take(of(t, c, "ops", "exec_0"))
	if d.Verdict != policy.Block || d.Rule != "budget 1" || d.Reason != "its 2 calls in this execution are used up" {
		t.Errorf("%+v", d)
	}
}

func TestACallThatOneBudgetRefusesIsCountedInNone(t *testing.T) {
	p := open(t, policy.Config{Budgets: []policy.Budget{{Calls: 3, Per: policy.Day}, {Scope: tools("crm.send"), Calls: 1, Per: policy.Day}}})
	made(t, p, call("crm", "send", `{}`), 10)
	for range 10 { // nor is what is only looked at
		p.Decide(t.Context(), call("crm", "get", `{}`))
		p.Explain(t.Context(), call("crm", "get", `{}`))
	}
	if got := made(t, p, call("crm", "get", `{}`), 10); got != 2 {
		t.Errorf("made %d calls of 2", got)
	}
}

func TestNoMoreCallsGoOnThanABudgetHas(t *testing.T) {
	p := open(t, policy.Config{Budgets: []policy.Budget{{Calls: 100, Per: policy.Day}, {Calls: 60, Per: policy.Execution}}})
	var wg sync.WaitGroup
	var allowed atomic.Int64
	for i := range 8 {
		wg.Go(func() { allowed.Add(int64(made(t, p, call("crm", "send", `{}`), 50))) })
		wg.Go(func() {
			c := call("crm", "send", `{}`)
			c.Execution = "exec_" + strings.Repeat("x", i)
			p.Explain(t.Context(), c)
		})
	}
	wg.Wait()
	if allowed.Load() != 60 {
		t.Errorf("%d calls went on", allowed.Load())
	}
}

func TestInAnyHourNoMoreCallsGoOnThanABudgetHas(t *testing.T) {
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
				t.Fatalf("5001 calls within %s", d)
			}
		}
		// A window counts in steps; what is late by them is little.
		if most := 20_000 * 2 / 5; len(when) < 5000*most/3600*99/100 {
			t.Errorf("%d calls in %d seconds", len(when), most)
		}
	})
}

func TestManyTenantsAndExecutionsLeaveLittleBehind(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := open(t, policy.Config{Budgets: []policy.Budget{{Calls: 5, Per: policy.Minute}, {Calls: 3, Per: policy.Execution}}})
		for i := range 200_000 {
			if i%10_000 == 0 {
				time.Sleep(time.Minute)
			}
			p.Take(of(t, call("crm", "send", `{}`), fmt.Sprint("t", i), fmt.Sprint("exec_", i)))
		}
		if windows, executions := p.Counted(); windows > 40_000 || executions > 1<<16 {
			t.Errorf("%d windows and %d executions are kept", windows, executions)
		}
		if got := made(t, p, of(t, call("crm", "send", `{}`), "t199999", "exec_199999"), 5); got != 2 {
			t.Errorf("the last one made %d more calls of 2", got)
		}
	})
}
