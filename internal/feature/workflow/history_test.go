package workflow_test

import (
	"errors"
	"path/filepath"
	"strings"
	"testing"

	"github.com/sandpiper-mcp/sandpiper/internal/execution"
	"github.com/sandpiper-mcp/sandpiper/internal/feature/workflow"
	"github.com/sandpiper-mcp/sandpiper/internal/home"
	"github.com/sandpiper-mcp/sandpiper/internal/home/journal"
	"github.com/sandpiper-mcp/sandpiper/internal/sandbox/admit"
	"github.com/sandpiper-mcp/sandpiper/internal/sandbox/fake"
	"github.com/sandpiper-mcp/sandpiper/internal/store/tenant"
)

// newService returns a Service, its runner and the home of a tenant.
func newService(t *testing.T) (*workflow.Service, *execution.Runner, *home.Home) {
	t.Helper()
	data := filepath.Join(t.TempDir(), "data")
	process := journal.NewProcess(filepath.Join(data, "processes"), func() ([]byte, error) { return make([]byte, 32), nil })
	homes, err := home.Open(t.Context(), home.Config{Root: data, Process: process})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { homes.Close(); process.Close() })
	runner, err := execution.New(execution.Config{Backend: fake.New(fake.Config{}), Queue: admit.New(admit.Config{})})
	if err != nil {
		t.Fatal(err)
	}
	s, err := workflow.New(workflow.Config{Runner: runner})
	if err != nil {
		t.Fatal(err)
	}
	h, err := homes.Acquire(t.Context(), tenant.Local)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { h.Release(t.Context()) })
	return s, runner, h
}

// A run whose process has ended and whose record is gone is interrupted, and can be cancelled.
func TestRunWithoutRecordIsInterrupted(t *testing.T) {
	t.Parallel()
	s, runner, h := newService(t)
	const id = "exec_aaaaaaaaaaaaaaaaaaaaaaaaaa"
	err := journal.SetWorkflow(t.Context(), h.Runs, id, "w", "")
	if err := errors.Join(err, h.Journal.End(t.Context(), id, journal.End{State: journal.Running})); err != nil { // as after a kill
		t.Fatal(err)
	}
	all, err := s.History(t.Context(), h, "w", 10)
	if err != nil || len(all) != 1 || all[0].State != "interrupted" || !strings.Contains(all[0].Why, "no record") {
		t.Fatalf("%+v %v", all, err)
	}
	if err := runner.Cancel(t.Context(), h, id); err != nil {
		t.Fatal(err)
	}
	if r, err := s.Find(t.Context(), h, id); err != nil || r.State != "cancelled" || r.Why != "" {
		t.Errorf("%+v %v", r, err)
	}
}

// A run that is being executed has a record of this process, and is running.
func TestRunWithRecordIsRunning(t *testing.T) {
	t.Parallel()
	s, _, h := newService(t)
	const id = "exec_bbbbbbbbbbbbbbbbbbbbbbbbbb"
	record := h.Journal.NewRecord(id, func() ([]byte, error) { return []byte("{}"), nil }, false)
	if err := record.Flush(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := journal.SetWorkflow(t.Context(), h.Runs, id, "w", ""); err != nil {
		t.Fatal(err)
	}
	all, err := s.History(t.Context(), h, "", 10)
	if err != nil || len(all) != 1 || all[0].State != "running" || all[0].Why != "" {
		t.Errorf("%+v %v", all, err)
	}
}
