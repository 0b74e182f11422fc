package main

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"
)

// restarts has a daemon killed and started anew, with an approval answered before or
// after.
var restarts = map[string]func(t *testing.T, p *customer, id string){
	"approved while no daemon runs": func(t *testing.T, p *customer, id string) {
		p.kill()
		p.approves(id)
		p.questioned = again(t, p, `{}`)
	},
	"approved after the restart": func(t *testing.T, p *customer, id string) {
		p.kill()
		p.questioned = again(t, p, `{}`)
		p.approves(id)
	},
}

func (p *customer) approves(id string) {
	p.t.Helper()
	if out, errs, code := p.sandpiper("approvals", "approve", id); code != 0 {
		p.t.Fatal(out, errs)
	}
}

// A call that waits for a person outlives kill -9 of its daemon: what was made before
// is not repeated, it is made once, and what comes after it is asked for anew.
func TestAnApprovalOutlivesItsDaemon(t *testing.T) {
	t.Parallel()
	for _, era := range testedEras {
		for when, restart := range restarts {
			t.Run(era+" "+when, func(t *testing.T) {
				p := newCustomer(t, era, `{}`, "")
				id, first := p.parked(upsert("a@example.com", "b@example.com", "c@example.com"))
				p.approves(first[0])
				second := p.waits(id)
				restart(t, p, second)
				third := p.waits(id)
				if third == second || third == first[0] || len(p.reached()) != 2 {
					t.Fatalf("asked for %s again, and the server was called with %q", third, p.reached())
				}
				p.approves(third)
				r := p.resumes(id, "").result(t)
				if !r.Success || string(r.Result) != "[1,1,1]" {
					t.Errorf("%+v", r)
				}
				p.onceEach("a@", "b@", "c@")
			})
		}
	}
}

// A denial outlives kill -9 of its daemon too: nobody is asked again, and the code
// learns of the denial.
func TestADenialOutlivesItsDaemon(t *testing.T) {
	t.Parallel()
	for _, era := range testedEras {
		t.Run(era, func(t *testing.T) {
			p := newCustomer(t, era, `{}`, "")
			id, first := p.parked(upsert("a@example.com", "b@example.com"))
			p.kill()
			if out, errs, code := p.sandpiper("approvals", "deny", first[0], "--reason", "not her"); code != 0 {
				t.Fatal(out, errs)
			}
			p.questioned = again(t, p, `{}`)
			if second := p.waits(id); second == first[0] {
				t.Fatal("the person was asked again")
			} else {
				p.approves(second)
			}
			r := p.resumes(id, "").result(t)
			if !r.Success || !strings.Contains(string(r.Result), "declined: not her") {
				t.Errorf("%+v", r)
			}
			p.onceEach("b@")
		})
	}
}

// waits goes on with an execution until it waits for another approval.
func (p *customer) waits(id string) (approval string) {
	p.t.Helper()
	r := p.resumes(id, "").result(p.t)
	if r.ErrorType != "approval_required" || len(r.Questions) != 1 {
		p.t.Fatalf("%+v", r)
	}
	// A number is given again to whatever a second run asks first.
	if q := r.Questions[0]; q.ID != q.Approval {
		p.t.Errorf("approval %s is answered under the name %s", q.Approval, q.ID)
	}
	return r.Questions[0].Approval
}

// onceEach holds what reached the server against addresses, in order.
func (p *customer) onceEach(addresses ...string) {
	p.t.Helper()
	calls := p.reached()
	for i, a := range addresses {
		if len(calls) != len(addresses) || !strings.Contains(calls[i], a) {
			p.t.Fatalf("the server was called with %q, and not once with each of %q", calls, addresses)
		}
	}
}

// A form that was shown by a daemon before is an answer about the call that it
// showed.
func TestAFormOutlivesTheDaemonThatShowedIt(t *testing.T) {
	t.Parallel()
	p := newCustomer(t, "2026-07-28", eras["2026-07-28"], "")
	p.runs(upsert("a@example.com", "b@example.com"))
	for _, address := range []string{"a@example.com", "b@example.com"} {
		asked, end := p.questions()
		if len(asked) != 1 || !strings.Contains(asked[0].text, address) {
			t.Fatalf("asked %+v, %+v", asked, end)
		}
		p.kill()
		p.questioned = again(t, p, eras["2026-07-28"])
		asked[0].answer(approves)
	}
	_, end := p.questions()
	if r := end.result(t); !r.Success || string(r.Result) != "[1,1]" {
		t.Errorf("%+v", r)
	}
	p.onceEach("a@", "b@")
}

// Between the approval and the end of the call it is made once, or reported as unknown
// and made at most once.
func TestAnApprovedCallIsNotRepeatedAfterAKill(t *testing.T) {
	t.Parallel()
	for range kills(3) {
		p := newCustomer(t, "2025-11-25", `{}`, "")
		id, approvals := p.parked(upsert("a@example.com"))
		p.approves(approvals[0])
		time.Sleep(rand.N(400 * time.Millisecond)) // until it is seen, and made
		p.kill()
		p.questioned = again(t, p, `{}`)
		r := p.resumes(id, "").result(t)
		if r.ErrorType == "approval_required" { // the approval was used, and the call had not begun
			p.approves(r.Questions[0].Approval)
			r = p.resumes(id, "").result(t)
		}
		said, n := string(r.Result), len(p.reached())
		switch {
		case said == "[1]" && n == 1, strings.Contains(said, "unknown whether") && n <= 1:
		case strings.Contains(r.Error, "there is no") && n == 1: // it had come to its end
		default:
			t.Errorf("%+v, the server was called %d times", r, n)
		}
	}
}

// tenCalls is code whose plan has ten calls.
var tenCalls = func() string {
	code := "from servers import crm\n"
	for i := range 10 {
		code += fmt.Sprintf("crm.upsert_contact(email='%c@example.com')\n", 'a'+i)
	}
	return code
}()

// A plan that is killed while it is carried out, and resumed, makes each of its calls
// once, in order; one that had begun is reported as unknown, and ends the plan.
func TestNoCallOfAPlanIsRepeatedAfterAKill(t *testing.T) {
	t.Parallel()
	for range kills(4) {
		p := newCustomer(t, "2025-11-25", `{}`, "")
		plan := p.dryRun(tenCalls).ID
		_, waits := p.carries(plan, "")
		p.approves(waits.Questions[0].Approval)
		for until := 1 + rand.N(8); len(p.reached()) < until; { // it goes on by itself
			time.Sleep(time.Millisecond)
		}
		p.kill()
		before := len(p.reached())
		p.questioned = again(t, p, `{}`)
		_, done := p.carries(plan, "")
		if done.ErrorType == "approval_required" {
			if n := len(p.reached()); n > before+1 { // one may have been on its way
				t.Errorf("%d calls were made, and then %d before anybody was asked again", before, n)
			}
			p.approves(done.Questions[0].Approval)
			_, done = p.carries(plan, "")
		}
		p.planned(done)
	}
}

// planned holds what is said of a plan of ten calls against what reached the server.
func (p *customer) planned(done planned) {
	p.t.Helper()
	calls := p.reached()
	if strings.Contains(done.Error, "there is no plan") && len(calls) == 10 {
		return // it had come to its end
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
		p.t.Errorf("call %d is said to be %s, and the server was called with %q", c.Call, c.State, calls)
	}
	if n != len(calls) {
		p.t.Errorf("the server was called with %q", calls)
	}
}
