package workspace_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/sandpiper-mcp/sandpiper/internal/home/workspace"
)

// hasUnnamed reports whether the file system of dir supports O_TMPFILE.
func hasUnnamed(dir string) bool {
	fd, err := unix.Open(dir, unix.O_TMPFILE|unix.O_WRONLY, 0o600)
	if err == nil {
		unix.Close(fd)
	}
	return err == nil
}

// A daemon may be killed between any two system calls. Files that this would leave in the workspace
// are visible during a write.
func TestReplacementIsInvisibleBeforeRename(t *testing.T) {
	dir, scratch := t.TempDir(), t.TempDir()
	if !hasUnnamed(dir) {
		t.Skip("this file system does not support O_TMPFILE")
	}
	f := open(t, workspace.Config{Dir: dir, Staging: scratch})
	write(t, f, "kept", "first")
	done := make(chan struct{})
	go func() {
		defer close(done)
		for i := range 300 {
			if err := f.Write(t.Context(), "kept", fmt.Append(nil, i)); err != nil {
				t.Error(err)
				return
			}
		}
	}()
	strange := ""
	for writing := true; writing; {
		select {
		case <-done:
			writing = false
		default:
		}
		names, err := os.ReadDir(dir)
		if err != nil {
			t.Error(err)
		}
		for _, n := range names {
			if n.Name() != "kept" {
				strange = n.Name()
			}
		}
	}
	if strange != "" {
		t.Errorf("%s was there", strange)
	}
	if got := read(t, f, "kept"); got != "299" {
		t.Errorf("got %q", got)
	}
	if left, _ := os.ReadDir(scratch); len(left) > 0 {
		t.Errorf("%d files are left in the staging directory", len(left))
	}
}

func TestStagingOnAnotherFileSystem(t *testing.T) {
	here, there := t.TempDir(), "/dev/shm"
	var a, b unix.Stat_t
	if unix.Stat(here, &a) != nil || unix.Stat(there, &b) != nil || a.Dev == b.Dev {
		t.Skip("there is no second file system")
	}
	scratch, err := os.MkdirTemp(there, "sandpiper-test-")
	if err != nil {
		t.Skip(err)
	}
	t.Cleanup(func() { os.RemoveAll(scratch) })
	f := open(t, workspace.Config{Dir: here, Staging: scratch})
	for _, content := range []string{"first", "second"} {
		write(t, f, "kept", content)
		if got := read(t, f, "kept"); got != content {
			t.Errorf("got %q, want %q", got, content)
		}
	}
	names, _ := filepath.Glob(filepath.Join(here, ".*"))
	if left, _ := os.ReadDir(scratch); len(left) > 0 || strings.Contains(strings.Join(names, " "), ".writing-") {
		t.Errorf("left behind: %q and %q", left, names)
	}
}
