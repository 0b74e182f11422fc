package main

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/sandpiper-mcp/sandpiper/internal/longtest"
)

// beatingCode writes to a file as long as it has a process, and computes in a thread until there is the file go.
const beatingCode = `
import os, threading, time
from servers import ledger

def beat():
    while True:
        with open("beat", "a") as f: f.write(".")
        time.sleep(0.1)

def work():
    while not os.path.exists("go"): sum(range(100_000))

ledger.add(n=1)
for f in beat, work: threading.Thread(target=f, daemon=True).start()
sure = ask("Go on?", {"type": "boolean"})
ledger.add(n=2)
result = sure`

// beats reports whether the code of beatingCode has a process.
func beats(t *testing.T, dir string) bool {
	t.Helper()
	before := command(t, dir, "files", "cat", "beat")
	time.Sleep(time.Second)
	return command(t, dir, "files", "cat", "beat") != before
}

// An execution that asks keeps its process while a thread computes, and has none afterwards. The client of another
// daemon is shown the question, and its answer continues the execution there.
func TestAskingExecutionHasNoProcess(t *testing.T) {
	longtest.SkipSlow(t)
	t.Parallel()
	needSandbox(t)
	dir, ledger := books(t)
	s := serve(t, dir)
	id := command(t, dir, "executions", "run", "--background", "-c", beatingCode)
	awaitState(t, dir, "input_required")
	for range 5 {
		if !beats(t, dir) {
			t.Fatal("it has no process while a thread computes")
		}
	}
	command(t, dir, "files", "put", dir+"/sandpiper.yaml", "--as", "go")
	for deadline := time.Now().Add(time.Minute); beats(t, dir); {
		if time.Now().After(deadline) {
			t.Fatal("it has a process while it asks")
		}
	}
	if got := stateOf(t, dir); got != "input_required" {
		t.Errorf("it is %s", got)
	}
	s.kill()
	s = serve(t, dir)
	if got := s.tool("resume_execution", `{"execution_id":"`+id+`"}`); !strings.Contains(got, "Go on?") {
		t.Error(got)
	}
	if got := s.tool("resume_execution", `{"execution_id":"`+id+`","answer":true}`); !strings.Contains(got, `"result":true`) {
		t.Error(got)
	}
	if diff := cmp.Diff(map[int]int{1: 1, 2: 1}, entered(t, ledger)); diff != "" {
		t.Error(diff)
	}
}
