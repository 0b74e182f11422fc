package workspace_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/sandpiper-mcp/sandpiper/internal/fault"
	"github.com/sandpiper-mcp/sandpiper/internal/home/workspace"
)

func TestTruncateShortensOnly(t *testing.T) {
	dir := t.TempDir()
	f := open(t, workspace.Config{Dir: dir, Mounts: map[string]string{"skills": t.TempDir()}})
	for name, content := range map[string]string{"a.txt": "hello", "outside": ""} {
		if err := f.Write(t.Context(), name, []byte(content)); err != nil {
			t.Fatal(err)
		}
	}
	host := filepath.Join(t.TempDir(), "host")
	if err := os.WriteFile(host, []byte("secret"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(host, filepath.Join(dir, "link")); err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(filepath.Join(dir, "folder"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := workspace.Truncate(t.Context(), f, "a.txt", 2); err != nil {
		t.Fatal(err)
	}
	if got, err := os.ReadFile(filepath.Join(dir, "a.txt")); err != nil || string(got) != "he" {
		t.Errorf("a.txt has %q, %v", got, err)
	}
	for _, c := range []struct {
		name string
		size int64
	}{{"a.txt", 3}, {"a.txt", -1}, {"link", 0}, {"folder", 0}, {"skills/s.py", 0}, {"../x", 0}, {"none", 0}} {
		if err := workspace.Truncate(t.Context(), f, c.name, c.size); fault.KindOf(err) == fault.Internal || err == nil {
			t.Errorf("%s to %d: %v", c.name, c.size, err)
		}
	}
	if got, _ := os.ReadFile(host); string(got) != "secret" {
		t.Errorf("the target of a link has %q", got)
	}
}

func TestListOmitsTheUnlistedDirectoryUnlessNamed(t *testing.T) {
	f := open(t, workspace.Config{Unlisted: ".results"})
	for _, name := range []string{".results/exec_1.json", "a/.results/b", ".resultsx/c"} {
		if err := f.Write(t.Context(), name, nil); err != nil {
			t.Fatal(err)
		}
	}
	for path, want := range map[string][]string{
		".":        {".resultsx/c", "a/.results/b"},
		"a":        {"a/.results/b"},
		".results": {".results/exec_1.json"},
	} {
		l, err := f.List(t.Context(), path)
		if diff := cmp.Diff(want, l.Files); diff != "" || err != nil {
			t.Errorf("%s: %v\n%s", path, err, diff)
		}
	}
}
