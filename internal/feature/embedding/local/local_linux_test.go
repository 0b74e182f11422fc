package local_test

import (
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/sandpiper-mcp/sandpiper/internal/fault"
	"github.com/sandpiper-mcp/sandpiper/internal/feature/embedding/bert/berttest"
	"github.com/sandpiper-mcp/sandpiper/internal/feature/embedding/local"
)

// A pipe as a source, or in one, is not opened, which would block.
func TestAddRefusesPipe(t *testing.T) {
	s := local.Store(t.TempDir())
	dir := t.TempDir()
	if err := os.CopyFS(dir, berttest.Files(1)); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"alone", "model.safetensors", "config.json", "tokenizer.json"} {
		path := filepath.Join(dir, name)
		from := dir
		if name == "alone" {
			path = filepath.Join(t.TempDir(), name)
			from = path
		} else if err := os.Rename(path, path+".file"); err != nil {
			t.Fatal(err)
		}
		if err := syscall.Mkfifo(path, 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := s.Add(t.Context(), "tiny", local.Source{From: from}); fault.KindOf(err) != fault.Invalid {
			t.Errorf("%s: %v", name, err)
		}
		if name != "alone" {
			if err := os.Rename(path+".file", path); err != nil {
				t.Fatal(err)
			}
		}
	}
	if _, err := s.Add(t.Context(), "tiny", local.Source{From: dir}); err != nil {
		t.Errorf("without pipes: %v", err)
	}
}
