package main

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/sandpiper-mcp/sandpiper/internal/longtest"
)

// command runs a command on the data directory and returns its output.
func command(t *testing.T, dir string, args ...string) string {
	t.Helper()
	out, err := sandpiper(dir, args...).Output()
	if err != nil {
		t.Fatalf("%q: %s %v", args, out, err)
	}
	return strings.TrimSpace(string(out))
}

// stateOf returns the state of the only background execution.
func stateOf(t *testing.T, dir string) string {
	t.Helper()
	var list struct{ Executions []struct{ State string } }
	if err := json.Unmarshal([]byte(command(t, dir, "executions", "list", "--background", "--json")), &list); err != nil ||
		len(list.Executions) != 1 {
		t.Fatal(list, err)
	}
	return list.Executions[0].State
}

func awaitState(t *testing.T, dir, state string) {
	t.Helper()
	for deadline := time.Now().Add(time.Minute); ; time.Sleep(20 * time.Millisecond) {
		is := stateOf(t, dir)
		if is == state {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("it is %s, not %s", is, state)
		}
	}
}

const waitingCode = `
from servers import ledger
ledger.add(n=1)
paid = wait_for("paid")
ledger.add(n=2)
result = paid["amount"]`

// The daemon is killed while the execution has no process. Of two others, one resumes it.
func TestWaitingExecutionIsResumedOnceAfterKill(t *testing.T) {
	longtest.SkipSlow(t)
	t.Parallel()
	needSandbox(t)
	dir, ledger := books(t)
	s := serve(t, dir)
	id := command(t, dir, "executions", "run", "--background", "-c", waitingCode)
	awaitState(t, dir, "waiting")
	s.kill()
	if diff := cmp.Diff(map[int]int{1: 1}, entered(t, ledger)); diff != "" {
		t.Error(diff)
	}
	serve(t, dir)
	serve(t, dir)
	command(t, dir, "executions", "signal", id, "paid", `{"amount": 5}`)
	if got := command(t, dir, "executions", "watch", id); got != "5" {
		t.Errorf("the result is %s", got)
	}
	if diff := cmp.Diff(map[int]int{1: 1, 2: 1}, entered(t, ledger)); diff != "" {
		t.Error(diff)
	}
	if got := command(t, dir, "executions", "list"); got != "" {
		t.Error(got)
	}
}

const busyCode = `
import os, time
from servers import ledger
ledger.add(n=1)
write_file("begun", "")
while not os.path.exists("go"): time.sleep(0.01)
ledger.add(n=2)
result = "done"`

// The daemon is killed while the code runs. Another daemon, which is running already, takes over.
func TestBackgroundExecutionIsTakenOverAfterKill(t *testing.T) {
	longtest.SkipSlow(t)
	t.Parallel()
	needSandbox(t)
	dir, ledger := books(t)
	s := serve(t, dir)
	id := command(t, dir, "executions", "run", "--background", "-c", busyCode)
	for sandpiper(dir, "files", "cat", "begun").Run() != nil {
		time.Sleep(20 * time.Millisecond)
	}
	serve(t, dir)
	s.kill()
	command(t, dir, "files", "put", dir+"/sandpiper.yaml", "--as", "go")
	if got := command(t, dir, "executions", "watch", id); got != "done" {
		t.Errorf("the result is %s", got)
	}
	if diff := cmp.Diff(map[int]int{1: 1, 2: 1}, entered(t, ledger)); diff != "" {
		t.Error(diff)
	}
}
