package workspace_test

import (
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"testing"
	"time"

	"github.com/sandpiper-mcp/sandpiper/internal/fault"
	"github.com/sandpiper-mcp/sandpiper/internal/home/workspace"
)

func TestVersionChangesWithFile(t *testing.T) {
	dir := t.TempDir()
	f, other := open(t, workspace.Config{Dir: dir}), open(t, workspace.Config{})
	stat := func() workspace.Info {
		t.Helper()
		info, err := f.Stat(t.Context(), "a")
		if err != nil {
			t.Fatal(err)
		}
		return info
	}
	write(t, f, "a", "12345")
	path := filepath.Join(dir, "a")
	old := time.Now().Add(-time.Hour)
	for what, change := range map[string]func() error{
		"replaced":         func() error { return f.Write(t.Context(), "a", []byte("54321")) },
		"touched":          func() error { return os.Chtimes(path, old, old.Add(time.Minute)) },
		"written in place": func() error { return os.WriteFile(path, []byte("67890"), 0o644) },
	} {
		if err := os.Chtimes(path, old, old); err != nil {
			t.Fatal(err)
		}
		before := stat()
		if read(t, f, "a"); stat() != before || before.Size != 5 {
			t.Errorf("%s: %+v and %+v before the change", what, before, stat())
		}
		if err := change(); err != nil {
			t.Fatal(err)
		}
		if stat() == before {
			t.Errorf("%s: still %+v", what, before)
		}
	}
	if _, err := other.Stat(t.Context(), "a"); fault.KindOf(err) != fault.NotFound {
		t.Errorf("in another workspace: %v", err)
	}
}

// The test hangs if Version depends only on times that code can set.
func TestVersionDetectsResetTimes(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("only size and modification time are known on this system")
	}
	dir := t.TempDir()
	f := open(t, workspace.Config{Dir: dir})
	write(t, f, "a", "12345")
	path, old := filepath.Join(dir, "a"), time.Now().Add(-time.Hour)
	if err := os.Chtimes(path, old, old); err != nil {
		t.Fatal(err)
	}
	before, err := f.Stat(t.Context(), "a")
	for now := before; err == nil && now == before; now, err = f.Stat(t.Context(), "a") {
		err = errors.Join(os.WriteFile(path, []byte("54321"), 0o644), os.Chtimes(path, old, old))
		if err != nil {
			break
		}
	}
	if err != nil {
		t.Error(err)
	}
}

func TestStatErrorsMatchRead(t *testing.T) {
	dir := t.TempDir()
	f := open(t, workspace.Config{Dir: dir})
	write(t, f, "d/a", "")
	if err := os.Symlink("d/a", filepath.Join(dir, "link")); err != nil {
		t.Skip(err)
	}
	for _, name := range []string{"", "d", "d/", "..", "../a", "/a", "a\x00", "link", "missing", "d/a/b"} {
		_, want := f.Read(t.Context(), name, 0, 0)
		_, got := f.Stat(t.Context(), name)
		if got == nil || got.Error() != want.Error() {
			t.Errorf("%q: Stat %v, Read %v", name, got, want)
		}
	}
}
