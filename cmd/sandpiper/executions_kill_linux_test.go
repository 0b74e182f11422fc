package main

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/sandpiper-mcp/sandpiper/internal/execution/unfinished"
	"github.com/sandpiper-mcp/sandpiper/internal/longtest"
)

// tenWrites makes ten writing calls, each after a reading one. Their arguments depend on
// the random seed and the clock, which a replay must restore.
const tenWrites = `
import random, time
from servers import ledger
result = []
for i in range(10):
    seen = int(ledger.look(n=random.randrange(1000), at=time.time()))
    ledger.add(n=i, seen=seen, by=random.random(), at=time.time_ns())
    result.append("done")
`

// killStats counts executions, and writes about which a person had to decide.
type killStats struct{ kills, resumed, fresh, unknown, happened int }

// TestNoWriteIsRepeatedAfterKills kills a daemon at random times during an execution of ten
// writes, resumes the execution, and possibly kills it again. A person tells what happened to
// the write that was interrupted. According to the server, each write was made exactly once.
// TEST_KILLS sets the number of kills; 10, as with LONG_TESTS, finds obvious errors.
func TestNoWriteIsRepeatedAfterKills(t *testing.T) {
	longtest.SkipSlow(t)
	t.Parallel()
	needSandbox(t)
	kills := kills(10)
	if n, err := strconv.Atoi(os.Getenv("TEST_KILLS")); err == nil {
		kills = n
	}
	took := baselineDuration(t)
	var all killStats
	for n := 0; all.kills < kills; n++ {
		killed(t, n, took, &all)
	}
	t.Logf("%d kills: %d times resumed, %d times nothing had been written; the outcome of %d writes was unknown, of which %d had happened",
		all.kills, all.resumed, all.fresh, all.unknown, all.happened)
}

// books returns a directory with the server, and the path of its ledger.
func books(t *testing.T) (dir, ledger string) {
	t.Helper()
	dir = t.TempDir()
	ledger = filepath.Join(dir, "ledger.txt")
	config := fmt.Sprintf("servers:\n  ledger: {command: ledger, args: [%q], trusted: true}\n", ledger)
	if err := os.WriteFile(filepath.Join(dir, "sandpiper.yaml"), []byte(config), 0o600); err != nil {
		t.Fatal(err)
	}
	return dir, ledger
}

// baselineDuration returns the duration of the ten writes after Python is unpacked.
func baselineDuration(t *testing.T) (took time.Duration) {
	for range 2 {
		dir, ledger := books(t)
		s := serve(t, dir)
		s.call("", "1")
		began := time.Now()
		if r := s.call("", tenWrites); strings.Count(string(r.Result), "done") != 10 || len(entered(t, ledger)) != 10 {
			t.Fatalf("%+v %v", r, entered(t, ledger))
		}
		took = time.Since(began)
		s.kill()
	}
	return took
}

// killed runs one execution and kills it at least once.
func killed(t *testing.T, n int, took time.Duration, all *killStats) {
	dir, ledger := books(t)
	s := serve(t, dir)
	s.call("", "1")
	s.ask("", tenWrites)
	r, ended := s.killAfter(rand.N(took))
	for !ended || len(r.Questions) > 0 {
		if !ended {
			all.kills++
		}
		id := interrupted(t, dir)
		for _, q := range r.Questions {
			all.decide(t, dir, ledger, id, q.Call, q.Question)
		}
		s = serve(t, dir)
		s.call("", "1")
		if id == "" { // the execution had not started
			if got := entered(t, ledger); len(got) != 0 {
				t.Fatalf("run %d: %v was written, and nothing is on record", n, got)
			}
			all.fresh++
			s.ask("", tenWrites)
		} else {
			all.resumed++
			s.resume(id)
		}
		wait := time.Minute
		if rand.N(3) == 0 {
			wait = rand.N(took)
		}
		r, ended = s.killAfter(wait)
	}
	verify(t, n, r, entered(t, ledger))
	if id := interrupted(t, dir); id != "" {
		t.Errorf("run %d: %s came to its end, and is listed", n, id)
	}
}

// killAfter kills the daemon after a time, unless it answers earlier.
func (s *served) killAfter(wait time.Duration) (execAnswer, bool) {
	type heard struct {
		execAnswer
		ok bool
	}
	answered := make(chan heard, 1)
	go func() {
		defer close(answered) // hear may end the goroutine
		r, ok := s.hear()
		answered <- heard{r, ok}
	}()
	select {
	case h := <-answered:
		s.kill()
		return h.execAnswer, h.ok
	case <-time.After(wait):
	}
	s.kill()
	h := <-answered // the daemon may have answered just before
	return h.execAnswer, h.ok
}

func (s *served) resume(id string) {
	s.id++
	s.say(fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":"tools/call","params":{"name":"resume_execution","arguments":{"execution_id":%q}}}`, s.id, id))
}

// interrupted returns the id of the execution that can be resumed, "" if there is none.
func interrupted(t *testing.T, dir string) string {
	t.Helper()
	out, err := sandpiper(dir, "executions", "list", "--json").Output()
	if err != nil {
		t.Fatal(err)
	}
	var list struct {
		Executions []struct {
			ID string `json:"execution_id"`
		}
	}
	if err := json.Unmarshal(out, &list); err != nil || len(list.Executions) > 1 {
		t.Fatalf("%s: %v", out, err)
	}
	for _, x := range list.Executions {
		return x.ID
	}
	return ""
}

// writeNumber returns the number of a write in the question about it, -1 if there is none.
func writeNumber(question string) int {
	m := regexp.MustCompile(`"n": ?(\d+)`).FindStringSubmatch(question)
	if m == nil {
		return -1
	}
	n, err := strconv.Atoi(m[1])
	if err != nil {
		return -1
	}
	return n
}

// decide tells what happened to a write, as a person who looks at the ledger would.
func (k *killStats) decide(t *testing.T, dir, ledger, id string, call int, question string) {
	t.Helper()
	n := writeNumber(question)
	if call == 0 || n < 0 {
		t.Fatalf("asked about call %d: %s", call, question)
	}
	time.Sleep(300 * time.Millisecond) // the server may have outlived the daemon for a moment
	k.unknown++
	decision := "not-done"
	if entered(t, ledger)[n] > 0 {
		k.happened++
		decision = "done"
	}
	command(t, dir, "executions", "answer", id, strconv.Itoa(call), decision)
}

func verify(t *testing.T, n int, r execAnswer, count map[int]int) {
	t.Helper()
	var said []string
	if err := json.Unmarshal(r.Result, &said); err != nil || len(said) != 10 {
		t.Fatalf("run %d: %+v", n, r)
	}
	for i := range said {
		if c := count[i]; c != 1 {
			t.Errorf("run %d: write %d was made %d times", n, i, c)
		}
	}
}

// listed returns the result of resume_execution without an id.
func (p *approvalClient) listed() (all []unfinished.Execution) {
	p.t.Helper()
	p.sendCall("resume_execution", `{}`, "")
	m := p.nextMessage()
	var list struct {
		Success    bool
		Count      int
		Executions []unfinished.Execution
	}
	if err := json.Unmarshal([]byte(m.Result.Content[0].Text), &list); err != nil || !list.Success || list.Count != len(list.Executions) {
		p.t.Fatalf("%+v %v", m, err)
	}
	return list.Executions
}

// A client whose daemon was killed did not receive the id of its execution.
func TestClientListsInterruptedExecutions(t *testing.T) {
	t.Parallel()
	p := newApprovalClient(t, "2025-11-25", `{}`, "policy: {rules: [{tool: 'crm.*', decision: allow}]}\n")
	if all := p.listed(); len(all) != 0 {
		t.Fatalf("%+v", all)
	}
	p.sendCode("from servers import crm\nimport os, time\ncrm.upsert_contact(email='a@example.com', name='Ada Lovelace')\n" +
		"open('answered', 'w')\nwhile not os.path.exists('go'): time.sleep(0.01)\nresult = 'done'")
	for answered := filepath.Join(p.home, "data", "sandpiper", "workspaces", "local", "answered"); !isRegular(answered); {
		time.Sleep(5 * time.Millisecond)
	}
	p.kill()
	p.formClient = restartDaemon(t, p, `{}`)
	all := p.listed()
	if len(all) != 1 || all[0].State != "interrupted" || fmt.Sprint(all[0].Tools) != "[crm.upsert_contact]" {
		t.Fatalf("%+v", all)
	}
	p.sendCall("resume_execution", `{"answer":true}`, "")
	if m := p.nextMessage(); !strings.Contains(m.Result.Content[0].Text, "without the execution_id") {
		t.Errorf("%+v", m)
	}
	p.sendCall("write_workspace_file", `{"filename":"go","content":""}`, "")
	p.nextMessage()
	if r := p.resumeExecution(all[0].ID, "").result(t); !r.Success || string(r.Result) != `"done"` {
		t.Errorf("%+v", r)
	}
	p.checkCalledOnce("a@")
	if all := p.listed(); len(all) != 0 {
		t.Errorf("%+v", all)
	}
}

// Other clients of the same daemon also find a suspended execution.
func TestClientListsSuspendedExecutions(t *testing.T) {
	t.Parallel()
	p := newApprovalClient(t, "2025-11-25", `{}`, "")
	id, _ := p.suspend(upsert("a@example.com"))
	if all := p.listed(); len(all) != 1 || all[0].ID != id || all[0].State != "suspended" {
		t.Errorf("%+v", all)
	}
}

// Over HTTP a tenant finds its own executions only.
func TestTenantListsOwnExecutionsOnly(t *testing.T) {
	t.Parallel()
	const alices, bobs = "alice-has-a-long-token", "bob-has-a-token-as-well"
	needSandbox(t)
	d := startServing(t, "", fmt.Sprintf("http: {tokens: {alice: %s, bob: %s}}\n", alices, bobs))
	alice, bob := d.visit("Authorization", "Bearer "+alices), d.visit("Authorization", "Bearer "+bobs)
	text := func(v *visitor, tool, args string) string {
		t.Helper()
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
	for _, session := range []string{"", `,"session_id":"s"`} {
		if got := text(alice, "execute_code", `{"code":"ask('why?')"`+session+`}`); !strings.Contains(got, "approval_required") {
			t.Fatal(got)
		}
	}
	if got := text(alice, "resume_execution", "{}"); !strings.Contains(got, `"count":1,`) || !strings.Contains(got, `"state":"suspended"`) {
		t.Error(got)
	}
	if got := text(alice, "resume_execution", `{"session_id":"s"}`); !strings.Contains(got, `"count":1,`) || !strings.Contains(got,
		`"state":"suspended"`) {
		t.Error(got)
	}
	const none = `{"count":0,"executions":[],"success":true}`
	if got := text(alice, "resume_execution", `{"session_id":"other"}`); got != none {
		t.Error(got)
	}
	for _, args := range []string{"{}", `{"session_id":"s"}`} {
		if got := text(bob, "resume_execution", args); got != none {
			t.Error(args, got)
		}
	}
}

// manySteps appends to a file in each step. The call at the end commits the last of them.
const manySteps = `
import os, time
from servers import crm

@step
def row(i):
    with open('rows', 'a') as f: print(i, file=f)
    return step('inner', lambda: i * 2)

rows = [row(i) for i in range(300)]
step('send', lambda: crm.upsert_contact(email='a@example.com', name='Ada Lovelace') and 0)
open('answered', 'w')
while not os.path.exists('go'): time.sleep(0.01)
step('send', lambda: crm.upsert_contact(email='b@example.com', name='Bob') and 0)
result = [sum(rows), read_file('rows').count('\n')]`

func TestEndedStepsAreNotRepeatedAfterKill(t *testing.T) {
	longtest.SkipSlow(t)
	t.Parallel()
	p := newApprovalClient(t, "2025-11-25", `{}`, "policy: {rules: [{tool: 'crm.*', decision: allow}]}\n")
	p.sendCode(manySteps)
	for answered := filepath.Join(p.home, "data", "sandpiper", "workspaces", "local", "answered"); !isRegular(answered); {
		time.Sleep(5 * time.Millisecond)
	}
	p.kill()
	p.formClient = restartDaemon(t, p, `{}`)
	all := p.listed()
	if len(all) != 1 {
		t.Fatalf("%+v", all)
	}
	p.sendCall("write_workspace_file", `{"filename":"go","content":""}`, "")
	p.nextMessage()
	if r := p.resumeExecution(all[0].ID, "").result(t); !r.Success || string(r.Result) != `[89700,300]` {
		t.Errorf("%+v", r)
	}
	p.checkCalledOnce("a@", "b@")
}
