package main

import (
	"strings"
	"testing"
	"time"
)

// importing is code whose first call is harmless, and whose second is not what the person saw.
const importing = `from servers import crm
people = [{"email": f"c{i}@example.com", "name": f"Ada {i}"} for i in range(1000)]
first = crm.upsert_many(contacts=people)["created"]
try: second = crm.upsert_many(contacts=[{"email": "eve@evil.example"}])["created"]
except ToolError as e: second = str(e)
[first, second]`

const forExecution = `{"action":"accept","content":{"approve":true,"for":"execution"}}`

func TestFormApprovesForTheExecution(t *testing.T) {
	t.Parallel()
	for _, version := range testedVersions {
		p := newApprovalClient(t, version, formCapabilities[version], "")
		for range 2 { // the second execution is asked about again
			p.sendCode(importing)
			asked, end := p.nextForms()
			if len(asked) != 1 {
				t.Fatalf("%s: asked %+v, %+v", version, asked, end)
			}
			for _, want := range []string{
				`"contacts": 1,000 contacts; the first 5:`, `"c4@example.com"  "Ada 4"`, "… 995 more", "This is NOT ALL of the 4",
				`The code that asks (the client "t 1", exec_`, "       4  try: second = crm.upsert_many(",
			} {
				if !strings.Contains(asked[0].text, want) {
					t.Errorf("%s: no %q in %s", version, want, asked[0].text)
				}
			}
			if strings.Contains(asked[0].text, "c5@example.com") || len(asked[0].text) > 4000 {
				t.Errorf("%s: the form has %d bytes: %s", version, len(asked[0].text), asked[0].text)
			}
			asked[0].answer(forExecution)
			more, end := p.nextForms()
			if len(more) > 0 {
				t.Fatalf("%s: asked again: %s", version, more[0].text)
			}
			if r := end.result(t); !r.Success {
				t.Errorf("%s: %+v", version, r)
			}
		}
		if calls := p.serverCalls(); len(calls) != 4 || !strings.Contains(calls[1], "eve@evil.example") {
			t.Errorf("%s: %d calls", version, len(calls))
		}
		for _, want := range []string{"crm.upsert_many approved at the client by default for_execution approval ",
			"crm.upsert_many granted at the client by default approval "} {
			for began := time.Now(); ; { // lines are written within a second
				out, _, _ := p.sandpiper("audit", "tail", "-n", "50")
				if strings.Count(out, want) == 2 {
					break
				}
				if time.Since(began) > 10*time.Second {
					t.Fatalf("%s: %q is not twice in the audit log:\n%s", version, want, out)
				}
			}
		}
	}
}

// A grant for a session ends with its interpreter: another one of the same name, which a model may choose, is
// asked about.
func TestGrantEndsWithTheInterpreterOfItsSession(t *testing.T) {
	t.Parallel()
	p := newApprovalClient(t, "2025-11-25", formCapabilities["2025-11-25"], "")
	call := func(code string) {
		p.sendCall("execute_code", `{"session_id":"report","code":"`+code+`"}`, "")
	}
	const upsert = `from servers import crm\ncrm.upsert_contact(email='a@example.com')['created']`
	call(upsert)
	asked, _ := p.nextForms()
	if len(asked) != 1 {
		t.Fatal("not asked")
	}
	asked[0].answer(`{"action":"accept","content":{"approve":true,"for":"session"}}`)
	if _, end := p.nextForms(); !end.result(t).Success {
		t.Fatalf("%+v", end)
	}
	call(upsert)
	if again, end := p.nextForms(); len(again) > 0 || !end.result(t).Success {
		t.Fatalf("asked again in the same session: %+v", end)
	}
	call("import os\\nos._exit(3)")
	p.nextForms()
	call(upsert)
	if asked, end := p.nextForms(); len(asked) != 1 {
		t.Fatalf("a new interpreter was not asked about: %+v", end)
	}
}

// What the model writes grants nothing, whatever it answers.
func TestModelCannotGrant(t *testing.T) {
	t.Parallel()
	p := newApprovalClient(t, "2025-11-25", `{}`, "")
	id, approvals := p.suspend(importing)
	for _, answer := range []string{`{"approve":true,"for":"tool"}`, `{"` + approvals[0] + `":{"approve":true,"for":"tool"}}`,
		forExecution} {
		if text := p.resumeExecution(id, `,"answer":`+answer).
			Result.Content[0].Text; !strings.Contains(text, "resume_execution cannot answer an approval") {
			t.Errorf("%s: %s", answer, text)
		}
	}
	if out, errs, code := p.sandpiper("approvals", "grants"); code != 0 || out != "" ||
		errs != "no tool may be called without asking again\n" {
		t.Error(code, out, errs)
	}
	// The model knows its code, and fills in no form: neither is in the answer.
	if text := p.resumeExecution(id, "").Result.Content[0].Text; strings.Contains(text, "The code that asks") || strings.Contains(text,
		`"schema"`) || !strings.Contains(text, "1,000 contacts") {
		t.Error(text)
	}
}
