package schedule_test

import (
	"testing"
	"time"

	"github.com/sandpiper-mcp/sandpiper/internal/feature/schedule"
)

// A due time without an execution has a reason in the list.
func TestRunsThatWereNotMadeHaveAReason(t *testing.T) {
	for state, want := range map[string]string{
		schedule.Skipped: "the run before it had not ended", schedule.Passed: "no daemon was running",
		"failed": "its execution could not be created: the log of the daemon has the reason",
	} {
		all := schedule.Describe([]schedule.Schedule{{Spec: schedule.Spec{Name: "a"}, Last: &schedule.Run{Due: time.Now(), State: state},
			Passed: &schedule.Run{Due: time.Now(), State: state}}})
		if all[0].Last.Error != want || all[0].Passed.Error != want {
			t.Errorf("%s: %+v %+v", state, all[0].Last, all[0].Passed)
		}
	}
	all := schedule.Describe([]schedule.Schedule{{Last: &schedule.Run{State: "failed", Execution: "exec_a"}}})
	if all[0].Last.Error != "" {
		t.Errorf("%+v", all[0].Last)
	}
}
