package main

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/sandpiper-mcp/sandpiper/internal/longtest"
)

// restarts describes when an approval is answered: before or after its daemon is killed
// and restarted.
var restarts = map[string]func(t *testing.T, p *approvalClient, id string){
	"approved while no daemon runs": func(t *testing.T, p *approvalClient, id string) {
		p.kill()
		p.approves(id)
		p.formClient = restartDaemon(t, p, `{}`)
	},
	"approved after the restart": func(t *testing.T, p *approvalClient, id string) {
		p.kill()
		p.formClient = restartDaemon(t, p, `{}`)
		p.approves(id)
	},
}

func (p *approvalClient) approves(id string) {
	p.t.Helper()
	if out, errs, code := p.sandpiper("approvals", "approve", id); code != 0 {
		p.t.Fatal(out, errs)
	}
}

// A call that needs approval survives kill -9 of its daemon: earlier calls are not
// repeated, the call is made once, and later calls need their own approval.
func TestApprovalSurvivesDaemonRestart(t *testing.T) {
	longtest.SkipSlow(t)
	t.Parallel()
	for _, version := range testedVersions {
		for when, restart := range restarts {
			t.Run(version+" "+when, func(t *testing.T) {
				p := newApprovalClient(t, version, `{}`, "")
				id, first := p.suspend(upsert("a@example.com", "b@example.com", "c@example.com"))
				p.approves(first[0])
				second := p.resumeUntilApproval(id)
				restart(t, p, second)
				third := p.resumeUntilApproval(id)
				if third == second || third == first[0] || len(p.serverCalls()) != 2 {
					t.Fatalf("asked for %s again, and the server was called with %q", third, p.serverCalls())
				}
				p.approves(third)
				r := p.resumeExecution(id, "").result(t)
				if !r.Success || string(r.Result) != "[1,1,1]" {
					t.Errorf("%+v", r)
				}
				p.checkCalledOnce("a@", "b@", "c@")
			})
		}
	}
}

// A denial survives kill -9 of its daemon: the question is not repeated, and the code
// receives the denial.
func TestDenialSurvivesDaemonRestart(t *testing.T) {
	longtest.SkipSlow(t)
	t.Parallel()
	for _, version := range testedVersions {
		t.Run(version, func(t *testing.T) {
			p := newApprovalClient(t, version, `{}`, "")
			id, first := p.suspend(upsert("a@example.com", "b@example.com"))
			p.kill()
			if out, errs, code := p.sandpiper("approvals", "deny", first[0], "--reason", "not her"); code != 0 {
				t.Fatal(out, errs)
			}
			p.formClient = restartDaemon(t, p, `{}`)
			if second := p.resumeUntilApproval(id); second == first[0] {
				t.Fatal("the question was asked again")
			} else {
				p.approves(second)
			}
			r := p.resumeExecution(id, "").result(t)
			if !r.Success || !strings.Contains(string(r.Result), "declined: not her") {
				t.Errorf("%+v", r)
			}
			p.checkCalledOnce("b@")
		})
	}
}

// resumeUntilApproval resumes an execution until it needs another approval.
func (p *approvalClient) resumeUntilApproval(id string) (approval string) {
	p.t.Helper()
	r := p.resumeExecution(id, "").result(p.t)
	if r.ErrorType != "approval_required" || len(r.Questions) != 1 {
		p.t.Fatalf("%+v", r)
	}
	// Question numbers restart with the second run.
	if q := r.Questions[0]; q.ID != q.Approval {
		p.t.Errorf("approval %s has the question id %s", q.Approval, q.ID)
	}
	return r.Questions[0].Approval
}

// checkCalledOnce checks that the server was called once with each address, in order.
func (p *approvalClient) checkCalledOnce(addresses ...string) {
	p.t.Helper()
	calls := p.serverCalls()
	for i, a := range addresses {
		if len(calls) != len(addresses) || !strings.Contains(calls[i], a) {
			p.t.Fatalf("the server was called with %q, and not once with each of %q", calls, addresses)
		}
	}
}

// The answer to a form of the killed daemon applies to the call in that form.
func TestFormIsAnsweredAfterDaemonRestart(t *testing.T) {
	longtest.SkipSlow(t)
	t.Parallel()
	p := newApprovalClient(t, "2026-07-28", formCapabilities["2026-07-28"], "")
	p.sendCode(upsert("a@example.com", "b@example.com"))
	for _, address := range []string{"a@example.com", "b@example.com"} {
		asked, end := p.nextForms()
		if len(asked) != 1 || !strings.Contains(asked[0].text, address) {
			t.Fatalf("asked %+v, %+v", asked, end)
		}
		p.kill()
		p.formClient = restartDaemon(t, p, formCapabilities["2026-07-28"])
		asked[0].answer(approves)
	}
	_, end := p.nextForms()
	if r := end.result(t); !r.Success || string(r.Result) != "[1,1]" {
		t.Errorf("%+v", r)
	}
	p.checkCalledOnce("a@", "b@")
}

// If the daemon is killed between the approval and the end of the call, the call is made
// once, or it is reported as unknown and made at most once.
func TestApprovedCallIsNotRepeatedAfterKill(t *testing.T) {
	longtest.SkipSlow(t)
	t.Parallel()
	for range kills(3) {
		p := newApprovalClient(t, "2025-11-25", `{}`, "")
		id, approvals := p.suspend(upsert("a@example.com"))
		p.approves(approvals[0])
		time.Sleep(rand.N(400 * time.Millisecond)) // until the answer is read and the call made
		p.kill()
		p.formClient = restartDaemon(t, p, `{}`)
		r := p.resumeExecution(id, "").result(t)
		if r.ErrorType == "approval_required" && r.Questions[0].Approval != "" { // the approval was used, and the call had not begun
			p.approves(r.Questions[0].Approval)
			r = p.resumeExecution(id, "").result(t)
		}
		said, n := string(r.Result), len(p.serverCalls())
		switch {
		case said == "[1]" && n == 1, len(r.Questions) == 1 && strings.Contains(r.Questions[0].Text, "unknown whether") && n <= 1:
		case strings.Contains(r.Error, "there is no") && n == 1: // the execution had finished
		default:
			t.Errorf("%+v, the server was called %d times", r, n)
		}
	}
}

// tenCallsCode is code whose plan has ten calls.
var tenCallsCode = func() string {
	code := "from servers import crm\n"
	for i := range 10 {
		code += fmt.Sprintf("crm.upsert_contact(email='%c@example.com')\n", 'a'+i)
	}
	return code
}()

// A plan that is killed while it is applied, and resumed, makes each of its calls once, in
// order. A call in flight is reported as unknown and ends the plan.
func TestPlanCallsAreNotRepeatedAfterKill(t *testing.T) {
	t.Parallel()
	for range kills(4) {
		p := newApprovalClient(t, "2025-11-25", `{}`, "")
		plan := p.dryRun(tenCallsCode).ID
		_, waits := p.applyPlan(plan, "")
		p.approves(waits.Questions[0].Approval)
		for until := 1 + rand.N(8); len(p.serverCalls()) < until; { // the plan continues without a client
			time.Sleep(time.Millisecond)
		}
		p.kill()
		before := len(p.serverCalls())
		p.formClient = restartDaemon(t, p, `{}`)
		_, done := p.applyPlan(plan, "")
		if done.ErrorType == "approval_required" {
			if n := len(p.serverCalls()); n > before+1 { // one call may be in flight
				t.Errorf("%d calls were made, then %d before the next approval", before, n)
			}
			p.approves(done.Questions[0].Approval)
			_, done = p.applyPlan(plan, "")
		}
		p.checkPlanCalls(done)
	}
}

// checkPlanCalls compares the report of a plan of ten calls with the calls of the server.
func (p *approvalClient) checkPlanCalls(done planResult) {
	p.t.Helper()
	calls := p.serverCalls()
	if strings.Contains(done.Error, "there is no plan") && len(calls) == 10 {
		return // the execution had finished
	}
	if len(done.Calls) != 10 {
		p.t.Fatalf("%+v", done)
	}
	n := 0
	for i, c := range done.Calls {
		made := n < len(calls) && strings.Contains(calls[n], fmt.Sprintf("%c@", 'a'+i))
		if made {
			n++
		}
		if c.State == "unknown" || made == (c.State == "done") {
			continue
		}
		p.t.Errorf("call %d is reported as %s, but the server was called with %q", c.Call, c.State, calls)
	}
	if n != len(calls) {
		p.t.Errorf("the server was called with %q", calls)
	}
}
