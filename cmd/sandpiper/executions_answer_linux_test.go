package main

import (
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/sandpiper-mcp/sandpiper/internal/longtest"
)

const askingCode = `
from servers import ledger
ledger.add(n=1)
if ask("Go on?", {"type": "boolean"}):
    ledger.add(n=2)
result = ask("How many?", {"type": "integer"})`

// A person answers the questions of a background execution from other processes: on the command line,
// also while no daemon runs, and in the client of another daemon.
func TestQuestionIsAnsweredInAnotherProcess(t *testing.T) {
	longtest.SkipSlow(t)
	t.Parallel()
	needSandbox(t)
	dir, ledger := books(t)
	appendTo(t, filepath.Join(dir, "sandpiper.yaml"), "profile: full\n")
	s := serve(t, dir)
	id := command(t, dir, "executions", "run", "--background", "-c", askingCode)
	awaitState(t, dir, "input_required")
	for _, c := range []struct {
		args []string
		want string
	}{
		{[]string{id, "perhaps"}, "the answer to q1 does not fit its schema"},
		{[]string{id, "--question", "q7", "yes"}, `there is no open question "q7"; there are q1`},
		{[]string{id}, "there is no terminal to ask at"},
		{[]string{id, "yes", "--decline"}, "VALUE conflicts with --decline"},
		{[]string{"exec_aaaaaaaaaaaaaaaaaaaaaaaaaa", "yes"}, "there is no background execution"},
	} {
		out, err := sandpiper(dir, append([]string{"executions", "answer"}, c.args...)...).CombinedOutput()
		if err == nil || !strings.Contains(string(out), c.want) {
			t.Errorf("%q: %v %s", c.args, err, out)
		}
	}
	s.kill()
	command(t, dir, "executions", "answer", id, "yes") // kept for the next daemon
	serve(t, dir)
	for asked := ""; !strings.Contains(asked, "How many?"); time.Sleep(50 * time.Millisecond) {
		asked = command(t, dir, "executions", "list", "--background")
	}
	other := serve(t, dir)
	if got := other.tool("resume_execution", `{"execution_id":"`+id+`","answer":"x"}`); !strings.Contains(got, "does not fit") {
		t.Error(got)
	}
	// if it runs it itself
	if got := other.tool("resume_execution", `{"execution_id":"`+id+`","answer":5}`); !strings.Contains(got,
		"was passed on") && !strings.Contains(got, `"result":5`) {
		t.Error(got)
	}
	if got := command(t, dir, "executions", "watch", id); got != "5" {
		t.Errorf("the result is %s", got)
	}
	if diff := cmp.Diff(map[int]int{1: 1, 2: 1}, entered(t, ledger)); diff != "" {
		t.Error(diff)
	}
	if out, err := sandpiper(dir, "executions", "answer", id, "6").
		CombinedOutput(); err == nil || !strings.Contains(string(out), "asks no question now") {
		t.Errorf("%v %s", err, out)
	}
}

// A call of a background execution that needs approval waits for `sandpiper approvals`, also across a
// kill of its daemon.
func TestApprovalOfBackgroundCall(t *testing.T) {
	longtest.SkipSlow(t)
	t.Parallel()
	needSandbox(t)
	dir, ledger := books(t)
	appendTo(t, filepath.Join(dir, "sandpiper.yaml"), "policy: {rules: [{tool: ledger.add, decision: ask}]}\n")
	s := serve(t, dir)
	id := command(t, dir, "executions", "run", "--background", "-c", "from servers import ledger\nresult = ledger.add(n=1)")
	awaitState(t, dir, "input_required")
	open := command(t, dir, "approvals", "list")
	if !strings.Contains(open, id) {
		t.Fatal(open)
	}
	approval, _, _ := strings.Cut(open, " ")
	out, err := sandpiper(dir, "executions", "answer", id, "yes").CombinedOutput()
	if err == nil || !strings.Contains(string(out), "sandpiper approvals approve "+approval) {
		t.Errorf("%v %s", err, out)
	}
	s.kill()
	if out, err := sandpiper(dir, "approvals", "approve", approval).
		CombinedOutput(); err != nil || !strings.Contains(string(out), id+" continues when a daemon runs\n") {
		t.Errorf("%v %s", err, out)
	}
	if out := command(t, dir, "executions", "list", "--background"); !strings.HasSuffix(out, "; it continues when a daemon runs") {
		t.Error(out)
	}
	serve(t, dir)
	command(t, dir, "executions", "watch", id)
	if diff := cmp.Diff(map[int]int{1: 1}, entered(t, ledger)); diff != "" {
		t.Error(diff)
	}
}

const reportedCode = `
import os, time
from servers import ledger
ledger.add(n=1)
write_file("begun", "")
while not os.path.exists("go"): time.sleep(0.01)
ledger.add(n=2)`

// The daemon of an execution with on_restart report is killed. The next one reports it as interrupted,
// once, and does not run it again.
func TestKilledExecutionIsReported(t *testing.T) {
	longtest.SkipSlow(t)
	t.Parallel()
	needSandbox(t)
	dir, ledger := books(t)
	s := serve(t, dir)
	id := command(t, dir, "executions", "run", "--background", "--on-restart", "report", "-c", reportedCode)
	for sandpiper(dir, "files", "cat", "begun").Run() != nil {
		time.Sleep(20 * time.Millisecond)
	}
	s.kill()
	command(t, dir, "files", "put", filepath.Join(dir, "sandpiper.yaml"), "--as", "go") // it would not wait again
	serve(t, dir)
	serve(t, dir)
	out, err := sandpiper(dir, "executions", "watch", id).CombinedOutput()
	if err == nil || strings.Count(string(out), "Sandpiper stopped while it was running") != 1 {
		t.Errorf("%v %s", err, out)
	}
	if got := stateOf(t, dir); got != "interrupted" {
		t.Errorf("it is %s", got)
	}
	if diff := cmp.Diff(map[int]int{1: 1}, entered(t, ledger)); diff != "" {
		t.Error(diff)
	}
	// A person may still resume it from its record.
	command(t, dir, "executions", "resume", id)
	if diff := cmp.Diff(map[int]int{1: 1, 2: 1}, entered(t, ledger)); diff != "" {
		t.Error(diff)
	}
}
