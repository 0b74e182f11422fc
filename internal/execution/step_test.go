package execution_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/sandpiper-mcp/sandpiper/internal/execution"
	"github.com/sandpiper-mcp/sandpiper/internal/home"
)

// The result of an execution is returned even if the log of its session cannot be written.
func TestStepSucceedsIfLogFails(t *testing.T) {
	s := sessionSetup(t, execution.Sessions{})
	root := filepath.Join(t.TempDir(), "data")
	all, err := home.Open(t.Context(), home.Config{Root: root, RecentCode: -1})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { all.Close() })
	home := newHome(t, "a", all)
	s.call(t, home, "s", "result 1")
	logs, err := filepath.Glob(filepath.Join(root, "private", "a", "tenant.db-steps-*"))
	if err != nil || len(logs) != 1 {
		t.Fatal(logs, err)
	}
	rename := func(from, to string) {
		t.Helper()
		if err := os.Rename(from, to); err != nil {
			t.Fatal(err)
		}
	}
	away := filepath.Join(root, "away")
	rename(logs[0], away)
	res := s.call(t, home, "s", "result 2")
	if !res.Success() || string(res.Value) != "2" || !strings.Contains(res.Session.Note, "not in the log of session") {
		t.Errorf("%+v with %+v", res, res.Session)
	}
	rename(away, logs[0])
	if res = s.call(t, home, "s", "result 3"); !res.Success() || res.Session.Note != "" {
		t.Errorf("after the fault: %+v with %+v", res, res.Session)
	}
	steps, err := home.Sessions.Replay(t.Context(), "s")
	if err != nil || len(steps) != 2 {
		t.Errorf("%d tasks are in the log, %v", len(steps), err)
	}
}
