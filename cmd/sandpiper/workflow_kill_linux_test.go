package main

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/sandpiper-mcp/sandpiper/internal/feature/workflow"
	"github.com/sandpiper-mcp/sandpiper/internal/longtest"
)

// workflowStats counts the writes of workflows that were killed.
type workflowStats struct{ kills, resumed, continued, fresh, once, unknown, happened, duplicated, lost int }

// TestNoStepIsRepeatedAfterKills kills the daemon at random times during a workflow with every type
// of step, and resumes it. According to the server, each write of a step was made once, or the step
// reports that its outcome is unknown and it was made at most once. A run that waits for the signal is
// continued by the next daemon, any other one by resume_execution.
func TestNoStepIsRepeatedAfterKills(t *testing.T) {
	longtest.SkipSlow(t)
	t.Parallel()
	needSandbox(t)
	var all workflowStats
	f := startFlow(t)
	waitForFile(f.ledger)
	began := time.Now()
	if r, ok := f.hear(); !ok || !strings.Contains(r.Error, "waits for a signal") {
		t.Fatalf("%+v", r)
	}
	took := 2 * time.Since(began) // the rest takes as long
	f.kill()
	for n := 0; all.kills < kills(100); n++ {
		killWorkflow(t, n, took, &all)
	}
	t.Logf("%+v", all)
	if all.duplicated > 0 || all.lost > 0 {
		t.Errorf("%d writes were made twice, %d were lost", all.duplicated, all.lost)
	}
}

// workflowBooks returns a directory with the ledger, the workflows and a skill.
func workflowBooks(t *testing.T) (dir, ledger string) {
	t.Helper()
	dir, ledger = books(t)
	f, err := os.OpenFile(filepath.Join(dir, "sandpiper.yaml"), os.O_APPEND|os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	flows, err := filepath.Abs("testdata/workflows")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := fmt.Fprintf(f, "profile: full\nworkflows: %q\n", flows); err != nil {
		t.Fatal(err)
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	skill := sandpiper(dir, "skills", "save", "enter", "-")
	skill.Stdin = strings.NewReader("from servers import ledger\n\ndef enter(n):\n    return ledger.add(n=n)\n")
	if out, err := skill.CombinedOutput(); err != nil {
		t.Fatalf("%v %s", err, out)
	}
	form := filepath.Join(dir, "permit.html")
	if err := os.WriteFile(form, []byte(`<form><label>Surname <input name="surname" required></label></form>`), 0o600); err != nil {
		t.Fatal(err)
	}
	command(t, dir, "files", "put", form, "--as", "permit.html")
	return dir, ledger
}

// waitForFile waits until a file exists.
func waitForFile(path string) {
	for !isRegular(path) {
		time.Sleep(time.Millisecond)
	}
}

// flow is a run of the workflow every, and the daemon that runs it.
type flow struct {
	*served
	dir, ledger string
	signalled   bool
}

func startFlow(t *testing.T) *flow {
	t.Helper()
	f := &flow{}
	f.dir, f.ledger = workflowBooks(t)
	f.restart(t)
	f.run("run_workflow", `{"name":"every"}`)
	return f
}

func (f *flow) restart(t *testing.T) {
	t.Helper()
	f.served = serveTo(t, f.dir, `{"elicitation":{}}`)
	f.call("", "1")
}

// run calls a tool.
func (f *flow) run(tool, args string) {
	f.id++
	f.say(fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":"tools/call","params":{"name":%q,"arguments":%s}}`, f.id, tool, args))
}

// signal sends the signal that the workflow waits for, once.
func (f *flow) signal(t *testing.T, id string) {
	t.Helper()
	if !f.signalled {
		command(t, f.dir, "executions", "signal", id, "paid", `{"n": 70}`)
	}
	f.signalled = true
}

// killWorkflow runs one workflow and kills its daemon at least once.
func killWorkflow(t *testing.T, n int, took time.Duration, all *workflowStats) {
	f := startFlow(t)
	if rand.N(8) > 0 { // else it may be killed while it is checked
		waitForFile(f.ledger)
	}
	wait := rand.N(took)
	for {
		r, _ := f.killAfter(wait) // also after the answer: the run may wait
		all.kills++
		run, ok := latestRun(t, f.dir)
		if ok && run.State == "completed" {
			break
		}
		for _, q := range r.Questions {
			decideCall(t, f.dir, f.ledger, run.Execution, q.Call, q.Question)
		}
		f.restart(t)
		switch {
		case !ok: // nothing had an effect
			if got := entered(t, f.ledger); len(got) != 0 {
				t.Fatalf("run %d: %v was written, and nothing is on record", n, got)
			}
			all.fresh++
			f.run("run_workflow", `{"name":"every"}`)
		case run.State == "interrupted":
			all.resumed++
			f.resume(run.Execution)
		default: // the daemon continues it
			all.continued++
			f.signal(t, run.Execution)
			f.run("wait_for_background_task", fmt.Sprintf(`{"execution_id":%q}`, run.Execution))
		}
		wait = time.Minute
		if rand.N(3) == 0 {
			wait = rand.N(took)
		}
	}
	verifyWorkflow(t, n, completedRun(t, f.dir), entered(t, f.ledger), all)
}

// latestRun returns the latest run of a workflow, if there is one.
func latestRun(t *testing.T, dir string) (r workflow.Run, ok bool) {
	t.Helper()
	var list struct{ Runs []workflow.Run }
	if err := json.Unmarshal([]byte(command(t, dir, "workflow", "history", "--json")), &list); err != nil {
		t.Fatal(err)
	}
	if len(list.Runs) == 0 {
		return r, false
	}
	return list.Runs[0], true
}

// completedRun returns the result of the latest run.
func completedRun(t *testing.T, dir string) (result map[string]json.RawMessage) {
	t.Helper()
	run, _ := latestRun(t, dir)
	var shown struct{ Result map[string]json.RawMessage }
	if err := json.Unmarshal([]byte(command(t, dir, "workflow", "show", run.Execution, "--json")), &shown); err != nil {
		t.Fatal(err)
	}
	return shown.Result
}

// verifyWorkflow compares what the steps report with what the server has recorded.
func verifyWorkflow(t *testing.T, n int, result map[string]json.RawMessage, count map[int]int, all *workflowStats) {
	t.Helper()
	var rows [][2]any
	if json.Unmarshal(result["rows"], &rows) != nil || len(rows) != 3 || string(result["form"]) != `{"surname":"Lovelace"}` {
		t.Fatalf("run %d: %s", n, result)
	}
	if string(result["why"]) != `"always"` || count[99] != 0 {
		t.Errorf("run %d: the error is %s; the step after it ran %d times", n, result["why"], count[99])
	}
	reported := map[int]bool{}
	for _, id := range []int{1, 2, 20, 30, 31, 40, 50, 60, 70} {
		reported[id] = string(result[fmt.Sprint(id)]) != "null"
	}
	for _, row := range rows {
		reported[int(row[0].(float64))] = row[1] != nil
	}
	for id, done := range reported {
		c := count[id]
		switch {
		case c > 1:
			all.duplicated++
		case done && c == 0:
			all.lost++
		case done:
			all.once++
		default:
			all.unknown++
			all.happened += c
		}
	}
}
