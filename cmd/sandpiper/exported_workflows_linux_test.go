package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/sandpiper-mcp/sandpiper/internal/longtest"
)

// writeEntry is an exported workflow that writes an entry of the ledger.
const writeEntry = `
name: %s
description: Write an entry.
export: true
inputs: {properties: {n: {type: integer, minimum: 1}}, required: [n]}
steps:
  - {name: add, type: tool_call, config: {tool: ledger.add, arguments: {n: "${{ inputs.n }}"}}}
outputs: {written: "${{ inputs.n }}"}
`

// saveExported saves a workflow on the command line.
func saveExported(t *testing.T, dir, name string) ([]byte, error) {
	t.Helper()
	file := filepath.Join(t.TempDir(), "workflow.yaml")
	if err := os.WriteFile(file, fmt.Appendf(nil, writeEntry, name), 0o600); err != nil {
		t.Fatal(err)
	}
	return sandpiper(dir, "workflow", "save", file).CombinedOutput()
}

const toolsChanged = `"notifications/tools/list_changed"`

// awaitChange reads until the notification that the list of tools has changed.
func (s *served) awaitChange() {
	s.t.Helper()
	for s.out.Scan() {
		if strings.Contains(s.out.Text(), toolsChanged) {
			return
		}
	}
	s.t.Fatal("the daemon has exited")
}

// request sends a request and returns the answer.
func (s *served) request(method, params string) string {
	s.t.Helper()
	s.id++
	s.say(fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":%q,"params":%s}`, s.id, method, params))
	for s.out.Scan() {
		var m struct{ ID int }
		if json.Unmarshal(s.out.Bytes(), &m) == nil && m.ID == s.id {
			return s.out.Text()
		}
	}
	s.t.Fatal("the daemon has exited")
	return ""
}

// A connected client is notified of a workflow that another process exports, and calls it as a tool.
func TestExportedWorkflowIsATool(t *testing.T) {
	t.Parallel()
	needSandbox(t)
	dir, ledger := books(t)
	s := serve(t, dir)
	if got := s.request("tools/list", "{}"); strings.Contains(got, `"write_entry"`) {
		t.Fatal(got)
	}
	if out, err := saveExported(t, dir, "write_entry"); err != nil {
		t.Fatalf("%v %s", err, out)
	}
	s.awaitChange()
	listed := `"description":"Write an ` +
		`entry.","inputSchema":{"properties":{"n":{"minimum":1,"type":"integer"}},"required":["n"],"type":"object"},"name":"write_entry"`
	if got := s.request("tools/list", "{}"); !strings.Contains(got, listed) {
		t.Errorf("the tools are %s", got)
	}
	if got := s.tool("write_entry", `{"n":3}`); !strings.Contains(got, `"result":{"written":3}`) {
		t.Error(got)
	}
	for args, want := range map[string]string{
		`{"m":3}`:       `workflow write_entry has no input \"m\"; there are n`,
		`{}`:            `the inputs of workflow write_entry are wrong: input n: is missing`,
		`{"n":0}`:       `input n: `,
		`{"n":1,"n":1}`: `the inputs of workflow write_entry are not a JSON object`,
	} {
		if got := s.tool("write_entry", args); !strings.Contains(got, want) || !strings.Contains(got, `"success":false`) {
			t.Errorf("%s: %s", args, got)
		}
	}
	if diff := cmp.Diff(map[int]int{3: 1}, entered(t, ledger)); diff != "" {
		t.Error(diff)
	}
	if got := command(t, dir, "workflow", "history"); strings.Count(got, "write_entry") != 1 || !strings.Contains(got, "completed") {
		t.Error(got)
	}

	command(t, dir, "workflow", "delete", "write_entry")
	s.awaitChange()
	if got := s.request("tools/call", `{"name":"write_entry","arguments":{"n":4}}`); !strings.Contains(got,
		`there is no tool \"write_entry\"`) {
		t.Error(got)
	}
}

func TestExportedWorkflowCannotReplaceATool(t *testing.T) {
	t.Parallel()
	needSandbox(t)
	dir, _ := books(t)
	for _, name := range []string{"execute_code", "run_workflow"} { // in the profile of this daemon, and not
		out, err := saveExported(t, dir, name)
		want := fmt.Sprintf("workflow:2:7: Sandpiper has a tool %s; give the exported workflow another name", name)
		if err == nil || !strings.Contains(string(out), want) {
			t.Errorf("%v %s", err, out)
		}
	}
	if got := command(t, dir, "workflow", "list"); got != "" {
		t.Error(got)
	}
}

// An approval in an exported workflow asks the person, in both revisions of the protocol.
func TestExportedWorkflowAsks(t *testing.T) {
	t.Parallel()
	needSandbox(t)
	d := startServing(t, "", "profile: lean\n")
	file := filepath.Join(d.home, "ask.yaml")
	source := "name: sure\nexport: true\nsteps: [{name: a, type: approval, config: {question: Sure?}}]\n"
	if err := os.WriteFile(file, []byte(source), 0o600); err != nil {
		t.Fatal(err)
	}
	d.command(t, "workflow", "save", file)
	v := d.visit("Mcp-Method", "tools/call", "Mcp-Name", "sure")
	about := strings.Replace(aboutClient, `clientCapabilities":{}`, `clientCapabilities":{"elicitation":{}}`, 1)
	post := func(more string) string {
		res := v.must(v.send(t.Context(), fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":"tools/call","params":{"name":"sure","arguments":{},%s%s}}`, v.calls.Add(1), more, about)))
		defer res.Body.Close()
		var last string
		for lines := bufio.NewScanner(res.Body); lines.Scan(); {
			if strings.Contains(lines.Text(), `"result"`) {
				last = strings.TrimPrefix(lines.Text(), "data: ")
			}
		}
		return last
	}
	var asked struct {
		Result struct {
			ResultType    string
			InputRequests map[string]json.RawMessage
			RequestState  string
		}
	}
	first := post("")
	if err := json.Unmarshal([]byte(first), &asked); err != nil || asked.Result.ResultType != "input_required" ||
		len(asked.Result.InputRequests) != 1 {
		t.Fatalf("%v in %s", err, first)
	}
	replies := map[string]any{}
	for id := range asked.Result.InputRequests {
		replies[id] = map[string]any{"action": "accept", "content": map[string]bool{"answer": true}}
	}
	text, _ := json.Marshal(replies)
	if got := post(fmt.Sprintf(`"inputResponses":%s,"requestState":%q,`, text, asked.Result.RequestState)); !strings.Contains(got,
		`\"result\":true`) {
		t.Errorf("%s\n%s", first, got)
	}
}

// Only the clients of a tenant see its exported workflows, and are notified of them.
func TestExportedWorkflowsAreOfOneTenant(t *testing.T) {
	longtest.SkipSlow(t)
	t.Parallel()
	needSandbox(t)
	alice, bob := "0123456789-of-alice", "0123456789-of-bob--"
	d := startServing(t, "", fmt.Sprintf("profile: full\nhttp: {tokens: {alice: %s, bob: %s}}", alice, bob))
	a, b := d.visit("Authorization", "Bearer "+alice), d.visit("Authorization", "Bearer "+bob)
	ofAlice, ofBob := a.listenForTools(), b.listenForTools()
	save := func(v *visitor) {
		source := "name: mine\nexport: true\nsteps: [{name: a, type: code_execution, config: {code: result = 1}}]\n"
		if got := v.toolText("save_workflow", fmt.Sprintf(`{"source":%q}`, source)); !strings.Contains(got, "saved") {
			t.Fatal(got)
		}
	}
	var heard atomic.Int64 // by bob
	first := make(chan struct{})
	go func() {
		for ofBob.Scan() {
			if heard.Add(1) == 1 {
				close(first)
			}
		}
	}()
	for range 2 { // with the second one, bob would have got the first one long since
		save(a)
		if !ofAlice.Scan() {
			t.Fatal("the subscription of alice has ended")
		}
	}
	if n := heard.Load(); n > 0 {
		t.Errorf("bob got %d notifications of a workflow of alice", n)
	}
	if got := a.toolText("mine", "{}"); !strings.Contains(got, `\"result\":1`) {
		t.Error(got)
	}
	if got := b.toolText("mine", "{}"); !strings.Contains(got, `there is no tool \"mine\"`) {
		t.Error(got)
	}
	save(b)
	select {
	case <-first:
	case <-time.After(time.Minute):
		t.Error("bob got no notification of his own")
	}
}

// toolsStream has the notifications of changed tools of a subscription.
type toolsStream struct{ *bufio.Scanner }

// Scan skips other lines.
func (s *toolsStream) Scan() bool {
	for s.Scanner.Scan() {
		if strings.Contains(s.Text(), toolsChanged) {
			return true
		}
	}
	return false
}

// listenForTools subscribes to changes of the list of tools.
func (v *visitor) listenForTools() *toolsStream {
	v.t.Helper()
	res := v.must(v.send(v.t.Context(), `{"jsonrpc":"2.0","id":1,"method":"subscriptions/listen","params":{"notifications":{"toolsListChanged":true},`+aboutClient+`}}`, "Mcp-Method", "subscriptions/listen"))
	v.t.Cleanup(func() { res.Body.Close() })
	s := &toolsStream{bufio.NewScanner(res.Body)}
	for s.Scanner.Scan() {
		if strings.Contains(s.Text(), "acknowledged") {
			return s
		}
	}
	v.t.Fatal("the subscription was not acknowledged")
	return nil
}
