//go:build linux && (amd64 || arm64)

package python_test

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/gofrs/flock"
	"golang.org/x/sys/unix"

	"github.com/sandpiper-mcp/sandpiper/internal/fault"
	"github.com/sandpiper-mcp/sandpiper/internal/longtest"
	"github.com/sandpiper-mcp/sandpiper/internal/sandbox/python"
)

// otherDir names the directory in which this test binary, as another process,
// installs; it prints the stages and then "installed".
const otherDir = "PYTHON_TEST_OTHER_DIR"

func otherProcess(dir string) int {
	stage := ""
	i, err := python.Install(context.Background(), python.Config{Dir: dir, Overlay: overlay, Progress: func(s string, _, _ int) {
		if s != stage {
			stage = s
			fmt.Println(s)
		}
	}})
	if err != nil {
		fmt.Println(err)
		return 1
	}
	fmt.Println("installed", len(i.Repaired()))
	return 0
}

func other(t *testing.T, dir string) *exec.Cmd {
	cmd := exec.CommandContext(t.Context(), os.Args[0])
	cmd.Env = append(os.Environ(), otherDir+"="+dir)
	return cmd
}

func TestConcurrentProcessesInstallOnce(t *testing.T) {
	dir := t.TempDir()
	const processes = 6
	outputs := make([]string, processes)
	var wg sync.WaitGroup
	for n := range processes {
		wg.Go(func() {
			out, err := other(t, dir).CombinedOutput()
			outputs[n] = string(out)
			if err != nil {
				t.Errorf("process %d: %v", n, err)
			}
		})
	}
	wg.Wait()
	worked := 0
	for n, s := range outputs {
		switch s {
		case "extract\ncompile\ninstalled 0\n":
			worked++
		case "installed 0\n":
		default:
			t.Errorf("process %d outputs %q", n, s)
		}
	}
	if worked != 1 {
		t.Errorf("%d processes installed", worked)
	}
	if got := entries(t, dir); len(got) != 1 {
		t.Errorf("there are %v", got)
	}
}

func TestInstallStopsWaitingWhenCancelled(t *testing.T) {
	dir := t.TempDir()
	must(t, os.Chmod(dir, 0o700))
	busy := flock.New(filepath.Join(dir, "lock"))
	must(t, busy.Lock())
	defer busy.Close()
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if _, err := python.Install(ctx, python.Config{Dir: dir}); ctx.Err() == nil || err == nil {
		t.Errorf("Install returned %v", err)
	}
}

func TestInstallAfterKilledInstall(t *testing.T) {
	dir := t.TempDir()
	cmd := other(t, dir)
	out, err := cmd.StdoutPipe()
	must(t, err)
	must(t, cmd.Start())
	until := make([]byte, len("extract\ncompile\n"))
	_, err = io.ReadFull(out, until)
	must(t, err)
	must(t, cmd.Process.Kill())
	cmd.Wait()
	if got := entries(t, dir); len(got) != 1 || !strings.HasPrefix(got[0], ".staging-") {
		t.Fatalf("it was not killed half way: %v", got)
	}
	i := install(t, python.Config{Dir: dir, Overlay: overlay})
	if got := entries(t, dir); len(got) != 1 || got[0] != filepath.Base(filepath.Dir(i.Dir())) {
		t.Errorf("there are %v", got)
	}
	if i.Repaired() != nil {
		t.Errorf("repaired %v", i.Repaired())
	}
}

func TestInstallRemovesOldVersions(t *testing.T) {
	dir := t.TempDir()
	const newest, inUse, stale, foreign = "3.14.5-00000000000000aa", "3.13.1-00000000000000bb", "3.13.0-00000000000000cc", "somebody's"
	for age, name := range []string{newest, inUse, stale, foreign} {
		must(t, os.MkdirAll(filepath.Join(dir, name, "root"), 0o755))
		when := time.Now().Add(-time.Duration(age+1) * time.Hour)
		must(t, os.Chtimes(filepath.Join(dir, name), when, when))
	}
	user := flock.New(filepath.Join(dir, inUse+".lock"))
	must(t, user.RLock())
	defer user.Close()
	i := install(t, python.Config{Dir: dir})
	want := fmt.Sprint([]string{inUse, newest, filepath.Base(filepath.Dir(i.Dir())), foreign})
	if got := fmt.Sprint(entries(t, dir)); got != want {
		t.Errorf("there are %s, want %s", got, want)
	}
}

func TestInstallRejectsUnsafeDir(t *testing.T) {
	chmod := func(mode os.FileMode) func(*testing.T, string) {
		return func(t *testing.T, dir string) { must(t, os.Mkdir(dir, 0o700)); must(t, os.Chmod(dir, mode)) }
	}
	for _, c := range []struct {
		name    string
		prepare func(t *testing.T, dir string) // makes dir, whose parent exists
		kind    fault.Kind
		message string
	}{
		{"writable for all", chmod(0o777), fault.Unavailable, "mode 0777"},
		{"writable for all, sticky", chmod(0o777 | os.ModeSticky), fault.Unavailable, "mode 1777"},
		{"writable for the group", chmod(0o775), fault.Unavailable, "chmod go-w"},
		{"parent writable for all", func(t *testing.T, dir string) { must(t, os.Chmod(filepath.Dir(dir), 0o777)) }, fault.Unavailable,
			"XDG_CACHE_HOME"},
		{"a file", func(t *testing.T, dir string) { must(t, os.WriteFile(dir, nil, 0o600)) }, fault.Unavailable, "not a directory"},
		{"of another user", func(t *testing.T, dir string) {
			needRoot(t)
			chmod(0o700)(t, dir)
			must(t, os.Chown(dir, 12345, 12345))
		}, fault.Unavailable, "uid 12345"},
		{"below another user's", func(t *testing.T, dir string) { needRoot(t); must(t, os.Chown(filepath.Dir(dir), 12345, 12345)) },
			fault.Unavailable, "uid 12345"},
	} {
		t.Run(c.name, func(t *testing.T) {
			dir := filepath.Join(t.TempDir(), "cache")
			c.prepare(t, dir)
			_, err := python.Install(t.Context(), python.Config{Dir: dir})
			wantFault(t, err, c.kind, c.message, "XDG_CACHE_HOME")
		})
	}
	_, err := python.Install(t.Context(), python.Config{})
	wantFault(t, err, fault.Invalid, "must be a path")
}

// needRoot skips a test that needs root. With REQUIRE_ROOT=1, as in CI, it fails the test instead.
func needRoot(t *testing.T) {
	t.Helper()
	if os.Geteuid() == 0 {
		return
	}
	if os.Getenv("REQUIRE_ROOT") != "" {
		t.Fatal("this test needs root")
	}
	t.Skip("this test needs root")
}

const insideNamespace = "PYTHON_TEST_INSIDE"

// inNamespace runs the rest of the calling test in a private mount namespace, in a
// new process; it returns false in the old one, when that has ended.
func inNamespace(t *testing.T) bool {
	t.Helper()
	if os.Getenv(insideNamespace) != "" {
		must(t, unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""))
		return true
	}
	cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^"+t.Name()+"$")
	cmd.Env = append(os.Environ(), insideNamespace+"=1")
	cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWNS}
	if os.Geteuid() != 0 {
		cmd.SysProcAttr.Cloneflags |= syscall.CLONE_NEWUSER
		cmd.SysProcAttr.UidMappings = []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Geteuid(), Size: 1}}
		cmd.SysProcAttr.GidMappings = []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getegid(), Size: 1}}
	}
	var out strings.Builder
	cmd.Stdout, cmd.Stderr = &out, &out
	if err := cmd.Start(); err != nil {
		if os.Getenv("REQUIRE_ROOT") != "" {
			t.Fatalf("no mount namespace: %v", err)
		}
		t.Skipf("no mount namespace: %v", err)
	}
	if err := cmd.Wait(); err != nil {
		t.Errorf("%v\n%s", err, &out)
	}
	return false
}

// fileSystem mounts a small tmpfs.
func fileSystem(t *testing.T, flags uintptr, options string) string {
	t.Helper()
	dir := t.TempDir()
	must(t, unix.Mount("test", dir, "tmpfs", flags, "mode=0700,"+options))
	t.Cleanup(func() { unix.Unmount(dir, unix.MNT_DETACH) })
	return dir
}

func remount(t *testing.T, dir string, flags uintptr, options string) {
	t.Helper()
	must(t, unix.Mount("", dir, "", unix.MS_REMOUNT|flags, options))
}

func TestInstallReportsFullDisk(t *testing.T) {
	longtest.SkipSlow(t)
	if !inNamespace(t) {
		return
	}
	python.InstallWhole()
	dir := ""
	for _, limit := range []string{"size=12m", "size=45m", "size=300m,nr_inodes=500"} { // while extracting, while compiling, too many files
		dir = fileSystem(t, 0, limit)
		_, err := python.Install(t.Context(), python.Config{Dir: dir})
		wantFault(t, err, fault.Exhausted, "disk is full", dir, "60 MB", "XDG_CACHE_HOME")
		if left := entries(t, dir); len(left) > 0 {
			t.Errorf("%s: left behind: %v", limit, left)
		}
	}
	remount(t, dir, 0, "size=64m,nr_inodes=5000")
	install(t, python.Config{Dir: dir})
}

func TestInstallInReadOnlyDir(t *testing.T) {
	if !inNamespace(t) {
		return
	}
	dir := fileSystem(t, 0, "size=100m")
	first := install(t, python.Config{Dir: dir, Overlay: overlay})
	must(t, first.Close())
	locks, err := filepath.Glob(filepath.Join(dir, "*lock"))
	must(t, err)
	for _, l := range locks {
		must(t, os.Remove(l))
	}
	// Touched, so that it must be hashed and the stamp cannot be renewed.
	must(t, os.Chtimes(filepath.Join(first.Dir(), jsonPyc), time.Now(), time.Now()))
	remount(t, dir, unix.MS_RDONLY, "")
	for range 2 {
		i := install(t, python.Config{Dir: dir, Overlay: overlay})
		if i.Repaired() != nil {
			t.Errorf("repaired %v", i.Repaired())
		}
	}

	_, err = python.Install(t.Context(), python.Config{Dir: dir})
	wantFault(t, err, fault.Unavailable, dir, "may not write", "XDG_CACHE_HOME")

	remount(t, dir, 0, "")
	must(t, os.Remove(filepath.Join(first.Dir(), jsonPyc)))
	remount(t, dir, unix.MS_RDONLY, "")
	_, err = python.Install(t.Context(), python.Config{Dir: dir, Overlay: overlay})
	wantFault(t, err, fault.Unavailable, dir, "may not write", "XDG_CACHE_HOME")
}

func TestInstallReportsNoexec(t *testing.T) {
	if !inNamespace(t) {
		return
	}
	dir := fileSystem(t, unix.MS_NOEXEC, "size=100m")
	_, err := python.Install(t.Context(), python.Config{Dir: dir})
	wantFault(t, err, fault.Unavailable, "noexec", "XDG_CACHE_HOME")
	if left := entries(t, dir); len(left) > 0 {
		t.Errorf("left behind: %v", left)
	}
}

func TestInstallReportsMissingGlibc(t *testing.T) {
	if !inNamespace(t) {
		return
	}
	dir := t.TempDir()
	i := install(t, python.Config{Dir: dir})
	for _, hidden := range []string{"/usr/lib", "/lib", "/usr/lib64", "/lib64"} {
		if _, err := os.Stat(hidden); err == nil {
			must(t, unix.Mount("test", hidden, "tmpfs", 0, ""))
		}
	}
	_, err := i.SystemLibraries()
	wantFault(t, err, fault.Unavailable, "no glibc", "musl")
	_, err = python.Install(t.Context(), python.Config{Dir: t.TempDir()})
	wantFault(t, err, fault.Unavailable, "no glibc", "musl")
}
