package main

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// dryRun executes code as a dry run and returns its result.
func (p *approvalClient) dryRun(code string) (r planResult) {
	p.t.Helper()
	args, err := json.Marshal(map[string]any{"code": code, "dry_run": true, "timeout_seconds": 60})
	if err != nil {
		p.t.Fatal(err)
	}
	p.sendCall("execute_code", string(args), "")
	return p.readPlanResult()
}

// planResult is the result of a dry run, or of applying its plan.
type planResult struct {
	Success   bool
	Result    json.RawMessage
	Error     string
	ErrorType string `json:"error_type"`
	ID        string `json:"plan_id"`
	Plan      []struct {
		Call         int
		Server, Tool string
		Arguments    json.RawMessage
		References   json.RawMessage
	}
	Ends *struct {
		Call, Line int
		Note       string
	} `json:"plan_ends_at"`
	Calls []struct {
		Call         int
		State, Error string
	}
	Questions []struct {
		ID       string
		Approval string `json:"approval_id"`
	}
}

// readPlanResult reads the result of a dry run, or of applying its plan.
func (p *approvalClient) readPlanResult() (r planResult) {
	p.t.Helper()
	m := p.nextMessage()
	if len(m.Result.Content) != 1 {
		p.t.Fatalf("%+v", m)
	}
	if err := json.Unmarshal([]byte(m.Result.Content[0].Text), &r); err != nil {
		p.t.Fatal(err)
	}
	return r
}

// applyPlan applies a plan with resume_execution and answers its form, if one is shown. It
// returns the text of the form, or "", and the result.
func (p *approvalClient) applyPlan(id, answer string) (text string, r planResult) {
	p.t.Helper()
	p.last = fmt.Sprintf(`{"execution_id":%q}`, id)
	p.sendCall("resume_execution", p.last, "")
	m := p.nextMessage()
	switch {
	case m.Method == "elicitation/create":
		if answer == declines {
			time.Sleep(readingTime)
		}
		p.say(fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"result":%s}`, m.ID, answer))
		return m.Params.Message, p.readPlanResult()
	case len(m.Result.Requests) == 1:
		for id, q := range m.Result.Requests {
			p.sendCall("resume_execution", p.last, fmt.Sprintf(`,"requestState":%q,"inputResponses":{%q:%s}`, m.Result.State, id, answer))
			return q.Params.Message, p.readPlanResult()
		}
	}
	if len(m.Result.Content) != 1 || json.Unmarshal([]byte(m.Result.Content[0].Text), &r) != nil {
		p.t.Fatalf("%+v", m)
	}
	return "", r
}

// dependentCalls makes three calls; the last depends on the result of the second. The
// server declares find_contact as read-only but is not trusted, so the dry run plans that
// call too instead of making it.
const dependentCalls = `from servers import crm
crm.upsert_contact(email="ada@example.com", name="Ada Lovelace")
found = crm.find_contact(email="ada@example.com")
crm.upsert_contact(email="bob@example.com", name=found["name"])`

func TestApprovedPlanIsAppliedOnce(t *testing.T) {
	t.Parallel()
	for _, version := range testedVersions {
		capabilities := formCapabilities[version]
		t.Run(version, func(t *testing.T) {
			p := newApprovalClient(t, version, capabilities, "")
			r := p.dryRun(dependentCalls)
			if !r.Success || len(r.Plan) != 3 || r.ID == "" || r.Ends != nil || len(p.serverCalls()) != 0 {
				t.Fatalf("%+v, the server was called with %q", r, p.serverCalls())
			}
			if got := string(r.Plan[2].References); got != `[{"argument":["name"],"call":2,"result":["name"]}]` {
				t.Errorf("%s", got)
			}
			text, done := p.applyPlan(r.ID, approves)
			for _, want := range []string{"A dry run planned these calls", "ada@example.com", "bob@example.com"} {
				if !strings.Contains(text, want) {
					t.Errorf("no %q in %s", want, text)
				}
			}
			calls := p.serverCalls()
			if !done.Success || len(done.Calls) != 3 || len(calls) != 3 || !strings.Contains(calls[0], "ada@example.com") ||
				!strings.Contains(calls[2], "bob@example.com") || !strings.Contains(calls[2], "Ada Lovelace") {
				t.Fatalf("%+v, the server was called with %q", done, calls)
			}
			// a second request returns the outcome
			if text, second := p.applyPlan(r.ID, approves); text != "" || len(second.Calls) != 3 || len(p.serverCalls()) != 3 {
				t.Errorf("second request: form %q, %+v, the server was called with %q", text, second, p.serverCalls())
			}
		})
	}
}

func TestDeniedPlanMakesNoCall(t *testing.T) {
	t.Parallel()
	p := newApprovalClient(t, "2025-11-25", formCapabilities["2025-11-25"], "")
	for _, answer := range []string{denies, declines} {
		r := p.dryRun(dependentCalls)
		_, done := p.applyPlan(r.ID, answer)
		if done.Success || !strings.Contains(done.Error, "the user declined the plan") || len(p.serverCalls()) != 0 {
			t.Errorf("%s: %+v, the server was called with %q", answer, done, p.serverCalls())
		}
		if _, second := p.applyPlan(r.ID, approves); second.Success || len(p.serverCalls()) != 0 {
			t.Errorf("a plan was applied after the answer %s: %+v", answer, second)
		}
	}
	r := p.dryRun(dependentCalls)
	if _, waits := p.applyPlan(r.ID, cancels); waits.ErrorType != "approval_required" || len(p.serverCalls()) != 0 {
		t.Errorf("a client without a person: %+v", waits)
	}
	if _, done := p.applyPlan(r.ID, approves); !done.Success || len(p.serverCalls()) != 3 {
		t.Errorf("after it: %+v", done)
	}
}

func TestDryRunStopsAtUnknownResult(t *testing.T) {
	t.Parallel()
	p := newApprovalClient(t, "2025-11-25", formCapabilities["2025-11-25"], "")
	r := p.dryRun(`from servers import crm
made = crm.upsert_contact(email="ada@example.com")
try:
    if made["created"]:
        crm.upsert_contact(email="new@example.com")
except BaseException:
    crm.upsert_contact(email="caught@example.com")
`)
	if !r.Success || len(r.Plan) != 1 || r.Ends == nil || r.Ends.Call != 1 || r.Ends.Line != 4 || !strings.Contains(r.Ends.Note,
		"the plan ends after call 1: line 4 tests the truth value of the result['created'] of call 1, crm.upsert_contact") {
		t.Fatalf("%+v %+v", r, r.Ends)
	}
	if _, done := p.applyPlan(r.ID, approves); !done.Success || len(p.serverCalls()) != 1 || !strings.Contains(p.serverCalls()[0], "ada@") {
		t.Errorf("%+v, the server was called with %q", done, p.serverCalls())
	}
}

func TestDryRunWritesNoFiles(t *testing.T) {
	t.Parallel()
	p := newApprovalClient(t, "2025-11-25", formCapabilities["2025-11-25"], "")
	const code = `write_file("kept.txt", "x"); save_skill("s", "def s(): return 5")
from skills import s
try: open("raw.txt", "w")
except OSError as e: raw = e.errno
[read_file("kept.txt"), s(), raw]`
	if r := p.dryRun(code); string(r.Result) != fmt.Sprintf(`["x",5,%d]`, syscall.EROFS) || r.Plan == nil || len(r.Plan) > 0 || r.ID != "" {
		t.Errorf("%+v", r)
	}
	p.sendCode("[list_files(), list_skills()]")
	if _, end := p.nextForms(); string(end.result(t).Result) != "[[],[]]" {
		t.Errorf("the dry run left %s", end.result(t).Result)
	}
	r := p.dryRun(`open("/workspace/x", "w")`)
	if r.Success || r.ErrorType != "OSError" || r.ID != "" {
		t.Errorf("%+v", r)
	}
}

// With a client without forms, the plan is approved at the command line, and a restarted
// daemon applies it.
func TestPlanApprovedAtCommandLineSurvivesRestart(t *testing.T) {
	t.Parallel()
	p := newApprovalClient(t, "2025-11-25", `{}`, "")
	r := p.dryRun(dependentCalls)
	_, suspended := p.applyPlan(r.ID, "")
	if suspended.Success || suspended.ErrorType != "approval_required" || len(suspended.Questions) != 1 ||
		suspended.Questions[0].Approval == "" ||
		suspended.Questions[0].ID == "" || !strings.Contains(suspended.Error, "the plan waits for the person") {
		t.Fatalf("%+v", suspended)
	}
	p.sendCall("resume_execution", fmt.Sprintf(`{"execution_id":%q,"answer":{"approve":true}}`, r.ID), "")
	if answer := p.readPlanResult(); answer.Success || !strings.Contains(answer.Error, "resume_execution cannot answer an approval") ||
		len(p.serverCalls()) != 0 {
		t.Errorf("a model approved: %+v", answer)
	}
	p.kill()
	if out, errs, code := p.sandpiper("approvals", "approve", suspended.Questions[0].Approval); code != 0 || !strings.Contains(out,
		"approved") {
		t.Fatalf("%s %s %d", out, errs, code)
	}
	p.formClient = restartDaemon(t, p, `{}`)
	if _, done := p.applyPlan(r.ID, ""); !done.Success || len(done.Calls) != 3 || len(p.serverCalls()) != 3 {
		t.Errorf("%+v, the server was called with %q", done, p.serverCalls())
	}
	p.kill()
	if err := os.Remove(p.record); err != nil {
		t.Fatal(err)
	}
	p.formClient = restartDaemon(t, p, `{"elicitation":{}}`)
	if asked, done := p.applyPlan(r.ID, approves); asked != "" || done.Success || !strings.Contains(done.Error, "there is no plan") ||
		len(p.serverCalls()) != 0 {
		t.Errorf("a second time: %+v, the server was called with %q", done, p.serverCalls())
	}
}

// restartDaemon starts a daemon with the data of an earlier one.
func restartDaemon(t *testing.T, p *approvalClient, capabilities string) *formClient {
	t.Helper()
	config, err := os.ReadFile(filepath.Join(p.home, "sandpiper.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	return connect(t, p.home, string(config), p.version, capabilities)
}
