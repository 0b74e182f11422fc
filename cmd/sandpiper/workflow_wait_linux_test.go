package main

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/sandpiper-mcp/sandpiper/internal/feature/workflow"
	"github.com/sandpiper-mcp/sandpiper/internal/longtest"
)

// payWorkflow waits for a signal between two writes, and asks a person before the second one.
const payWorkflow = `
name: pay
version: 1
inputs: {properties: {first: {type: integer}}, required: [first]}
steps:
  - {name: one, type: tool_call, config: {tool: ledger.add, arguments: {n: "${{ inputs.first }}"}}}
  - {name: paid, type: wait, depends_on: one, config: {wait_for: paid, timeout: 1h}}
  - {name: sure, type: approval, depends_on: paid, config: {question: "Pay ${{ steps.paid.result.amount }}?"}}
  - {name: two, type: tool_call, depends_on: sure, config: {tool: ledger.add, arguments: {n: "${{ steps.paid.result.amount }}"}}}
outputs: {amount: "${{ steps.paid.result.amount }}"}
`

// payBooks returns a directory with the ledger and the saved workflow pay.
func payBooks(t *testing.T, config string) (dir, ledger string) {
	t.Helper()
	dir, ledger = books(t)
	appendTo(t, filepath.Join(dir, "sandpiper.yaml"), "profile: full\n"+config)
	saveWorkflow(t, dir, payWorkflow)
	return dir, ledger
}

func appendTo(t *testing.T, file, text string) {
	t.Helper()
	old, err := os.ReadFile(file)
	if err == nil {
		err = os.WriteFile(file, append(old, text...), 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
}

func saveWorkflow(t *testing.T, dir, source string) {
	t.Helper()
	file := filepath.Join(dir, "workflow.yaml")
	if err := os.WriteFile(file, []byte(source), 0o600); err != nil {
		t.Fatal(err)
	}
	command(t, dir, "workflow", "save", file)
}

// awaitRun returns the only run of a workflow when it has a state.
func awaitRun(t *testing.T, dir, state string) (r workflow.Run) {
	t.Helper()
	for deadline := time.Now().Add(2 * time.Minute); ; time.Sleep(20 * time.Millisecond) {
		var list struct{ Runs []workflow.Run }
		if err := json.Unmarshal([]byte(command(t, dir, "workflow", "history", "--json")), &list); err != nil || len(list.Runs) > 1 {
			t.Fatal(list, err)
		}
		if len(list.Runs) > 0 {
			r = list.Runs[0]
		}
		if r.State == state {
			return r
		}
		if time.Now().After(deadline) {
			t.Fatalf("the run is %s, not %s", r.State, state)
		}
	}
}

// approve answers the question of a background execution with yes, when this daemon asks it.
func (s *served) approve(id string) {
	s.t.Helper()
	for deadline := time.Now().Add(time.Minute); ; time.Sleep(50 * time.Millisecond) {
		s.id++
		s.say(fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":"tools/call","params":{"name":"resume_execution","arguments":{"execution_id":%q,"answer":true}}}`, s.id, id))
		r, ok := s.hear()
		if r.Success {
			return
		}
		if !ok || time.Now().After(deadline) {
			s.t.Fatalf("%+v", r)
		}
	}
}

// checkPaid checks that both writes were made once, and that the run has its result.
func checkPaid(t *testing.T, dir, ledger string) {
	t.Helper()
	run := awaitRun(t, dir, "completed")
	if diff := cmp.Diff(map[int]int{1: 1, 5: 1}, entered(t, ledger)); diff != "" {
		t.Error(diff)
	}
	if got := command(t, dir, "workflow", "show", run.Execution); !strings.Contains(got, `result: {"amount":5}`) {
		t.Error(got)
	}
	if got := command(t, dir, "executions", "list"); got != "" {
		t.Error(got)
	}
}

// A workflow waits for a signal without a process while its daemon is killed and the workflow
// deleted, and continues in another daemon. That one is killed while a person is asked.
func TestWorkflowWaitsAcrossKills(t *testing.T) {
	longtest.SkipSlow(t)
	t.Parallel()
	needSandbox(t)
	dir, ledger := payBooks(t, "")
	s := serve(t, dir)
	s.id++
	s.say(fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":"tools/call","params":{"name":"run_workflow","arguments":{"name":"pay","inputs":{"first":1}}}}`, s.id))
	r, ok := s.hear()
	if !ok || r.Success || !strings.Contains(r.Error, "waits for a signal, until") {
		t.Fatalf("%+v", r)
	}
	s.kill()
	run := awaitRun(t, dir, "waiting")
	if got := entered(t, ledger); got[1] != 1 || len(got) != 1 {
		t.Error(got)
	}
	command(t, dir, "workflow", "delete", "pay")
	s = serve(t, dir)
	command(t, dir, "executions", "signal", run.Execution, "paid", `{"amount": 5}`)
	awaitRun(t, dir, "input_required")
	s.kill()
	serve(t, dir).approve(run.Execution)
	checkPaid(t, dir, ledger)
}

// A schedule runs the text that the workflow has when the run starts.
func TestScheduleRunsWorkflow(t *testing.T) {
	longtest.SkipSlow(t)
	t.Parallel()
	needSandbox(t)
	dir, ledger := payBooks(t, "schedules:\n  - {name: monthly, cron: \"@monthly\", run: {workflow: pay}, inputs: {first: 1}}\n")
	id := command(t, dir, "schedules", "run", "monthly")
	saveWorkflow(t, dir, strings.Replace(payWorkflow, "version: 1", "version: 2", 1))
	s := serve(t, dir)
	if run := awaitRun(t, dir, "waiting"); run.Execution != id || run.Version != "2" {
		t.Fatalf("%+v", run)
	}
	saveWorkflow(t, dir, "name: pay\nsteps:\n  - {name: other, type: code_execution, config: {code: return 1}}\n")
	command(t, dir, "executions", "signal", id, "paid", `{"amount": 5}`)
	s.approve(id)
	checkPaid(t, dir, ledger)
	if got := command(t, dir, "schedules", "list"); !strings.Contains(got, "workflow pay") || !strings.Contains(got, "completed "+id) {
		t.Error(got)
	}
}

// A run of a deleted workflow fails, and its error names the workflow.
func TestScheduleOfDeletedWorkflowFails(t *testing.T) {
	t.Parallel()
	needSandbox(t)
	dir, _ := payBooks(t, "schedules:\n  - {name: monthly, cron: \"@monthly\", run: {workflow: pay}, inputs: {first: 1}}\n")
	id := command(t, dir, "schedules", "run", "monthly")
	command(t, dir, "workflow", "delete", "pay")
	serve(t, dir)
	if all := lastRuns(t, dir); len(all) != 1 || all[0].Last.Outcome != "failed" {
		t.Errorf("%+v", all)
	}
	out, err := sandpiper(dir, "executions", "watch", id).CombinedOutput()
	if err == nil || !strings.Contains(string(out), `there is no workflow "pay"`) {
		t.Errorf("%s %v", out, err)
	}
}

// limitedWorkflow has a step that takes too long, also for a tool, and one that waits longer than
// its time limit.
const limitedWorkflow = `
name: limited
steps:
  - name: slow
    type: code_execution
    timeout: 0.5
    on_error: skip
    config:
      code: |
        import time
        with open("ran", "a") as f: f.write("x")
        time.sleep(3600)
  - name: hangs
    type: tool_call
    depends_on: slow
    timeout: 1s
    retry: {attempts: 2, backoff: 0.1}
    on_error: skip
    config: {tool: ledger.wait}
  - {name: one, type: tool_call, depends_on: hangs, config: {tool: ledger.add, arguments: {n: 1}}}
  - name: patient
    type: condition
    depends_on: one
    timeout: 1s
    config:
      if: steps.one.result
      then:
        - {name: pause, type: wait, config: {sleep_for: 2}}
        - {name: two, type: tool_call, depends_on: pause, config: {tool: ledger.add, arguments: {n: 2}}}
outputs: {slow: "${{ steps.slow.error }}", hangs: "${{ steps.hangs.error }}", two: "${{ steps.patient.result }}"}
`

// A step whose time is over has failed, also for a run that is continued: it does not run again. The time
// in which a run waits does not count.
func TestStepTimeout(t *testing.T) {
	longtest.SkipSlow(t)
	t.Parallel()
	needSandbox(t)
	dir, ledger := books(t)
	appendTo(t, filepath.Join(dir, "sandpiper.yaml"), "profile: full\n")
	saveWorkflow(t, dir, limitedWorkflow)
	s := serve(t, dir)
	s.id++
	s.say(fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":"tools/call","params":{"name":"run_workflow","arguments":{"name":"limited"}}}`,
		s.id))
	if r, ok := s.hear(); !ok || !strings.Contains(r.Error, "waits until") {
		t.Fatalf("%+v", r)
	}
	run := awaitRun(t, dir, "completed")
	const want = `result: {"slow":"it took longer than 0.5 s","hangs":"it took longer than 1 s. It is unknown whether ledger.wait took ` +
		`effect: check that before you call it again","two":"2"}`
	if got := command(t, dir, "workflow", "show", run.Execution); !strings.Contains(got, want) {
		t.Error(got)
	}
	if diff := cmp.Diff(map[int]int{1: 1, 2: 1}, entered(t, ledger)); diff != "" {
		t.Error(diff)
	}
	if got := command(t, dir, "files", "cat", "ran"); got != "x" {
		t.Errorf("the step ran %d times", len(got))
	}
}
