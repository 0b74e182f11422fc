package main

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// dryRun has a plan made, and returns what the client is told of it.
func (p *customer) dryRun(code string) (r planned) {
	p.t.Helper()
	args, err := json.Marshal(map[string]any{"code": code, "dry_run": true, "timeout_seconds": 60})
	if err != nil {
		p.t.Fatal(err)
	}
	p.calls("execute_code", string(args), "")
	return p.told()
}

// planned is the answer to a dry run, or to carrying out its plan.
type planned struct {
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

func (p *customer) told() (r planned) {
	p.t.Helper()
	m := p.hears()
	if len(m.Result.Content) != 1 {
		p.t.Fatalf("%+v", m)
	}
	if err := json.Unmarshal([]byte(m.Result.Content[0].Text), &r); err != nil {
		p.t.Fatal(err)
	}
	return r
}

// carries asks for a plan to be carried out, and answers the one question.
func (p *customer) carries(id, answer string) (text string, r planned) {
	p.t.Helper()
	p.last = fmt.Sprintf(`{"execution_id":%q}`, id)
	p.calls("resume_execution", p.last, "")
	m := p.hears()
	switch {
	case m.Method == "elicitation/create":
		p.say(fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"result":%s}`, m.ID, answer))
		return m.Params.Message, p.told()
	case len(m.Result.Requests) == 1:
		for id, q := range m.Result.Requests {
			p.calls("resume_execution", p.last, fmt.Sprintf(`,"requestState":%q,"inputResponses":{%q:%s}`, m.Result.State, id, answer))
			return q.Params.Message, p.told()
		}
	}
	if len(m.Result.Content) != 1 || json.Unmarshal([]byte(m.Result.Content[0].Text), &r) != nil {
		p.t.Fatalf("%+v", m)
	}
	return "", r
}

// flowing are calls of which the last needs what the one before it answers. The server
// says that find_contact only reads, and is not believed.
const flowing = `from servers import crm
crm.upsert_contact(email="ada@example.com", name="Ada Lovelace")
found = crm.find_contact(email="ada@example.com")
crm.upsert_contact(email="bob@example.com", name=found["name"])`

func TestPlanIsApprovedAsOneAndAppliedExactly(t *testing.T) {
	t.Parallel()
	for _, era := range testedEras {
		can := eras[era]
		t.Run(era, func(t *testing.T) {
			p := newCustomer(t, era, can, "")
			r := p.dryRun(flowing)
			if !r.Success || len(r.Plan) != 3 || r.ID == "" || r.Ends != nil || len(p.reached()) != 0 {
				t.Fatalf("%+v, the server was called with %q", r, p.reached())
			}
			if got := string(r.Plan[2].References); got != `[{"argument":["name"],"call":2,"result":["name"]}]` {
				t.Errorf("%s", got)
			}
			text, done := p.carries(r.ID, approves)
			for _, want := range []string{"A dry run planned these calls", "ada@example.com", "bob@example.com"} {
				if !strings.Contains(text, want) {
					t.Errorf("no %q in %s", want, text)
				}
			}
			calls := p.reached()
			if !done.Success || len(done.Calls) != 3 || len(calls) != 3 || !strings.Contains(calls[0], "ada@example.com") ||
				!strings.Contains(calls[2], "bob@example.com") || !strings.Contains(calls[2], "Ada Lovelace") {
				t.Fatalf("%+v, the server was called with %q", done, calls)
			}
			// asked again, it says what came of it
			if asked, again := p.carries(r.ID, approves); asked != "" || len(again.Calls) != 3 || len(p.reached()) != 3 {
				t.Errorf("again: %+v, the server was called with %q", again, p.reached())
			}
		})
	}
}

func TestAPlanThatIsDeniedDoesNothing(t *testing.T) {
	t.Parallel()
	p := newCustomer(t, "2025-11-25", eras["2025-11-25"], "")
	for _, answer := range []string{denies, declines, cancels} {
		r := p.dryRun(flowing)
		_, done := p.carries(r.ID, answer)
		if done.Success || !strings.Contains(done.Error, "the user declined the plan") || len(p.reached()) != 0 {
			t.Errorf("%s: %+v, the server was called with %q", answer, done, p.reached())
		}
		if _, again := p.carries(r.ID, approves); again.Success || len(p.reached()) != 0 {
			t.Errorf("asked again after %s: %+v", answer, again)
		}
	}
}

func TestADryRunStopsWhereItWouldHaveToKnow(t *testing.T) {
	t.Parallel()
	p := newCustomer(t, "2025-11-25", eras["2025-11-25"], "")
	r := p.dryRun(`from servers import crm
made = crm.upsert_contact(email="ada@example.com")
try:
    if made["created"]:
        crm.upsert_contact(email="new@example.com")
except BaseException:
    crm.upsert_contact(email="caught@example.com")
`)
	if !r.Success || len(r.Plan) != 1 || r.Ends == nil || r.Ends.Call != 1 || r.Ends.Line != 4 || !strings.Contains(r.Ends.Note, "the plan ends after call 1: line 4 asks for the truth of the result['created'] of call 1, crm.upsert_contact") {
		t.Fatalf("%+v %+v", r, r.Ends)
	}
	if _, done := p.carries(r.ID, approves); !done.Success || len(p.reached()) != 1 || !strings.Contains(p.reached()[0], "ada@") {
		t.Errorf("%+v, the server was called with %q", done, p.reached())
	}
}

func TestADryRunWritesNothing(t *testing.T) {
	t.Parallel()
	p := newCustomer(t, "2025-11-25", eras["2025-11-25"], "")
	const code = `write_file("kept.txt", "x"); save_skill("s", "def s(): return 5")
from skills import s
try: open("raw.txt", "w")
except OSError as e: raw = e.errno
[read_file("kept.txt"), s(), raw]`
	if r := p.dryRun(code); string(r.Result) != `["x",5,30]` || r.Plan == nil || len(r.Plan) > 0 || r.ID != "" {
		t.Errorf("%+v", r)
	}
	p.runs("[list_files(), list_skills()]")
	if _, end := p.questions(); string(end.result(t).Result) != "[[],[]]" {
		t.Errorf("left: %s", end.result(t).Result)
	}
	r := p.dryRun(`open("/workspace/x", "w")`)
	if r.Success || r.ErrorType != "OSError" || r.ID != "" {
		t.Errorf("%+v", r)
	}
}

// A client that shows no forms has the person approve at the command line, and a
// daemon that starts anew carries the plan out.
func TestAPlanIsApprovedAtTheCommandLineAndOutlivesItsDaemon(t *testing.T) {
	t.Parallel()
	p := newCustomer(t, "2025-11-25", `{}`, "")
	r := p.dryRun(flowing)
	_, waits := p.carries(r.ID, "")
	if waits.Success || waits.ErrorType != "approval_required" || len(waits.Questions) != 1 || waits.Questions[0].Approval == "" ||
		waits.Questions[0].ID == "" || !strings.Contains(waits.Error, "the plan waits for the person") {
		t.Fatalf("%+v", waits)
	}
	p.calls("resume_execution", fmt.Sprintf(`{"execution_id":%q,"answer":{"approve":true}}`, r.ID), "")
	if told := p.told(); told.Success || !strings.Contains(told.Error, "never answered here") || len(p.reached()) != 0 {
		t.Errorf("a model approved: %+v", told)
	}
	p.kill()
	if out, errs, code := p.sandpiper("approvals", "approve", waits.Questions[0].Approval); code != 0 || !strings.Contains(out, "approved") {
		t.Fatalf("%s %s %d", out, errs, code)
	}
	p.questioned = again(t, p, `{}`)
	if _, done := p.carries(r.ID, ""); !done.Success || len(done.Calls) != 3 || len(p.reached()) != 3 {
		t.Errorf("%+v, the server was called with %q", done, p.reached())
	}
	p.kill()
	if err := os.Remove(p.record); err != nil {
		t.Fatal(err)
	}
	p.questioned = again(t, p, `{"elicitation":{}}`)
	if asked, done := p.carries(r.ID, approves); asked != "" || done.Success || !strings.Contains(done.Error, "there is no plan") || len(p.reached()) != 0 {
		t.Errorf("a second time: %+v, the server was called with %q", done, p.reached())
	}
}

// again starts a daemon with the data of one that has ended.
func again(t *testing.T, p *customer, capabilities string) *questioned {
	t.Helper()
	config, err := os.ReadFile(filepath.Join(p.home, "sandpiper.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	return connect(t, p.home, string(config), p.era, capabilities)
}
