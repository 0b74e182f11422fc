package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// customer uses a client that runs code which calls a tool marked destructive.
type customer struct {
	*questioned
	era    string
	last   string // arguments of execute_code
	record string // what reached the server
	home   string
}

// newCustomer starts a daemon; more is appended to its configuration.
func newCustomer(t *testing.T, era, capabilities, more string, args ...string) *customer {
	t.Helper()
	needSandbox(t)
	home := t.TempDir()
	p := &customer{era: era, record: filepath.Join(home, "record"), home: home}
	config := fmt.Sprintf("servers:\n  crm: {command: %s/crm, args: [--record, %s]}\n%s", exampleServers(t), p.record, more)
	p.questioned = connect(t, home, config, era, capabilities, args...)
	return p
}

// eras are the two ways in which a client can show a form.
var eras = map[string]string{"2025-11-25": `{"elicitation":{}}`, "2026-07-28": `{"elicitation":{"form":{}}}`}

// upsert is code that adds contacts, one after the other.
func upsert(emails ...string) string {
	return "from servers import crm\nresult = []\nfor email in " + pythonList(emails) + ":\n" +
		"    try: result.append(crm.upsert_contact(email=email, name='Ada Lovelace')['created'])\n    except ToolError as e: result.append(str(e))\nresult"
}

func pythonList(all []string) string {
	b, _ := json.Marshal(all)
	return string(b)
}

func (p *customer) runs(code string) {
	p.t.Helper()
	args, err := json.Marshal(map[string]any{"code": code, "timeout_seconds": 60})
	if err != nil {
		p.t.Fatal(err)
	}
	p.calls("execute_code", string(args), "")
	p.last = string(args)
}

// formed is a question as the client shows it, and how it is answered.
type formed struct {
	text   string
	answer func(result string)
}

// questions returns those that the client is asked next; none with the end, which is
// returned then.
func (p *customer) questions() (asked []formed, end said) {
	p.t.Helper()
	m := p.hears()
	switch {
	case m.Method == "elicitation/create":
		return []formed{{m.Params.Message, func(result string) { p.say(fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"result":%s}`, m.ID, result)) }}}, m
	case len(m.Result.Requests) > 0:
		answers := map[string]json.RawMessage{}
		for id, q := range m.Result.Requests {
			asked = append(asked, formed{q.Params.Message, func(result string) {
				answers[id] = json.RawMessage(result)
				if len(answers) < len(m.Result.Requests) {
					return
				}
				b, _ := json.Marshal(answers)
				p.calls("execute_code", p.last, fmt.Sprintf(`,"requestState":%q,"inputResponses":%s`, m.Result.State, b))
			}})
		}
		return asked, m
	}
	return nil, m
}

// result is the answer of the tool that has ended.
func (m said) result(t *testing.T) (r struct {
	Success   bool
	Result    json.RawMessage
	Error     string
	ErrorType string `json:"error_type"`
	ID        string `json:"execution_id"`
	Questions []struct {
		ID       string
		From     string
		Approval string `json:"approval_id"`
		Text     string `json:"question"`
	}
}) {
	t.Helper()
	if len(m.Result.Content) != 1 {
		t.Fatalf("%+v", m)
	}
	if err := json.Unmarshal([]byte(m.Result.Content[0].Text), &r); err != nil {
		t.Fatal(err)
	}
	return r
}

// reached is what the server was called with.
func (p *customer) reached() []string {
	p.t.Helper()
	b, err := os.ReadFile(p.record)
	if err != nil && !os.IsNotExist(err) {
		p.t.Fatal(err)
	}
	return strings.Split(strings.TrimSuffix(string(b), "\n"), "\n")[:bytes.Count(b, []byte("\n"))]
}

// sandpiper runs a command line of the person's, beside the daemon.
func (p *customer) sandpiper(args ...string) (stdout, stderr string, code int) {
	p.t.Helper()
	c := exec.CommandContext(p.t.Context(), "sandpiper", append(args, "--config", filepath.Join(p.home, "sandpiper.yaml"))...)
	var out, errs bytes.Buffer
	c.Stdout, c.Stderr = &out, &errs
	if err := c.Run(); err != nil && c.ProcessState == nil {
		p.t.Fatal(err)
	}
	return out.String(), errs.String(), c.ProcessState.ExitCode()
}

const (
	approves = `{"action":"accept","content":{"approve":true}}`
	denies   = `{"action":"accept","content":{"approve":false,"reason":"ask Grace first"}}`
	declines = `{"action":"decline"}`
	cancels  = `{"action":"cancel"}`
)

func TestAPersonApprovesEachCallOrDoesNot(t *testing.T) {
	for era, can := range eras {
		t.Run(era, func(t *testing.T) {
			p := newCustomer(t, era, can, "")
			p.runs(upsert("a@example.com", "b@example.com", "c@example.com", "d@example.com", "e@example.com"))
			for i, answer := range []string{approves, denies, declines, cancels, approves} {
				asked, end := p.questions()
				if len(asked) != 1 {
					t.Fatalf("asked %+v, %+v", asked, end)
				}
				for _, want := range []string{
					`The code that is running wants to call the tool "upsert_contact" of the server "crm".`, "marked destructive, not read-only.",
					fmt.Sprintf(`"email": "%c@example.com"`, 'a'+i), `"name": "Ada Lovelace"`,
				} {
					if !strings.Contains(asked[0].text, want) {
						t.Errorf("no %q in %s", want, asked[0].text)
					}
				}
				if i == 0 && len(p.reached()) != 0 {
					t.Error("the server was called before anybody approved")
				}
				asked[0].answer(answer)
			}
			_, end := p.questions()
			r := end.result(t)
			var got []any
			if err := json.Unmarshal(r.Result, &got); err != nil || !r.Success || len(got) != 5 {
				t.Fatalf("%+v", r)
			}
			const not = "crm.upsert_contact was not called: the person declined"
			want := []any{1.0, not + ": ask Grace first", not, not + ": the question was dismissed", 1.0}
			if fmt.Sprint(got) != fmt.Sprint(want) {
				t.Errorf("%v\nwant %v", got, want)
			}
			if calls := p.reached(); len(calls) != 2 || !strings.Contains(calls[0], "a@example.com") || !strings.Contains(calls[1], "e@example.com") {
				t.Errorf("the server was called with %q", calls)
			}
		})
	}
}

var _ = time.Second
