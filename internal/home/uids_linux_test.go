package home_test

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/sandpiper-mcp/sandpiper/internal/fault"
	"github.com/sandpiper-mcp/sandpiper/internal/home"
	"github.com/sandpiper-mcp/sandpiper/internal/longtest"
)

func ownerOf(t *testing.T, path string) int {
	t.Helper()
	fi, err := os.Lstat(path)
	if err != nil {
		t.Fatal(err)
	}
	return int(fi.Sys().(*syscall.Stat_t).Uid)
}

func asRoot(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root has uids to give")
	}
}

func TestRootAssignsTenantUIDs(t *testing.T) {
	asRoot(t)
	root := newRoot(t)
	ts := open(t, home.Config{Root: root})
	a, b := acquire(t, ts, "a"), acquire(t, ts, "b")
	if a.UID() != 200_000 || b.UID() != 200_001 {
		t.Errorf("uids %d and %d", a.UID(), b.UID())
	}
	write(t, b, "d/file", "x")
	for _, path := range []string{"", "d", "d/file", "skills"} {
		if got := ownerOf(t, filepath.Join(root, "workspaces/b", path)); got != b.UID() {
			t.Errorf("workspaces/b/%s belongs to %d", path, got)
		}
	}
	for _, path := range []string{".", "workspaces", "private/b/tenant.db", "projections/skills/b", "projections/skills/b/__init__.py"} {
		if got := ownerOf(t, filepath.Join(root, path)); got != 0 {
			t.Errorf("%s belongs to %d", path, got)
		}
	}
	if again := acquire(t, open(t, home.Config{Root: root}), "b"); again.UID() != b.UID() {
		t.Errorf("another daemon assigned uid %d to b", again.UID())
	}
}

func TestWorkspaceOwnerChangesToTenantUID(t *testing.T) {
	asRoot(t)
	root := newRoot(t)
	ts := open(t, home.Config{Root: root})
	ws := filepath.Join(root, "workspaces/a")
	outside := filepath.Join(t.TempDir(), "roots")
	err := errors.Join(os.MkdirAll(filepath.Join(ws, "d"), 0o755), os.WriteFile(filepath.Join(ws, "d/file"), []byte("restored"), 0o600),
		os.WriteFile(outside, nil, 0o600), os.Symlink(outside, filepath.Join(ws, "link")))
	if err != nil {
		t.Fatal(err)
	}
	h := acquire(t, ts, "a")
	for _, path := range []string{"", "d", "d/file", "link"} {
		if got := ownerOf(t, filepath.Join(ws, path)); got != h.UID() || got == 0 {
			t.Errorf("workspaces/a/%s belongs to %d, the tenant is %d", path, got, h.UID())
		}
	}
	if ownerOf(t, outside) != 0 {
		t.Error("the owner of a file outside was changed")
	}
}

func TestUIDsExhausted(t *testing.T) {
	asRoot(t)
	ts := open(t, home.Config{Root: newRoot(t), FirstUID: 300_000, UIDs: 2})
	acquire(t, ts, "a")
	acquire(t, ts, "b")
	_, err := ts.Acquire(t.Context(), id(t, "c"))
	if fault.Message(err) != "all 2 host uids are assigned to tenants" || fault.KindOf(err) != fault.Exhausted {
		t.Errorf("got %v", err)
	}
}

func TestOpenRejectsDirectoryOfAnotherUser(t *testing.T) {
	asRoot(t)
	root := newRoot(t)
	open(t, home.Config{Root: root}).Close()
	if err := os.Chown(root, 65534, 65534); err != nil {
		t.Fatal(err)
	}
	_, err := home.Open(t.Context(), home.Config{Root: root})
	if fault.Message(err) != "the data directory "+root+" belongs to another user" || fault.KindOf(err) != fault.Denied {
		t.Errorf("got %v", err)
	}
}

// TestPackageAsUnprivilegedUser runs the other tests of this package as an unprivileged user; those
// that take seconds and do not depend on the user only as a long test.
func TestPackageAsUnprivilegedUser(t *testing.T) {
	longtest.SkipSlow(t)
	asRoot(t)
	dir, err := os.MkdirTemp("", "ordinary")
	if err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(dir)
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	bin, err := os.ReadFile(exe)
	if err != nil {
		t.Fatal(err)
	}
	copied := filepath.Join(dir, "test") // other users cannot read the directory of the original
	err = errors.Join(os.WriteFile(copied, bin, 0o755),
		exec.Command("chown", "-R", "65534:65534", dir).Run())
	if err != nil {
		t.Fatal(err)
	}
	args := []string{"-test.v"}
	if !longtest.Enabled() {
		args = append(args, "-test.skip", "^(TestImportRefusesChangedDatabase|TestBackupDuringWritesIsConsistent|TestKillLosesNoAcknowledgedWrite)$")
	}
	c := exec.CommandContext(t.Context(), copied, args...)
	c.Dir, c.Env = dir, []string{"TMPDIR=" + dir}
	c.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65534, Gid: 65534}}
	out, err := c.CombinedOutput()
	if err != nil || strings.Count(string(out), "--- PASS") < 15 {
		t.Errorf("%v\n%s", err, out)
	}
	t.Log(strings.Join(skips(string(out)), "\n"))
}

func skips(out string) (all []string) {
	for line := range strings.Lines(out) {
		if strings.Contains(line, "--- SKIP") {
			all = append(all, strings.TrimSpace(line))
		}
	}
	return all
}
