package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/sandpiper-mcp/sandpiper/internal/longtest"
)

// twelvePayments makes twelve calls. The sixth does not end, unless it is made again.
const twelvePayments = `
from servers import slow
given, made = None, []
for n in range(1, 13):
    answer = slow.pay(n=n, how="hang_once" if n == 6 else "ok")
    if n == 6: given = answer
    made.append(n)
result = {"made": made, "given": given}`

// slowServer returns a directory with the server slow, and the file of its effects.
func slowServer(t *testing.T) (dir, ledger string) {
	t.Helper()
	dir = t.TempDir()
	ledger = filepath.Join(dir, "effects.txt")
	config := fmt.Sprintf("servers:\n  slow: {command: ledger, args: [%q], trusted: true}\n", ledger)
	if err := os.WriteFile(filepath.Join(dir, "sandpiper.yaml"), []byte(config), 0o600); err != nil {
		t.Fatal(err)
	}
	return dir, ledger
}

// interruptPayments returns a directory and the file of the effects after a daemon was killed during
// the sixth of twelve payments, and the id of the execution.
func interruptPayments(t *testing.T) (dir, ledger, id string) {
	t.Helper()
	needSandbox(t)
	dir, ledger = slowServer(t)
	s := serve(t, dir)
	s.ask("", twelvePayments)
	awaitEffects(t, ledger, 6)
	s.kill()
	return dir, ledger, interrupted(t, dir)
}

// checkPayments checks the result of the twelve payments, and how often each was made.
func checkPayments(t *testing.T, result, ledger, given string, sixth int) {
	t.Helper()
	var r struct {
		Made  []int
		Given json.RawMessage
	}
	var compact bytes.Buffer // the command indents
	if err := json.Compact(&compact, []byte(result)); err != nil {
		t.Fatalf("%s: %v", result, err)
	}
	if err := json.Unmarshal(compact.Bytes(), &r); err != nil || len(r.Made) != 12 || given != "" && string(r.Given) != given {
		t.Errorf("the result is %s, %v", result, err)
	}
	want := map[int]int{6: sixth}
	for n := 1; n <= 12; n++ {
		want[n] = max(1, want[n])
	}
	if d := cmp.Diff(want, entered(t, ledger)); d != "" {
		t.Error(d)
	}
}

// A run with a call of an unknown outcome stays resumable. The person is asked once, on the command
// line, what happened.
func TestPersonDecidesAnUnknownCall(t *testing.T) {
	longtest.SkipSlow(t)
	t.Parallel()
	for name, c := range map[string]struct {
		answer []string
		given  string // the answer of the call for the code
		sixth  int    // how often it is made
	}{
		"it took effect":                   {[]string{"done"}, "", 1},
		"it took effect, with this answer": {[]string{"done", `{"id":66}`}, `{"id":66}`, 1},
		"it did not":                       {[]string{"not-done"}, "", 2},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir, ledger, id := interruptPayments(t)
			var call string
			for range 2 { // it is not used up by looking at it
				out, err := sandpiper(dir, "executions", "resume", id).CombinedOutput()
				m := regexp.MustCompile("sandpiper executions answer " + id + ` (\S+) `).FindStringSubmatch(string(out))
				if err == nil || m == nil || !strings.Contains(string(out), "slow.pay") ||
					!strings.Contains(command(t, dir, "executions", "list"), id) {
					t.Fatalf("%v %s", err, out)
				}
				call = m[1]
			}
			command(t, dir, append([]string{"executions", "answer", id, call}, c.answer...)...)
			if open := command(t, dir, "approvals", "list"); open != "" {
				t.Errorf("a question is open: %s", open)
			}
			checkPayments(t, command(t, dir, "executions", "resume", id), ledger, c.given, c.sixth)
		})
	}
}

// The person stops a run with a call of an unknown outcome: no further call is made, and it is not
// resumable any more.
func TestPersonStopsARunWithAnUnknownCall(t *testing.T) {
	longtest.SkipSlow(t)
	t.Parallel()
	dir, ledger, id := interruptPayments(t)
	out, _ := sandpiper(dir, "executions", "resume", id).CombinedOutput()
	m := regexp.MustCompile("sandpiper executions answer " + id + ` (\S+) `).FindStringSubmatch(string(out))
	if m == nil {
		t.Fatalf("%s", out)
	}
	command(t, dir, "executions", "answer", id, m[1], "stop")
	if out := command(t, dir, "executions", "list"); strings.Contains(out, id) {
		t.Error(out)
	}
	if out, err := sandpiper(dir, "executions", "resume", id).CombinedOutput(); err == nil {
		t.Errorf("%s", out)
	}
	if d := cmp.Diff(map[int]int{1: 1, 2: 1, 3: 1, 4: 1, 5: 1, 6: 1}, entered(t, ledger)); d != "" {
		t.Error(d)
	}
}

// A client with forms shows the question about the call when it resumes the run.
func TestClientAsksAboutAnUnknownCall(t *testing.T) {
	longtest.SkipSlow(t)
	t.Parallel()
	for word, sixth := range map[string]int{"done": 1, "not-done": 2} {
		t.Run(word, func(t *testing.T) {
			t.Parallel()
			dir, ledger, id := interruptPayments(t)
			s := serveTo(t, dir, `{"elicitation":{}}`)
			s.resume(id)
			if !s.out.Scan() {
				t.Fatal("the daemon has exited")
			}
			var m clientMessage
			if err := json.Unmarshal(s.out.Bytes(), &m); err != nil || m.Method != "elicitation/create" ||
				!strings.Contains(m.Params.Message, "slow.pay") {
				t.Fatalf("%s, %v", s.out.Text(), err)
			}
			s.say(fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"result":{"action":"accept","content":%s}}`, m.ID,
				choose(t, m.Params.Schema.Properties, word)))
			r, _ := s.hear()
			checkPayments(t, string(r.Result), ledger, "", sixth)
		})
	}
}

// choose answers the only field of a form that offers a word with that word.
func choose(t *testing.T, fields map[string]any, word string) string {
	t.Helper()
	for name, field := range fields {
		if text, _ := json.Marshal(field); strings.Contains(string(text), fmt.Sprintf("%q", word)) {
			b, _ := json.Marshal(map[string]string{name: word})
			return string(b)
		}
	}
	t.Fatalf("no field offers %q: %v", word, fields)
	return ""
}

// A client without forms gets the question as one of resume_execution, and answers it there.
func TestResumeExecutionAnswersAnUnknownCall(t *testing.T) {
	longtest.SkipSlow(t)
	t.Parallel()
	dir, ledger, id := interruptPayments(t)
	s := serve(t, dir)
	s.resume(id)
	asked, _ := s.hear()
	var q struct {
		Questions []struct{ ID, Question string }
	}
	if err := json.Unmarshal([]byte(asked.raw), &q); err != nil || asked.Success || len(q.Questions) != 1 ||
		!strings.Contains(q.Questions[0].Question, "slow.pay") {
		t.Fatalf("%s, %v", asked.raw, err)
	}
	answer := s.tool("resume_execution", fmt.Sprintf(`{"execution_id":%q,"answer":"done"}`, id))
	var r execAnswer
	if err := json.Unmarshal([]byte(answer), &r); err != nil {
		t.Fatalf("%s, %v", answer, err)
	}
	checkPayments(t, string(r.Result), ledger, "", 1)
}

// The page of approvals shows the call and takes the decision.
func TestPageAsksAboutAnUnknownCall(t *testing.T) {
	longtest.SkipSlow(t)
	t.Parallel()
	needSandbox(t)
	const token = "0123456789-of-acme"
	ledger := filepath.Join(t.TempDir(), "effects.txt")
	d := startServing(t, "", fmt.Sprintf("http: {tokens: {acme: %s}}\nservers:\n  slow: {command: ledger, args: [%q], trusted: true}\n",
		token, ledger))
	v := d.visit("Authorization", "Bearer "+token)
	args, _ := json.Marshal(map[string]any{"code": twelvePayments, "timeout_seconds": 2})
	id := regexp.MustCompile(`exec_[a-z0-9]+`).FindString(v.answer(string(args)))
	asked := v.toolText("resume_execution", fmt.Sprintf(`{"execution_id":%q}`, id))
	path := regexp.MustCompile(`/approve/[0-9a-z]+`).FindString(asked)
	if id == "" || path == "" || !strings.Contains(asked, "slow.pay") {
		t.Fatalf("there is no link: %s", asked)
	}
	p := d.browser()
	status, form := p.signIn(path, token)
	field := regexp.MustCompile(`name="([a-z_]+)" value="not-done"`).FindStringSubmatch(form)
	if status != http.StatusOK || field == nil || !strings.Contains(form, "pay") {
		t.Fatalf("%d %s", status, form)
	}
	if status, body, _ := p.do(path, p.base, url.Values{field[1]: {"not-done"}, "secret": {secretOf(t, form)}}); status != http.StatusOK {
		t.Fatalf("%d %s", status, body)
	}
	checkPayments(t, string(v.ask("resume_execution", fmt.Sprintf(`{"execution_id":%q}`, id)).Result), ledger, "", 2)
}

// A run of a workflow is resumed after the decision about its call.
func TestWorkflowResumeDecidesAnUnknownCall(t *testing.T) {
	longtest.SkipSlow(t)
	t.Parallel()
	needSandbox(t)
	for word, made := range map[string]int{"done": 1, "not-done": 2} {
		t.Run(word, func(t *testing.T) {
			t.Parallel()
			dir, ledger := slowServer(t)
			saveWorkflow(t, dir, `
name: pay
version: 1
steps:
  - {name: one, type: tool_call, config: {tool: slow.pay, arguments: {n: 1, how: "hang_once"}}}
  - {name: two, type: tool_call, depends_on: one, config: {tool: slow.pay, arguments: {n: 2, how: ok}}}
outputs: {paid: "${{ 2 }}"}
`)
			run := sandpiper(dir, "workflow", "run", "pay")
			if err := run.Start(); err != nil {
				t.Fatal(err)
			}
			awaitEffects(t, ledger, 1)
			_ = run.Process.Kill()
			_ = run.Wait()
			id := awaitRun(t, dir, "interrupted").Execution
			out, err := sandpiper(dir, "executions", "resume", id).CombinedOutput()
			asked := regexp.MustCompile("executions answer " + id + " ([0-9]+)").FindSubmatch(out)
			if err == nil || asked == nil {
				t.Fatalf("without a decision: %v %s", err, out)
			}
			command(t, dir, "executions", "answer", id, string(asked[1]), word)
			if got := command(t, dir, "executions", "resume", id); !strings.Contains(got, `"paid": 2`) {
				t.Error(got)
			}
			if d := cmp.Diff(map[int]int{1: made, 2: 1}, entered(t, ledger)); d != "" {
				t.Error(d)
			}
			awaitRun(t, dir, "completed")
		})
	}
}

// A call that only reads or is idempotent is made again when its execution is resumed, whether the
// daemon was killed or the time of the execution was over.
func TestRepeatableCallsAreMadeAgain(t *testing.T) {
	longtest.SkipSlow(t)
	t.Parallel()
	needSandbox(t)
	for _, name := range []string{"look", "set"} {
		for _, killed := range []bool{true, false} {
			t.Run(fmt.Sprintf("%s killed=%t", name, killed), func(t *testing.T) {
				t.Parallel()
				dir, ledger := slowServer(t)
				s := serve(t, dir)
				code := fmt.Sprintf("from servers import slow\nslow.pay(n=1, how='ok')\nslow.%s(n=2, how='hang_once')\nresult = 7", name)
				if killed {
					s.ask("", code)
					awaitEffects(t, ledger, 2)
				} else if said := s.tool("execute_code", fmt.Sprintf(`{"code":%q,"timeout_seconds":2}`, code)); !strings.Contains(said,
					"timed out") || strings.Contains(said, "unknown") {
					t.Errorf("the first run ended with %s", said)
				}
				s.kill()
				if got := command(t, dir, "executions", "resume", interrupted(t, dir)); got != "7" {
					t.Errorf("the result is %s", got)
				}
				if d := cmp.Diff(map[int]int{1: 1, 2: 2}, entered(t, ledger)); d != "" {
					t.Error(d)
				}
			})
		}
	}
}

// awaitEffects waits for the effect of call n.
func awaitEffects(t *testing.T, ledger string, n int) {
	t.Helper()
	for deadline := time.Now().Add(time.Minute); entered(t, ledger)[n] == 0; time.Sleep(10 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("call %d was not made", n)
		}
	}
}

// The result of an execution that outlived its request is kept, also if its daemon ends before anybody
// has read it: the execution is neither lost nor made again.
func TestResultOfAnApprovedExecutionIsKept(t *testing.T) {
	longtest.SkipSlow(t)
	t.Parallel()
	for name, end := range map[string]func(*served){
		"stopped": func(s *served) { _ = s.cmd.Process.Signal(syscall.SIGTERM); _ = s.cmd.Wait() },
		"killed":  func(s *served) { s.kill() },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			needSandbox(t)
			dir, ledger := books(t)
			appendTo(t, filepath.Join(dir, "sandpiper.yaml"), "policy: {rules: [{tool: ledger.add, decision: ask}]}\n")
			s := serve(t, dir)
			asked := s.call("", "from servers import ledger\nresult = [ledger.add(n=1), 'kept']")
			open := command(t, dir, "approvals", "list")
			approval, _, _ := strings.Cut(open, " ")
			if asked.Success || asked.ID == "" || approval == "" {
				t.Fatalf("%+v %s", asked, open)
			}
			command(t, dir, "approvals", "approve", approval)
			awaitEffects(t, ledger, 1)
			s.call("", "import time\ntime.sleep(1)") // the execution has ended when this one has
			end(s)
			again := serve(t, dir)
			for range 2 { // reading it does not use it up
				again.resume(asked.ID)
				if r, _ := again.hear(); string(r.Result) != `["1","kept"]` && string(r.Result) != `[1,"kept"]` {
					t.Errorf("after the restart: %s", r.raw)
				}
			}
			if d := cmp.Diff(map[int]int{1: 1}, entered(t, ledger)); d != "" {
				t.Error(d)
			}
		})
	}
}

// Likewise for an execution that was answered, and one that was resumed, after a restart of the daemon.
func TestResultsAfterAnAnswerAndAResumeAreKept(t *testing.T) {
	longtest.SkipSlow(t)
	t.Parallel()
	needSandbox(t)
	dir, ledger := slowServer(t)
	s := serve(t, dir)
	asked := s.call("", "from servers import slow\ncolour = ask('Which colour?')\nslow.pay(n=1, how='ok')\nresult = colour + 'ish'")
	if said := s.tool("resume_execution", fmt.Sprintf(`{"execution_id":%q,"answer":"blue"}`, asked.ID)); !strings.Contains(said,
		`"result":"blueish"`) {
		t.Fatal(said)
	}
	s.ask("", "from servers import slow\nslow.pay(n=2, how='ok')\nslow.set(n=3, how='hang_once')\nresult = 'resumed'")
	awaitEffects(t, ledger, 3)
	s.kill()
	resumed := interrupted(t, dir)
	s = serve(t, dir)
	s.resume(resumed)
	if r, _ := s.hear(); string(r.Result) != `"resumed"` {
		t.Fatal(r.raw)
	}
	_ = s.cmd.Process.Signal(syscall.SIGTERM)
	_ = s.cmd.Wait()
	s = serve(t, dir)
	for id, want := range map[string]string{asked.ID: `"blueish"`, resumed: `"resumed"`} {
		s.resume(id)
		if r, _ := s.hear(); string(r.Result) != want {
			t.Errorf("after the restart: %s, want %s", r.raw, want)
		}
	}
	if d := cmp.Diff(map[int]int{1: 1, 2: 1, 3: 2}, entered(t, ledger)); d != "" {
		t.Error(d)
	}
}

// A plan that is resumed where nobody can be asked stays a plan.
func TestPlanResumedWithoutATerminalIsKept(t *testing.T) {
	longtest.SkipSlow(t)
	t.Parallel()
	p := newApprovalClient(t, "2025-11-25", formCapabilities["2025-11-25"], "")
	r := p.dryRun(dependentCalls)
	for range 2 {
		out, err := sandpiper(p.home, "executions", "resume", r.ID).CombinedOutput()
		if err == nil || strings.Contains(string(out), "there is no plan") {
			t.Errorf("%v %s", err, out)
		}
		if list := command(t, p.home, "executions", "list"); !strings.Contains(list, r.ID) {
			t.Errorf("it is not listed: %s", list)
		}
	}
	if _, done := p.applyPlan(r.ID, approves); !done.Success || len(p.serverCalls()) != 3 {
		t.Errorf("%+v, the server was called with %q", done, p.serverCalls())
	}
}

// What is listed as resumable can be resumed. An execution that waits in the background is not.
func TestWaitingExecutionsAreNotResumable(t *testing.T) {
	longtest.SkipSlow(t)
	t.Parallel()
	needSandbox(t)
	dir, _ := books(t)
	s := serve(t, dir)
	id := command(t, dir, "executions", "run", "--background", "-c", "from servers import ledger\nledger.add(n=1)\nresult = wait_for('go')")
	awaitState(t, dir, "waiting")
	if list := s.tool("resume_execution", `{}`); strings.Contains(list, id) {
		t.Errorf("resume_execution lists %s", list)
	}
	var list struct {
		Executions []struct {
			ID string `json:"execution_id"`
		}
	}
	if err := json.Unmarshal([]byte(command(t, dir, "executions", "list", "--json")), &list); err != nil || len(list.Executions) > 0 {
		t.Errorf("executions list has %+v, %v", list, err)
	}
}

// A client answers the question of a task that runs in another daemon with the same data.
func TestTaskIsAnsweredInAnotherDaemon(t *testing.T) {
	longtest.SkipSlow(t)
	t.Parallel()
	p := newApprovalClient(t, "2026-07-28", declaresTaskSupport, "policy: {rules: [{tool: 'crm.*', decision: allow}]}\n")
	m := p.callAsTask("import time\nfrom servers import crm\ntime.sleep(3)\nresult = ask('Which colour?') + 'ish'")
	if m.Result.Type != "task" {
		t.Fatalf("%+v", m)
	}
	p.awaitTask(m.Result.ID, "input_required")
	other := restartDaemon(t, p, declaresTaskSupport) // the first one still runs
	asked := other.awaitTask(m.Result.ID, "input_required")
	var names []string
	for name := range asked.Result.Requests {
		names = append(names, name)
	}
	if !slices.Equal(names, []string{"q1"}) {
		t.Errorf("the other daemon shows the questions %v", names)
	}
	if u := other.task("tasks/update", fmt.Sprintf(`"taskId":%q,"inputResponses":{"q1":{"action":"accept","content":{"answer":"blue"}}}`,
		m.Result.ID)); u.Error.Code != 0 {
		t.Fatalf("%+v", u)
	}
	for _, client := range []*formClient{other, p.formClient} {
		if r := client.awaitTask(m.Result.ID, "completed").Result.Result; r == nil || !strings.Contains(r.Content[0].Text,
			`"result":"blueish"`) {
			t.Errorf("%+v", r)
		}
	}
}

// Of executions that wait for a time, either daemon runs the rest. The one that ran the beginning shows
// the questions of all of them, and takes the answers.
func TestTaskThatAnotherDaemonContinuedIsAnswered(t *testing.T) {
	longtest.SkipSlow(t)
	t.Parallel()
	p := newApprovalClient(t, "2026-07-28", declaresTaskSupport, "")
	restartDaemon(t, p, declaresTaskSupport) // the first one still runs
	var ids []string
	for range 6 {
		ids = append(ids, p.callAsTask("sleep_for(1.1)\nresult = ask('Which colour?') + 'ish'").Result.ID)
	}
	for _, id := range ids {
		p.awaitTask(id, "input_required")
		if u := p.task("tasks/update", fmt.Sprintf(`"taskId":%q,"inputResponses":{"q1":{"action":"accept","content":{"answer":"blue"}}}`,
			id)); u.Error.Code != 0 {
			t.Fatalf("%+v", u)
		}
		if r := p.awaitTask(id, "completed").Result.Result; r == nil || !strings.Contains(r.Content[0].Text, `"result":"blueish"`) {
			t.Errorf("%+v", r)
		}
	}
}

// The command decides about a call of an execution that a daemon runs. It is nothing to approve.
func TestCommandDecidesForARunningDaemon(t *testing.T) {
	longtest.SkipSlow(t)
	t.Parallel()
	dir, ledger, id := interruptPayments(t)
	s := serve(t, dir)
	s.resume(id)
	asked, _ := s.hear()
	if len(asked.Questions) != 1 || asked.Questions[0].Call == 0 {
		t.Fatalf("%+v", asked)
	}
	open := command(t, dir, "approvals", "list")
	request, _, _ := strings.Cut(open, " ")
	if !strings.Contains(open, "what happened to call") || !strings.Contains(open, "slow.pay") {
		t.Errorf("approvals list: %s", open)
	}
	answer := fmt.Sprintf("sandpiper executions answer %s %d done", id, asked.Questions[0].Call)
	for _, word := range []string{"approve", "deny"} {
		if out, err := sandpiper(dir, "approvals", word, request).CombinedOutput(); err == nil || !strings.Contains(string(out), answer) {
			t.Errorf("approvals %s: %v %s", word, err, out)
		}
	}
	command(t, dir, "executions", "answer", id, fmt.Sprint(asked.Questions[0].Call), "done", `{"id":5}`)
	s.resume(id)
	r, _ := s.hear()
	checkPayments(t, string(r.Result), ledger, `{"id":5}`, 1)
	if open := command(t, dir, "approvals", "list"); strings.Contains(open, request) {
		t.Errorf("it is still open: %s", open)
	}
}

// A background execution that another daemon continues asks about the call, and takes the decision of
// either form of the command.
func TestBackgroundExecutionAsksAboutAnUnknownCall(t *testing.T) {
	longtest.SkipSlow(t)
	t.Parallel()
	needSandbox(t)
	for name, decide := range map[string]func(id, call string) []string{
		"by its number":   func(id, call string) []string { return []string{"executions", "answer", id, call, "done", `{"id":7}`} },
		"as a question":   func(id, _ string) []string { return []string{"executions", "answer", id, "done"} },
		"it was not made": func(id, call string) []string { return []string{"executions", "answer", id, call, "not-done"} },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir, ledger := slowServer(t)
			s := serve(t, dir)
			id := command(t, dir, "executions", "run", "--background", "-c", twelvePayments)
			awaitEffects(t, ledger, 6)
			s.kill()
			serve(t, dir)
			awaitState(t, dir, "input_required")
			args := decide(id, "6")
			command(t, dir, args...)
			sixth := 1
			if slices.Contains(args, "not-done") {
				sixth = 2
			}
			given := ""
			if slices.Contains(args, `{"id":7}`) {
				given = `{"id":7}`
			}
			checkPayments(t, command(t, dir, "executions", "watch", id), ledger, given, sixth)
		})
	}
}
