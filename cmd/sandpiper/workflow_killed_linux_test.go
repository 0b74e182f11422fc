package main

import (
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/sandpiper-mcp/sandpiper/internal/longtest"
)

// idleWorkflow computes until a file exists, and then makes a call.
const idleWorkflow = `
name: idle
steps:
  - name: wait
    type: code_execution
    config:
      code: |
        import os, time
        open("begun", "a").close()
        while not os.path.exists("go"): time.sleep(0.01)
        return 7
  - {name: one, type: tool_call, config: {tool: ledger.add, arguments: {n: "${{ steps.wait.result }}"}}}
outputs: {n: "${{ steps.wait.result }}"}
`

// killIdle starts the workflow with workflow run, kills the process before it makes a call, and
// returns the id of the run.
func killIdle(t *testing.T, dir string) string {
	t.Helper()
	saveWorkflow(t, dir, idleWorkflow)
	run := sandpiper(dir, "workflow", "run", "idle")
	if err := run.Start(); err != nil {
		t.Fatal(err)
	}
	for sandpiper(dir, "files", "cat", "begun").Run() != nil {
		time.Sleep(20 * time.Millisecond)
	}
	if state := awaitRun(t, dir, "running"); state.Why != "" {
		t.Errorf("while it runs: %+v", state)
	}
	_ = run.Process.Kill()
	_ = run.Wait()
	return awaitRun(t, dir, "interrupted").Execution
}

// A run that is killed before it has made a call is interrupted, and can be resumed.
func TestRunKilledBeforeItsFirstCallIsResumed(t *testing.T) {
	longtest.SkipSlow(t)
	t.Parallel()
	needSandbox(t)
	dir, ledger := books(t)
	id := killIdle(t, dir)
	if got := command(t, dir, "executions", "list"); !strings.Contains(got, id) {
		t.Errorf("executions list: %s", got)
	}
	command(t, dir, "files", "put", filepath.Join(dir, "sandpiper.yaml"), "--as", "go")
	if got := command(t, dir, "executions", "resume", id); !strings.Contains(got, `"n": 7`) {
		t.Error(got)
	}
	if diff := cmp.Diff(map[int]int{7: 1}, entered(t, ledger)); diff != "" {
		t.Error(diff)
	}
	awaitRun(t, dir, "completed")
	if got := command(t, dir, "executions", "list"); got != "" {
		t.Errorf("executions list: %s", got)
	}
}
