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
)

// workflowStats counts the writes of workflows that were killed.
type workflowStats struct{ kills, resumed, fresh, once, unknown, happened, duplicated, lost int }

// TestNoStepIsRepeatedAfterKills kills the daemon at random times during a workflow with every type
// of step, and resumes it. According to the server, each write of a step was made once, or the step
// reports that its outcome is unknown and it was made at most once.
func TestNoStepIsRepeatedAfterKills(t *testing.T) {
	t.Parallel()
	needSandbox(t)
	var all workflowStats
	dir, ledger := workflowBooks(t)
	s := serveTo(t, dir, `{"elicitation":{}}`)
	s.call("", "1")
	s.runEvery()
	waitForFile(ledger)
	began := time.Now()
	if r, ok := s.hear(); !ok || !r.Success {
		t.Fatalf("%+v", r)
	}
	took := time.Since(began)
	s.kill()
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
	return dir, ledger
}

// waitForFile waits until a file exists.
func waitForFile(path string) {
	for !isRegular(path) {
		time.Sleep(time.Millisecond)
	}
}

// runEvery starts the workflow.
func (s *served) runEvery() {
	s.id++
	s.say(fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":"tools/call","params":{"name":"run_workflow","arguments":{"name":"every"}}}`, s.id))
}

// killWorkflow runs one workflow and kills it at least once.
func killWorkflow(t *testing.T, n int, took time.Duration, all *workflowStats) {
	dir, ledger := workflowBooks(t)
	s := serveTo(t, dir, `{"elicitation":{}}`)
	s.call("", "1")
	s.runEvery()
	if rand.N(8) > 0 { // else it may be killed while it is checked
		waitForFile(ledger)
	}
	r, ended := s.killAfter(rand.N(took))
	for !ended {
		all.kills++
		id := interrupted(t, dir)
		if done, ok := completedRun(t, dir); id == "" && ok { // killed before the answer was read
			r = done
			break
		}
		s = serveTo(t, dir, `{"elicitation":{}}`)
		s.call("", "1")
		if id == "" { // nothing had an effect
			if got := entered(t, ledger); len(got) != 0 {
				t.Fatalf("run %d: %v was written, and nothing is on record", n, got)
			}
			all.fresh++
			s.runEvery()
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
	verifyWorkflow(t, n, r, entered(t, ledger), all)
}

// completedRun returns the result of the latest run, if it has completed.
func completedRun(t *testing.T, dir string) (r execAnswer, ok bool) {
	t.Helper()
	out, err := sandpiper(dir, "workflow", "history", "--json").Output()
	if err != nil {
		t.Fatal(err)
	}
	var list struct {
		Runs []struct {
			ID    string `json:"execution_id"`
			State string
		}
	}
	if err := json.Unmarshal(out, &list); err != nil {
		t.Fatalf("%s: %v", out, err)
	}
	if len(list.Runs) == 0 || list.Runs[0].State != "completed" {
		return r, false
	}
	if out, err = sandpiper(dir, "workflow", "show", list.Runs[0].ID, "--json").Output(); err != nil {
		t.Fatal(err)
	}
	r.Success = true
	return r, json.Unmarshal(out, &r) == nil
}

// verifyWorkflow compares what the steps report with what the server has recorded.
func verifyWorkflow(t *testing.T, n int, r execAnswer, count map[int]int, all *workflowStats) {
	t.Helper()
	var result map[string]json.RawMessage
	var rows [][2]any
	if err := json.Unmarshal(r.Result, &result); err != nil || !r.Success || json.Unmarshal(result["rows"], &rows) != nil || len(rows) != 3 {
		t.Fatalf("run %d: %+v", n, r)
	}
	if string(result["why"]) != `"always"` || count[99] != 0 {
		t.Errorf("run %d: the error is %s; the step after it ran %d times", n, result["why"], count[99])
	}
	reported := map[int]bool{}
	for _, id := range []int{1, 2, 20, 30, 31, 40, 50, 60} {
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
