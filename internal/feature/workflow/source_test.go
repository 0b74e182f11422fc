package workflow_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/sandpiper-mcp/sandpiper/internal/execution"
	"github.com/sandpiper-mcp/sandpiper/internal/fault"
	"github.com/sandpiper-mcp/sandpiper/internal/feature/workflow"
	"github.com/sandpiper-mcp/sandpiper/internal/home"
	"github.com/sandpiper-mcp/sandpiper/internal/store/tenant"
)

// No name and no mistake in a file of the operator reveals its directory to a tenant.
func TestMessagesHaveNoDirectoryOfTheOperator(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "of the operator")
	if err := os.MkdirAll(filepath.Join(dir, "folder.yaml"), 0o700); err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string]string{"wrong.yaml": "name: wrong\nsteps: 5\n", "unreadable.yaml": ""} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Truncate(filepath.Join(dir, "unreadable.yaml"), workflow.MaxBytes+1); err != nil {
		t.Fatal(err)
	}
	s, err := workflow.New(workflow.Config{Runner: new(execution.Runner), Dir: dir, IsTool: func(string) bool { return false }})
	if err != nil {
		t.Fatal(err)
	}
	homes, err := home.Open(t.Context(), home.Config{Root: filepath.Join(t.TempDir(), "data"), UIDs: -1})
	if err != nil {
		t.Fatal(err)
	}
	defer homes.Close()
	id, err := tenant.Parse("acme")
	if err != nil {
		t.Fatal(err)
	}
	h, err := homes.Acquire(t.Context(), id)
	if err != nil {
		t.Fatal(err)
	}
	defer h.Release(t.Context())
	said := map[string]string{}
	for _, name := range []string{"wrong", "unreadable", "folder", strings.Repeat("a", 128), strings.Repeat("a", 129),
		strings.Repeat("a", 251), strings.Repeat("a", 10_000)} {
		if _, err := s.Source(t.Context(), h, name); err != nil {
			said["source of "+name] = fault.Message(err) + fault.Hint(err)
		}
		if err := s.CheckInputs(t.Context(), h, name, nil); err == nil {
			t.Errorf("%.10s has no mistake", name)
		} else {
			said["inputs of "+name] = fault.Message(err) + fault.Hint(err)
		}
	}
	names, err := s.Names(t.Context(), h)
	if err != nil {
		t.Fatal(err)
	}
	all, err := s.Describe(t.Context(), h, names)
	if err != nil || len(all) != 3 || all[0].Name != "folder" || all[0].Problem == "" {
		t.Errorf("%+v, %v", all, err)
	}
	for _, l := range all {
		said["list of "+l.Name] = l.Problem
	}
	if len(said) < 10 {
		t.Errorf("%q", said)
	}
	for what, text := range said {
		if strings.Contains(text, "of the operator/") || strings.Contains(text, os.TempDir()) || len(text) > 500 {
			t.Errorf("%.40s: %.300s", what, text)
		}
	}
}
