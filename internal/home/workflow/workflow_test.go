package workflow_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/sandpiper-mcp/sandpiper/internal/fault"
	"github.com/sandpiper-mcp/sandpiper/internal/home/workflow"
	"github.com/sandpiper-mcp/sandpiper/internal/store"
	"github.com/sandpiper-mcp/sandpiper/internal/store/sealed"
)

func openDB(t *testing.T) *store.DB {
	t.Helper()
	db, err := store.Open(t.Context(), filepath.Join(t.TempDir(), "t.db"), []store.Migration{{Number: 1, Name: "workflows", SQL: sealed.Tables + workflow.Tables}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { db.Close() })
	return db
}

// open returns a Store with a key of 32 equal bytes.
func open(t *testing.T, cfg workflow.Config, key byte) *workflow.Store {
	t.Helper()
	var err error
	if cfg.In.Box, err = sealed.New(bytes.Repeat([]byte{key}, 32), "alice"); err != nil {
		t.Fatal(err)
	}
	return workflow.New(cfg)
}

func save(t *testing.T, s *workflow.Store, name, source string) {
	t.Helper()
	if err := s.Save(t.Context(), name, []byte(source)); err != nil {
		t.Fatal(err)
	}
}

func begin(t *testing.T, s *workflow.Store, id, name string) {
	t.Helper()
	of := workflow.Request{Inputs: json.RawMessage(`{"n":1}`), Code: "code of " + id}
	if err := s.Begin(t.Context(), workflow.Run{Execution: id, Workflow: name, Version: "2"}, of); err != nil {
		t.Fatal(err)
	}
}

// ids returns the executions of the runs of a workflow.
func ids(t *testing.T, s *workflow.Store, name string) (all []string) {
	t.Helper()
	runs, err := s.Runs(t.Context(), name, 5000)
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range runs {
		all = append(all, r.Execution)
	}
	return all
}

func TestSavedWorkflows(t *testing.T) {
	t.Parallel()
	changes := 0
	s := open(t, workflow.Config{In: sealed.Store{DB: openDB(t)}, Changed: func() { changes++ }}, 1)
	save(t, s, "report", "first")
	save(t, s, "a", "other")
	save(t, s, "report", "second")
	if got, err := s.Find(t.Context(), "report"); string(got) != "second" || err != nil {
		t.Errorf("report is %q, %v", got, err)
	}
	all, err := s.List(t.Context())
	if err != nil || len(all) != 2 || all[0].Name != "a" || all[1].Name != "report" || all[1].Size != len("second") {
		t.Errorf("%+v %v", all, err)
	}
	if err := s.Delete(t.Context(), "a"); err != nil {
		t.Fatal(err)
	}
	if changes != 4 {
		t.Errorf("%d changes were reported", changes)
	}
	err = s.Delete(t.Context(), "reprot")
	if fault.KindOf(err) != fault.NotFound || fault.Hint(err) != "there is report" || changes != 4 {
		t.Errorf("%v, %q, %d changes", err, fault.Hint(err), changes)
	}
	if _, err := s.Find(t.Context(), "a"); fault.KindOf(err) != fault.NotFound {
		t.Errorf("a deleted workflow: %v", err)
	}
}

func TestWorkflowsAreLimited(t *testing.T) {
	t.Parallel()
	s := open(t, workflow.Config{In: sealed.Store{DB: openDB(t)}}, 1)
	large := strings.Repeat("x", workflow.MaxStored/2)
	save(t, s, "a", large)
	save(t, s, "b", large)
	save(t, s, "b", large) // it replaces its own bytes
	if err := s.Save(t.Context(), "c", []byte("x")); fault.KindOf(err) != fault.Exhausted {
		t.Errorf("a byte too many: %v", err)
	}
	s = open(t, workflow.Config{In: sealed.Store{DB: openDB(t)}}, 1)
	for i := range workflow.MaxNames {
		save(t, s, fmt.Sprint("w", i), "x")
	}
	save(t, s, "w0", "y")
	if err := s.Save(t.Context(), "more", nil); fault.KindOf(err) != fault.Exhausted {
		t.Errorf("a workflow too many: %v", err)
	}
	full := fault.New(fault.Exhausted, "the disk is full")
	s = open(t, workflow.Config{In: sealed.Store{DB: openDB(t)}, Room: func(int64) error { return full }}, 1)
	if err := s.Save(t.Context(), "a", nil); err != full {
		t.Errorf("without room: %v", err)
	}
	if err := s.Begin(t.Context(), workflow.Run{Execution: "exec_1"}, workflow.Request{}); err != full {
		t.Errorf("without room: %v", err)
	}
}

func TestRuns(t *testing.T) {
	t.Parallel()
	s := open(t, workflow.Config{In: sealed.Store{DB: openDB(t)}}, 1)
	begin(t, s, "exec_1", "a")
	begin(t, s, "exec_2", "b")
	begin(t, s, "exec_3", "a")
	if err := s.End(t.Context(), "exec_1", workflow.Completed, workflow.Result{Value: json.RawMessage("5")}); err != nil {
		t.Fatal(err)
	}
	if err := s.End(t.Context(), "exec_none", workflow.Completed, workflow.Result{}); err != nil {
		t.Errorf("the end of another execution: %v", err)
	}
	if d := cmp.Diff([]string{"exec_3", "exec_2", "exec_1"}, ids(t, s, "")); d != "" {
		t.Error(d)
	}
	if d := cmp.Diff([]string{"exec_3", "exec_1"}, ids(t, s, "a")); d != "" {
		t.Error(d)
	}
	r, of, how, err := s.FindRun(t.Context(), "exec_1")
	if err != nil || r.State != workflow.Completed || r.Ended.Before(r.Started) || of.Code != "code of exec_1" || string(of.Inputs) != `{"n":1}` || how == nil || string(how.Value) != "5" {
		t.Errorf("%+v %+v %+v %v", r, of, how, err)
	}
	r, _, how, err = s.FindRun(t.Context(), "exec_2")
	if err != nil || r.State != workflow.Running || !r.Ended.IsZero() || how != nil {
		t.Errorf("%+v %+v %v", r, how, err)
	}
	if _, _, _, err := s.FindRun(t.Context(), "exec_4"); fault.KindOf(err) != fault.NotFound {
		t.Errorf("an unknown run: %v", err)
	}
}

// The oldest ended runs are deleted. Those that have not ended remain.
func TestOldRunsAreDeleted(t *testing.T) {
	t.Parallel()
	s := open(t, workflow.Config{In: sealed.Store{DB: openDB(t)}}, 1)
	begin(t, s, "exec_open", "a")
	for i := range workflow.MaxRuns + 2 {
		id := fmt.Sprintf("exec_%04d", i)
		begin(t, s, id, "a")
		if err := s.End(t.Context(), id, workflow.Completed, workflow.Result{}); err != nil {
			t.Fatal(err)
		}
	}
	begin(t, s, "exec_last", "a")
	left := ids(t, s, "")
	if len(left) != workflow.MaxRuns+2 || !slices.Contains(left, "exec_open") || left[0] != "exec_last" {
		t.Errorf("%d runs, the latest %s, with the open one: %v", len(left), left[0], slices.Contains(left, "exec_open"))
	}
}

// What a tenant stores is encrypted with its key, and bound to its row.
func TestWorkflowsAreEncrypted(t *testing.T) {
	t.Parallel()
	db := openDB(t)
	s, foreign := open(t, workflow.Config{In: sealed.Store{DB: db}}, 1), open(t, workflow.Config{In: sealed.Store{DB: db}}, 2)
	save(t, s, "a", "secret text")
	save(t, s, "b", "other text")
	begin(t, s, "exec_1", "a")
	if got, err := foreign.Find(t.Context(), "a"); err == nil {
		t.Errorf("another key reads %q", got)
	}
	if _, of, _, err := foreign.FindRun(t.Context(), "exec_1"); err == nil {
		t.Errorf("another key reads %+v", of)
	}
	err := db.Update(t.Context(), func(tx *store.Tx) error {
		_, err := tx.ExecContext(t.Context(), "UPDATE sealed SET body = (SELECT body FROM sealed WHERE name = 'b') WHERE name = 'a'")
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	if got, err := s.Find(t.Context(), "a"); err == nil {
		t.Errorf("the text of another workflow was accepted: %q", got)
	}
}
