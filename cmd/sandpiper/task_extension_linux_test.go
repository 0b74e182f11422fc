package main

import (
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/sandpiper-mcp/sandpiper/internal/longtest"
)

// protocolTask is a task of the protocol, or an error.
type protocolTask struct {
	Result struct {
		Type     string `json:"resultType"`
		ID       string `json:"taskId"`
		Status   string
		Message  string                     `json:"statusMessage"`
		Requests map[string]json.RawMessage `json:"inputRequests"`
		Result   *struct {
			IsError bool
			Content []struct{ Text string }
		}
	}
	Error struct {
		Code    int
		Message string
	}
}

func (p *formClient) task(method, params string) (m protocolTask) {
	p.t.Helper()
	p.id++
	p.say(fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":%q,"params":{%s%s}}`, p.id, method, params, p.meta))
	for {
		if !p.out.Scan() {
			p.t.Fatal("the daemon has died")
		}
		if strings.Contains(p.out.Text(), fmt.Sprintf(`"id":%d,`, p.id)) {
			break
		}
	}
	if err := json.Unmarshal(p.out.Bytes(), &m); err != nil {
		p.t.Fatalf("%s: %v", p.out.Text(), err)
	}
	return m
}

func (p *formClient) callAsTask(code string) protocolTask {
	p.t.Helper()
	args, _ := json.Marshal(map[string]string{"code": code})
	return p.task("tools/call", `"name":"execute_code","arguments":`+string(args))
}

// awaitTask returns a task with a status.
func (p *formClient) awaitTask(id, status string) protocolTask {
	p.t.Helper()
	for deadline := time.Now().Add(time.Minute); ; time.Sleep(20 * time.Millisecond) {
		m := p.task("tasks/get", fmt.Sprintf(`"taskId":%q`, id))
		if m.Result.Status == status {
			return m
		}
		if m.Error.Code != 0 || time.Now().After(deadline) {
			p.t.Fatalf("it is %+v, not %s", m, status)
		}
	}
}

const declaresTaskSupport = `{"elicitation":{"form":{}},"extensions":{"io.modelcontextprotocol/tasks":{}}}`

func TestLongCallsAreTasks(t *testing.T) {
	longtest.SkipSlow(t)
	t.Parallel()
	p := newApprovalClient(t, "2026-07-28", declaresTaskSupport, "policy: {rules: [{tool: 'crm.*', decision: allow}]}\n")
	if m := p.callAsTask("1 + 1"); m.Result.Type != "complete" || m.Result.ID != "" {
		t.Errorf("a short call: %+v", m)
	}
	m := p.callAsTask("from servers import crm\nimport os, time\ncrm.upsert_contact(email='a@example.com', name='Ada Lovelace')\n" +
		"while not os.path.exists('go'): time.sleep(0.01)\ncolour = ask('Which colour?')\nresult = colour + 'ish'")
	if m.Result.Type != "task" || m.Result.Status != "working" || !strings.HasPrefix(m.Result.ID, "exec_") {
		t.Fatalf("%+v", m)
	}
	id := m.Result.ID
	// The daemon is killed; the next one continues the task without repeating the call.
	p.kill()
	p.formClient = restartDaemon(t, p, declaresTaskSupport)
	p.sendCall("write_workspace_file", `{"filename":"go","content":""}`, "")
	p.nextMessage()
	m = p.awaitTask(id, "input_required")
	if len(m.Result.Requests) != 1 || !strings.Contains(string(m.Result.Requests["q1"]), "Which colour?") {
		t.Errorf("%+v", m)
	}
	if m := p.task("tasks/update", fmt.Sprintf(`"taskId":%q,"inputResponses":{"q1":{"action":"accept","content":{"answer":"blue"}},"q9":{"action":"decline"}}`, id)); m.Result.Type != "complete" || m.Result.ID != "" {
		t.Errorf("%+v", m)
	}
	m = p.awaitTask(id, "completed")
	if r := m.Result.Result; r == nil || r.IsError || !strings.Contains(r.Content[0].Text, `"result":"blueish"`) {
		t.Errorf("%+v", m)
	}
	p.checkCalledOnce("a@")

	m = p.callAsTask("import time\nwhile True: time.sleep(0.01)")
	for range 2 {
		if m := p.task("tasks/cancel", fmt.Sprintf(`"taskId":%q`, m.Result.ID)); m.Result.Type != "complete" || m.Error.Code != 0 {
			t.Errorf("%+v", m)
		}
	}
	p.awaitTask(m.Result.ID, "cancelled")
	for _, method := range []string{"tasks/get", "tasks/update", "tasks/cancel"} {
		for _, params := range []string{`"taskId":"exec_none"`, `"taskId":""`} {
			if m := p.task(method, params+`,"inputResponses":{}`); m.Error.Code != -32602 {
				t.Errorf("%s of an unknown task: %+v", method, m)
			}
		}
	}
	p.meta = strings.Replace(p.meta, declaresTaskSupport, "{}", 1)
	if m := p.task("tasks/get", fmt.Sprintf(`"taskId":%q`, id)); m.Error.Code != -32021 {
		t.Errorf("a client without the capability: %+v", m)
	}
}

// A daemon is killed that has acknowledged an answer and not passed it on to the code, which waits for a
// free sandbox. The question is not asked again.
func TestAcknowledgedAnswerOfTaskSurvivesKill(t *testing.T) {
	longtest.SkipSlow(t)
	t.Parallel()
	p := newApprovalClient(t, "2026-07-28", declaresTaskSupport, "sandbox: {concurrency: 1}\n")
	id := p.callAsTask("import os, time\nwhile not os.path.exists('ask'): time.sleep(0.01)\nresult = ask('Which colour?') + 'ish'").
		Result.ID
	p.sendCall("write_workspace_file", `{"filename":"ask","content":""}`, "")
	p.nextMessage()
	p.awaitTask(id, "input_required")
	other := p.callAsTask("import os, time\nwhile not os.path.exists('go'): time.sleep(0.01)").Result.ID
	if m := p.task("tasks/update", fmt.Sprintf(`"taskId":%q,"inputResponses":{"q1":{"action":"accept","content":{"answer":"blue"}}}`,
		id)); m.Result.Type != "complete" {
		t.Fatalf("%+v", m)
	}
	p.kill()
	p.formClient = restartDaemon(t, p, declaresTaskSupport)
	p.sendCall("write_workspace_file", `{"filename":"go","content":""}`, "")
	p.nextMessage()
	p.awaitTask(other, "completed")
	m := p.awaitTask(id, "completed")
	if r := m.Result.Result; r == nil || r.IsError || !strings.Contains(r.Content[0].Text, `"result":"blueish"`) {
		t.Errorf("%+v", m)
	}
}

// putFile writes an empty file to the workspace.
func (p *formClient) putFile(name string) {
	p.t.Helper()
	p.sendCall("write_workspace_file", fmt.Sprintf(`{"filename":%q,"content":""}`, name), "")
	p.nextMessage()
}

// A daemon has continued a task, whose code has printed something and not asked again. An answer to what the client was
// shown before is kept, also if this daemon is killed as well.
func TestAnswerOfTaskBeforeItsCodeAsksAgain(t *testing.T) {
	longtest.SkipSlow(t)
	t.Parallel()
	p := newApprovalClient(t, "2026-07-28", declaresTaskSupport, "")
	id := p.callAsTask("import os, time\nwhile not os.path.exists('ask'): time.sleep(0.01)\n" +
		"while os.path.exists('hold') and not os.path.exists('go'): print('held'); open('held', 'w').close(); time.sleep(0.05)\nresult = " +
		"ask('Which colour?') + 'ish'").Result.ID
	p.putFile("ask")
	p.awaitTask(id, "input_required")
	p.putFile("hold")
	p.kill()
	p.formClient = restartDaemon(t, p, declaresTaskSupport)
	for deadline := time.Now().Add(time.Minute); sandpiper(p.home, "files", "cat", "held").Run() != nil; {
		if time.Now().After(deadline) {
			t.Fatal("it does not run")
		}
	}
	if m := p.task("tasks/update", fmt.Sprintf(`"taskId":%q,"inputResponses":{"q1":{"action":"accept","content":{"answer":"blue"}},"q2":{"action":"decline"}}`, id)); m.Result.Type != "complete" {
		t.Fatalf("%+v", m)
	}
	p.kill()
	p.formClient = restartDaemon(t, p, declaresTaskSupport)
	p.putFile("go")
	m := p.awaitTask(id, "completed")
	if r := m.Result.Result; r == nil || r.IsError || !strings.Contains(r.Content[0].Text, `"result":"blueish"`) {
		t.Errorf("%+v", m)
	}
}

// A task that waits for an approval has no process. The reply of the client continues it, also with another daemon, and
// its call is made once.
func TestApprovalOfTaskWithoutProcess(t *testing.T) {
	longtest.SkipSlow(t)
	t.Parallel()
	p := newApprovalClient(t, "2026-07-28", declaresTaskSupport, "")
	id := p.callAsTask("import os, threading, time\nfrom servers import crm\n\ndef beat():\n    while True:\n        with open('beat', " +
		"'a') as f: f.write('.')\n        time.sleep(0.1)\n\n" +
		"threading.Thread(target=beat, daemon=True).start()\nwhile not os.path.exists('go'): time.sleep(0.01)\nresult = " +
		"crm.upsert_contact(email='a@example.com', name='Ada Lovelace')['created']").Result.ID
	p.putFile("go")
	p.awaitTask(id, "input_required")
	for deadline := time.Now().Add(time.Minute); beats(t, p.home); {
		if time.Now().After(deadline) {
			t.Fatal("it has a process while it waits")
		}
	}
	p.kill()
	p.formClient = restartDaemon(t, p, declaresTaskSupport)
	m := p.awaitTask(id, "input_required")
	var asked string
	for asked = range m.Result.Requests {
	}
	reply := fmt.Sprintf(`"taskId":%q,"inputResponses":{%q:{"action":"accept","content":{"approve":true}}}`, id, asked)
	if m := p.task("tasks/update", reply); m.Result.Type != "complete" {
		t.Fatalf("%+v", m)
	}
	m = p.awaitTask(id, "completed")
	if r := m.Result.Result; r == nil || r.IsError || !strings.Contains(r.Content[0].Text, `"result":1`) {
		t.Errorf("%+v", m)
	}
	p.checkCalledOnce("a@")
}

// A task of one tenant does not exist for another.
func TestTasksOfOtherTenants(t *testing.T) {
	t.Parallel()
	const alices, bobs = "alice-has-a-long-token", "bob-has-a-token-as-well"
	needSandbox(t)
	d := startServing(t, "", fmt.Sprintf("profile: full\nhttp: {tokens: {alice: %s, bob: %s}}\n", alices, bobs))
	text := func(token, tool, args string) string {
		t.Helper()
		v := d.visit("Authorization", "Bearer "+token)
		res := v.must(v.tool(t.Context(), tool, args))
		defer res.Body.Close()
		for m := range messages(res.Body) {
			if len(m.Result.Content) > 0 {
				return m.Result.Content[0].Text
			}
		}
		t.Fatal(res.Status)
		return ""
	}
	var task struct {
		ID string `json:"execution_id"`
	}
	if err := json.Unmarshal([]byte(text(alices, "dispatch_background_task", `{"code":"print('secret'); result = wait_for('go')"}`)),
		&task); err != nil {
		t.Fatal(err)
	}
	id := fmt.Sprintf(`{"execution_id":%q}`, task.ID)
	for _, tool := range []string{"get_background_task_status", "wait_for_background_task", "cancel_background_task", "resume_execution"} {
		if got := text(bobs, tool, id); !strings.Contains(got, `"success":false`) || strings.Contains(got, "secret") {
			t.Errorf("%s: %s", tool, got)
		}
	}
	if got := text(bobs, "signal_execution", strings.Replace(id, "}", `,"event":"go"}`, 1)); !strings.Contains(got,
		"there is no execution") {
		t.Error(got)
	}
	if got := text(bobs, "list_background_tasks", "{}"); got != `{"count":0,"executions":[],"success":true}` {
		t.Error(got)
	}
	for token, want := range map[string]string{alices: `"status":"working"`, bobs: `"code":-32602`} {
		body := fmt.Sprintf(`{"jsonrpc":"2.0","id":7,"method":"tasks/get","params":{"taskId":%q,%s}}`, task.ID,
			strings.Replace(aboutClient, `Capabilities":{}`, `Capabilities":`+declaresTaskSupport, 1))
		v := d.visit("Authorization", "Bearer "+token)
		res := v.must(v.send(t.Context(), body, "Mcp-Method", "tasks/get", "Mcp-Name", task.ID))
		got, err := io.ReadAll(res.Body)
		res.Body.Close()
		if err != nil || !strings.Contains(string(got), want) {
			t.Errorf("tasks/get with %s: %s %v, want %s", token, got, err, want)
		}
	}
	if got := text(alices, "signal_execution", strings.Replace(id, "}", `,"event":"go","value":[1]}`, 1)); !strings.Contains(got,
		`"success":true`) {
		t.Error(got)
	}
	if got := text(alices, "wait_for_background_task", id); !strings.Contains(got, `"state":"completed"`) || !strings.Contains(got,
		`"result":[1]`) {
		t.Error(got)
	}
}
