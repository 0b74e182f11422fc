package workspace_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/sandpiper-mcp/sandpiper/internal/fault"
	"github.com/sandpiper-mcp/sandpiper/internal/home/workspace"
)

func wantFault(t *testing.T, err error, kind fault.Kind, says ...string) {
	t.Helper()
	if err == nil || fault.KindOf(err) != kind {
		t.Errorf("got %v, want a fault of kind %v", err, kind)
		return
	}
	for _, s := range says {
		if !strings.Contains(fault.Message(err), s) {
			t.Errorf("%q does not contain %q", fault.Message(err), s)
		}
	}
}

func TestWriteBeyondQuotaReportsLargestFiles(t *testing.T) {
	f := open(t, workspace.Config{Quota: workspace.Quota{Bytes: 1 << 20}})
	write(t, f, "data/a", strings.Repeat("x", 700<<10))
	write(t, f, "little", strings.Repeat("x", 10<<10))
	wantFault(t, f.Write(t.Context(), "b", make([]byte, 400<<10)), fault.Exhausted,
		"quota", "of 1.0 MB", "400.0 KB more do not fit", `largest: "data/a" (700.0 KB), "little" (12.0 KB)`)
	write(t, f, "data/a", strings.Repeat("y", 900<<10)) // the replaced content no longer counts
	write(t, f, "b", "small")
}

func TestWriteBeyondFileQuota(t *testing.T) {
	f := open(t, workspace.Config{Quota: workspace.Quota{Files: 5}})
	for _, name := range []string{"1", "2", "3"} {
		write(t, f, name, "")
	}
	wantFault(t, f.Write(t.Context(), "a/b/c", nil), fault.Exhausted, "3 of 5 files and directories")
	if _, err := f.List(t.Context(), "a"); fault.KindOf(err) != fault.NotFound {
		t.Errorf("a refused write left its directories: %v", err)
	}
	write(t, f, "a/b", "")
	write(t, f, "a/b", "again")
	wantFault(t, f.Write(t.Context(), "4", nil), fault.Exhausted)
}

func TestConcurrentWritesShareQuota(t *testing.T) {
	f := open(t, workspace.Config{Quota: workspace.Quota{Bytes: 1 << 20}})
	var wait sync.WaitGroup
	for i := range 32 {
		wait.Go(func() { _ = f.Write(t.Context(), fmt.Sprint(i), make([]byte, 300<<10)) })
	}
	wait.Wait()
	if u, err := f.Usage(t.Context()); err != nil || u.Bytes > 1<<20 || u.Files == 0 {
		t.Errorf("%+v, %v", u, err)
	}
}

func TestDeleteFreesQuota(t *testing.T) {
	f := open(t, workspace.Config{Quota: workspace.Quota{Bytes: 1 << 20}})
	write(t, f, "a", strings.Repeat("x", 900<<10))
	wantFault(t, f.Write(t.Context(), "b", make([]byte, 500<<10)), fault.Exhausted)
	if err := f.Delete(t.Context(), "a"); err != nil {
		t.Fatal(err)
	}
	write(t, f, "b", strings.Repeat("x", 500<<10))
}

func TestQuotaExceededUntilDelete(t *testing.T) {
	dir := t.TempDir()
	f := open(t, workspace.Config{Dir: dir, Quota: workspace.Quota{Bytes: 1 << 20}})
	if err := f.CheckQuota(t.Context()); err != nil {
		t.Error(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "by code"), make([]byte, 2<<20), 0o600); err != nil {
		t.Fatal(err)
	}
	wantFault(t, f.QuotaExceeded(t.Context()), fault.Exhausted, `"by code" (2.0 MB)`)
	wantFault(t, f.CheckQuota(t.Context()), fault.Exhausted, "2.0 MB of 1.0 MB")
	if err := os.Remove(filepath.Join(dir, "by code")); err != nil {
		t.Fatal(err)
	}
	if err := f.CheckQuota(t.Context()); err != nil {
		t.Error(err)
	}
}

func TestWriteRespectsReserve(t *testing.T) {
	f := open(t, workspace.Config{Quota: workspace.Quota{Reserve: 1 << 60}})
	for _, err := range []error{f.Write(t.Context(), "a", []byte("x")), f.CheckQuota(t.Context())} {
		wantFault(t, err, fault.Unavailable, "nearly full")
		if strings.Contains(fault.Message(err), "quota") {
			t.Errorf("%q mentions the quota", fault.Message(err))
		}
	}
}

func TestPruneRemovesOldFilesFirst(t *testing.T) {
	dir := t.TempDir()
	f := open(t, workspace.Config{Dir: dir})
	for i := range 5 {
		write(t, f, fmt.Sprintf("r/%d", i), strings.Repeat("x", 100<<10))
		waitForTick(t, filepath.Join(dir, "r", fmt.Sprint(i)))
	}
	write(t, f, "r/deep/kept", "x")
	if err := os.Symlink("0", filepath.Join(dir, "r", "link")); err != nil {
		t.Fatal(err)
	}
	if err := f.Prune(t.Context(), "r", time.Hour, 210<<10); err != nil {
		t.Fatal(err)
	}
	l, err := f.List(t.Context(), "r")
	if want := []string{"r/3", "r/4", "r/deep/kept"}; err != nil || !cmp.Equal(l.Files, want) {
		t.Errorf("%v, %v", l.Files, err)
	}
	if err := f.Prune(t.Context(), "r", time.Nanosecond, 0); err != nil {
		t.Fatal(err)
	}
	if l, err = f.List(t.Context(), "r"); err != nil || !cmp.Equal(l.Files, []string{"r/deep/kept"}) {
		t.Errorf("%v, %v", l.Files, err)
	}
}

func TestPruneFollowsNoLink(t *testing.T) {
	dir, other := t.TempDir(), t.TempDir()
	if err := os.WriteFile(filepath.Join(other, "kept"), []byte("x"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(other, filepath.Join(dir, "r")); err != nil {
		t.Fatal(err)
	}
	f := open(t, workspace.Config{Dir: dir})
	for _, name := range []string{"r", "missing"} {
		if err := f.Prune(t.Context(), name, time.Nanosecond, 1); err != nil {
			t.Error(err)
		}
	}
	if _, err := os.Stat(filepath.Join(other, "kept")); err != nil {
		t.Error(err)
	}
}

// waitForTick waits until a new file gets a later time than this one.
func waitForTick(t *testing.T, path string) {
	t.Helper()
	before, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	probe := path + ".probe"
	for end := time.Now().Add(10 * time.Second); ; {
		if err := os.WriteFile(probe, nil, 0o600); err != nil {
			t.Fatal(err)
		}
		now, err := os.Stat(probe)
		if err == nil {
			err = os.Remove(probe)
		}
		if err != nil || time.Now().After(end) {
			t.Fatalf("file times do not advance: %v", err)
		}
		if now.ModTime().After(before.ModTime()) {
			return
		}
	}
}
