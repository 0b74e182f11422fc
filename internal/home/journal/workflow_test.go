package journal_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/sandpiper-mcp/sandpiper/internal/longtest"

	"github.com/sandpiper-mcp/sandpiper/internal/fault"
	"github.com/sandpiper-mcp/sandpiper/internal/home/journal"
)

// endWorkflow stores an ended run of a workflow.
func endWorkflow(t *testing.T, d daemon, id, name string) {
	t.Helper()
	r := d.NewRecord(id, func() ([]byte, error) { return []byte("code"), nil }, false)
	if err := r.Flush(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := journal.SetWorkflow(t.Context(), d.Runs(), id, name, "2"); err != nil {
		t.Fatal(err)
	}
	if err := r.End(t.Context(), journal.End{State: journal.Ended, Outcome: journal.Succeeded, Result: []byte("1"),
		Forget: true}); err != nil {
		t.Fatal(err)
	}
}

// Runs of workflows are kept when the results of other runs are deleted.
func TestRunsOfWorkflowsAreKept(t *testing.T) {
	t.Parallel()
	d := start(t, t.TempDir())
	endWorkflow(t, d, "exec_1", "nightly")
	endWorkflow(t, d, "exec_2", "weekly")
	if err := d.Runs().Sweep(t.Context(), time.Now().Add(time.Hour)); err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]int{"": 2, "nightly": 1, "none": 0} {
		all, err := journal.WorkflowRuns(t.Context(), d.Runs(), name, 10)
		if err != nil || len(all) != want || want == 1 && (all[0].Execution != "exec_1" || all[0].Version != "2" ||
			string(all[0].Request) != "code" || string(all[0].Result) != "1") {
			t.Errorf("%q: %+v, %v", name, all, err)
		}
	}
	if r, err := journal.FindWorkflowRun(t.Context(), d.Runs(), "exec_2"); err != nil || r.Outcome != journal.Succeeded {
		t.Errorf("%+v, %v", r, err)
	}
	if _, err := journal.FindWorkflowRun(t.Context(), d.Runs(), "exec_3"); fault.KindOf(err) != fault.NotFound {
		t.Error(err)
	}
	if left, err := d.ListUnfinished(t.Context()); err != nil || len(left) != 0 {
		t.Errorf("to be resumed: %+v, %v", left, err)
	}
}

func TestOldRunsOfWorkflowsAreDeleted(t *testing.T) {
	longtest.SkipSlow(t)
	t.Parallel()
	d := start(t, t.TempDir())
	for i := range 1003 {
		endWorkflow(t, d, fmt.Sprintf("exec_%04d", i), "w")
	}
	all, err := journal.WorkflowRuns(t.Context(), d.Runs(), "", 2000)
	if err != nil || len(all) != 1000 || all[0].Execution != "exec_1002" {
		t.Errorf("%d are left, %v", len(all), err)
	}
}
