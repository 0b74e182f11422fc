package workspace_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"

	"github.com/sandpiper-mcp/sandpiper/internal/fault"
	"github.com/sandpiper-mcp/sandpiper/internal/home/workspace"
)

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// within fails the test if f blocks: hostile code must not delay the host.
func within(t *testing.T, f func()) {
	t.Helper()
	done := make(chan struct{})
	go func() { defer close(done); f() }()
	select {
	case <-done:
	case <-time.After(30 * time.Second):
		t.Fatal("the host is blocked")
	}
}

func TestPlantedEntriesAreRefused(t *testing.T) {
	dir, outside := t.TempDir(), t.TempDir()
	secret := filepath.Join(outside, "secret")
	must(t, os.WriteFile(secret, []byte("the secret"), 0o600))
	must(t, os.Mkdir(filepath.Join(dir, "real"), 0o755))
	must(t, os.WriteFile(filepath.Join(dir, "real/file"), []byte("x"), 0o644))
	for link, to := range map[string]string{
		"out": secret, "out-dir": outside, "up": "..", "rel": "../" + filepath.Base(outside) + "/secret", "root": filepath.Dir(outside),
		"in": "real/file", "in-dir": "real", "loop": "loop", "proc": "/proc/self/root" + secret, "dangling": "nowhere",
	} {
		must(t, os.Symlink(to, filepath.Join(dir, link)))
	}
	must(t, unix.Mkfifo(filepath.Join(dir, "fifo"), 0o666))
	socket, err := unix.Socket(unix.AF_UNIX, unix.SOCK_STREAM, 0)
	must(t, err)
	defer unix.Close(socket)
	must(t, unix.Bind(socket, &unix.SockaddrUnix{Name: filepath.Join(dir, "socket")}))

	link := "%q is a symbolic link or leads through one: links are not followed, name the file itself"
	cases := map[string]string{
		"out": link, "rel": link, "in": link, "loop": link, "proc": link, "dangling": link,
		// never a file that matters: the test must be harmless where the protection is broken
		"out-dir/secret": link, "up/x": link, "root/" + filepath.Base(outside) + "/secret": link, "in-dir/file": link,
		"fifo": "%q is a FIFO, not a file", "socket": "%q is a socket, not a file",
	}
	if unix.Mknod(filepath.Join(dir, "zero"), unix.S_IFCHR|0o666, int(unix.Mkdev(1, 5))) == nil { // as root
		cases["zero"] = "%q is a device, not a file"
	}
	f := open(t, workspace.Config{Dir: dir})
	within(t, func() {
		for name, want := range cases {
			_, readErr := f.Read(t.Context(), name, 0, 0)
			for verb, err := range map[string]error{"Read": readErr, "Write": f.Write(t.Context(), name, []byte("overwritten"))} {
				if got := fault.Message(err); got != fmt.Sprintf(want, name) {
					t.Errorf("%s(%s): got %q (%v)", verb, name, got, err)
				}
			}
		}
		if _, err := f.List(t.Context(), "out-dir"); fault.KindOf(err) == fault.Internal {
			t.Errorf("listing through a link: %v", err)
		}
		if l, err := f.List(t.Context(), "."); err != nil || !cmp.Equal(l.Files, []string{"real/file"}) {
			t.Errorf("listed %q, %v", l.Files, err)
		}
	})
	for _, name := range []string{"out", "fifo", "socket"} {
		must(t, f.Delete(t.Context(), name))
	}
	must(t, f.RemoveAll(t.Context()))
	if got, err := os.ReadFile(secret); err != nil || string(got) != "the secret" {
		t.Errorf("the outside now contains %q, %v", got, err)
	}
}

// chain creates nested directories to the given depth, each with a file.
func chain(t *testing.T, dir, name string, depth int) {
	fd, err := unix.Open(dir, unix.O_PATH|unix.O_DIRECTORY, 0)
	must(t, err)
	for range depth {
		must(t, unix.Mkdirat(fd, name, 0o755))
		next, err := unix.Openat(fd, name, unix.O_PATH|unix.O_DIRECTORY, 0)
		must(t, err)
		unix.Close(fd)
		fd = next
		file, err := unix.Openat(fd, "f", unix.O_CREAT|unix.O_WRONLY, 0o644)
		must(t, err)
		_, err = unix.Write(file, []byte("1234"))
		must(t, err)
		unix.Close(file)
	}
	unix.Close(fd)
}

func openDescriptors(t *testing.T) int {
	entries, err := os.ReadDir("/proc/self/fd")
	must(t, err)
	return len(entries)
}

// TestDeepTree limits the descriptors of the process: their number must not depend on the depth.
func TestDeepTree(t *testing.T) {
	dir := t.TempDir()
	chain(t, dir, strings.Repeat("n", 200), 3000)
	chain(t, dir, "s", 3000)
	f := open(t, workspace.Config{Dir: dir})

	var old unix.Rlimit
	must(t, unix.Getrlimit(unix.RLIMIT_NOFILE, &old))
	few := old
	few.Cur = uint64(openDescriptors(t) + 8)
	must(t, unix.Setrlimit(unix.RLIMIT_NOFILE, &few))
	defer unix.Setrlimit(unix.RLIMIT_NOFILE, &old)

	u, err := f.Usage(t.Context())
	if err != nil || u.Files != 6000 || u.Incomplete || u.Bytes < 6000*4096 {
		t.Errorf("measured %+v, %v, want 6,000 files", u, err)
	}
	l, err := f.List(t.Context(), ".")
	if err != nil || !l.Truncated || len(l.Files) < 1000 {
		t.Errorf("listed %d files, truncated %v, %v: want a truncated list of at least 1000 files", len(l.Files), l.Truncated, err)
	}
	for _, name := range l.Files {
		if _, err := f.Read(t.Context(), name, 0, 0); err != nil {
			t.Fatalf("a listed file cannot be read: %v", err)
		}
	}
	if err := f.RemoveAll(t.Context()); err != nil {
		t.Error(err)
	}
	if left := namesIn(t, dir); len(left) != 0 {
		t.Errorf("left: %.80q", left)
	}
}

func TestManyFiles(t *testing.T) {
	dir := t.TempDir()
	for i := range 20_000 {
		must(t, os.WriteFile(filepath.Join(dir, strconv.Itoa(i)), nil, 0o644))
	}
	f := open(t, workspace.Config{Dir: dir})
	if l, err := f.List(t.Context(), "."); err != nil || len(l.Files) != 10_000 || !l.Truncated {
		t.Errorf("listed %d, truncated %v, %v", len(l.Files), l.Truncated, err)
	}
	if u, err := f.Usage(t.Context()); err != nil || u.Files != 20_000 {
		t.Errorf("measured %+v, %v", u, err)
	}
	must(t, f.RemoveAll(t.Context()))
	if left := namesIn(t, dir); len(left) != 0 {
		t.Errorf("%d are left", len(left))
	}
}

func TestUsageMeasuresAllocatedBlocks(t *testing.T) {
	dir := t.TempDir()
	f := open(t, workspace.Config{Dir: dir})
	file, err := os.Create(filepath.Join(dir, "reserved"))
	must(t, err)
	defer file.Close()
	if err := unix.Fallocate(int(file.Fd()), unix.FALLOC_FL_KEEP_SIZE, 0, 8<<20); err != nil {
		t.Skipf("no fallocate here: %v", err)
	}
	for i := range 5 { // more names do not add bytes
		must(t, os.Link(filepath.Join(dir, "reserved"), filepath.Join(dir, fmt.Sprint("name", i))))
	}
	sparse, err := os.Create(filepath.Join(dir, "sparse"))
	must(t, err)
	must(t, sparse.Truncate(1<<40))
	sparse.Close()
	u, err := f.Usage(t.Context())
	if err != nil || u.Files != 7 || u.Bytes < 8<<20 || u.Bytes > 9<<20 {
		t.Errorf("8 MB reserved in a file with 6 names, and a sparse file of 1 TB: %+v, %v", u, err)
	}
}

// TestClosedDirectories needs a user without CAP_DAC_OVERRIDE: as root it runs itself as another
// user.
func TestClosedDirectories(t *testing.T) {
	if os.Geteuid() == 0 {
		runAsNobody(t)
		return
	}
	dir := t.TempDir()
	f := open(t, workspace.Config{Dir: dir})
	write(t, f, "closed/inner/file", strings.Repeat("x", 1<<20))
	write(t, f, "secret", "x")
	must(t, os.Chmod(filepath.Join(dir, "secret"), 0))
	must(t, os.Chmod(filepath.Join(dir, "closed/inner"), 0))
	must(t, os.Chmod(filepath.Join(dir, "closed"), 0o400))
	_, err := f.Read(t.Context(), "secret", 0, 0)
	if fault.KindOf(err) != fault.Denied || fault.Message(err) != `the permissions of "secret" forbid it` {
		t.Errorf("read without permission: %v", err)
	}
	if l, err := f.List(t.Context(), "."); err != nil || !l.Truncated {
		t.Errorf("the list does not report a closed directory: %+v, %v", l, err)
	}
	if u, err := f.Usage(t.Context()); err != nil || u.Bytes < 1<<20 || u.Incomplete {
		t.Errorf("a closed directory is not measured: %+v, %v", u, err)
	}
	must(t, os.Chmod(filepath.Join(dir, "closed/inner"), 0))
	must(t, os.Chmod(filepath.Join(dir, "closed"), 0))
	must(t, os.Chmod(dir, 0))
	if _, err := f.PrepareMounts(t.Context(), "skills"); err != nil {
		t.Errorf("PrepareMounts of a closed workspace: %v", err)
	}
	must(t, os.Chmod(dir, 0))
	must(t, f.RemoveAll(t.Context()))
	if left := namesIn(t, dir); len(left) != 0 {
		t.Errorf("left: %q", left)
	}
}

// runAsNobody runs the calling test in a process of the user nobody.
func runAsNobody(t *testing.T) {
	exe, err := os.Executable()
	must(t, err)
	dir, err := os.MkdirTemp("", "nobody")
	must(t, err)
	defer os.RemoveAll(dir)
	must(t, os.Chown(dir, 65534, 65534))
	copied := filepath.Join(dir, "test") // the user cannot read the directory of the original
	bin, err := os.ReadFile(exe)
	must(t, err)
	must(t, os.WriteFile(copied, bin, 0o755))
	c := exec.CommandContext(t.Context(), copied, "-test.run=^"+t.Name()+"$", "-test.v")
	c.Dir, c.Env = dir, []string{"TMPDIR=" + dir}
	c.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65534, Gid: 65534}}
	if out, err := c.CombinedOutput(); err != nil || !strings.Contains(string(out), "--- PASS: "+t.Name()) {
		t.Errorf("as nobody: %v\n%s", err, out)
	}
}

// TestSwappedDirectories reads, writes, lists, measures and deletes while the
// directory in every path is exchanged for a link to the outside.
func TestSwappedDirectories(t *testing.T) {
	dir, outside := t.TempDir(), t.TempDir()
	secret := filepath.Join(outside, "file")
	must(t, os.WriteFile(secret, []byte("the secret"), 0o600))
	must(t, os.Mkdir(filepath.Join(dir, "d"), 0o755))
	must(t, os.Symlink(outside, filepath.Join(dir, "swap")))
	f := open(t, workspace.Config{Dir: dir})

	ctx, stop := context.WithCancel(t.Context())
	swapped := make(chan int)
	go func() {
		n := 0
		for ; ctx.Err() == nil; n++ {
			unix.Renameat2(unix.AT_FDCWD, filepath.Join(dir, "d"), unix.AT_FDCWD, filepath.Join(dir, "swap"), unix.RENAME_EXCHANGE)
		}
		swapped <- n
	}()
	var reached, refused int
	for i := 0; i < 3000 || (reached == 0 || refused == 0) && i < 50_000; i++ { // on a busy machine the race is rare
		content := fmt.Sprintf("written %d", i)
		if err := f.Write(t.Context(), "d/file", []byte(content)); err == nil {
			reached++
		} else if k := fault.KindOf(err); k == fault.Denied || k == fault.Unavailable || k == fault.Invalid {
			refused++
		} else {
			t.Fatalf("writing: %v", err)
		}
		if p, err := f.Read(t.Context(), "d/file", 0, 0); err == nil && strings.Contains(string(p.Content), "secret") {
			t.Fatal("the secret was read")
		}
		if l, err := f.List(t.Context(), "."); err != nil || len(l.Files) > 3 {
			t.Fatalf("listed %q, %v", l.Files, err)
		}
		if i%10 == 0 {
			_, err := f.Usage(t.Context())
			must(t, err)
			f.Delete(t.Context(), "d/file")
		}
	}
	stop()
	n := <-swapped
	if n < 100 || reached == 0 || refused == 0 {
		t.Errorf("%d swaps, %d writes reached, %d refused: there was no race", n, reached, refused)
	}
	must(t, f.RemoveAll(t.Context()))
	if got, err := os.ReadFile(secret); err != nil || string(got) != "the secret" || len(namesIn(t, outside)) != 1 {
		t.Errorf("the outside now contains %q %q, %v", namesIn(t, outside), got, err)
	}
}

// TestUsageOfMovingTree moves directories during a walk, so that ".." is another directory and the
// old path is gone.
func TestUsageOfMovingTree(t *testing.T) {
	dir := t.TempDir()
	for _, top := range []string{"a", "b"} {
		must(t, os.Mkdir(filepath.Join(dir, top), 0o755))
	}
	chain(t, filepath.Join(dir, "a"), "n", 200)
	f := open(t, workspace.Config{Dir: dir})
	ctx, stop := context.WithCancel(t.Context())
	moved := make(chan struct{})
	go func() {
		defer close(moved)
		high, low := filepath.Join(dir, "a", strings.Repeat("n/", 40)), filepath.Join(dir, "a", strings.Repeat("n/", 80))
		highAway, lowAway := filepath.Join(dir, "b/high"), filepath.Join(dir, "b/low")
		for ctx.Err() == nil {
			if err := errors.Join(os.Rename(low, lowAway), os.Rename(high, highAway),
				os.Rename(highAway, high), os.Rename(lowAway, low)); err != nil {
				t.Error(err)
				return
			}
		}
	}()
	within(t, func() {
		missed := 0
		for i := 0; i < 300 || missed == 0 && i < 10_000; i++ { // on a busy machine the race is rare
			u, err := f.Usage(t.Context())
			must(t, err)
			if u.Files > 3*200 { // at most once in each of the three places
				t.Fatalf("a tree of 200 files measures %+v", u)
			}
			if u.Incomplete {
				missed++
			}
		}
		if missed == 0 {
			t.Error("no move happened during a walk, or it was not reported")
		}
	})
	stop()
	<-moved
	if u, err := f.Usage(t.Context()); err != nil || u.Files != 200 || u.Incomplete {
		t.Errorf("at rest: %+v, %v", u, err)
	}
}

func TestRemoveAllDuringWrites(t *testing.T) {
	dir := t.TempDir()
	f := open(t, workspace.Config{Dir: dir})
	ctx, stop := context.WithCancel(t.Context())
	wrote := make(chan struct{})
	go func() {
		defer close(wrote)
		for i := 0; ctx.Err() == nil; i++ {
			os.MkdirAll(filepath.Join(dir, "d/e"), 0o755)
			os.WriteFile(filepath.Join(dir, "d/e", strconv.Itoa(i)), nil, 0o644)
		}
	}()
	within(t, func() {
		for range 20 {
			if err := f.RemoveAll(t.Context()); err != nil && fault.KindOf(err) != fault.Unavailable {
				t.Errorf("got %v", err)
			}
		}
	})
	stop()
	<-wrote
	must(t, f.RemoveAll(t.Context()))
	if left := namesIn(t, dir); len(left) != 0 {
		t.Errorf("left: %q", left)
	}
}

func TestPrepareMountsFollowsNoLink(t *testing.T) {
	dir, outside := t.TempDir(), t.TempDir()
	must(t, os.Symlink(outside, filepath.Join(dir, "skills")))
	must(t, unix.Mkfifo(filepath.Join(dir, "servers"), 0o666))
	must(t, os.Symlink(outside, filepath.Join(dir, "skills.moved-1")))
	f := open(t, workspace.Config{Dir: dir})
	moved, err := f.PrepareMounts(t.Context(), "skills", "servers")
	want := []workspace.Moved{{From: "skills", To: "skills.moved-2"}, {From: "servers", To: "servers.moved-1"}}
	if err != nil || !cmp.Equal(moved, want) {
		t.Errorf("moved %v, %v, want %v", moved, err, want)
	}
	for _, name := range []string{"skills", "servers"} {
		if fi, err := os.Lstat(filepath.Join(dir, name)); err != nil || !fi.IsDir() {
			t.Errorf("%s is %v, %v", name, fi.Mode(), err)
		}
	}
	if got := namesIn(t, outside); len(got) != 0 {
		t.Errorf("outside there is %q", got)
	}
}

// A plain open waits until the lease is broken.
func TestReadOfLeasedFileDoesNotBlock(t *testing.T) {
	dir := t.TempDir()
	f := open(t, workspace.Config{Dir: dir})
	write(t, f, "leased", "x")
	file, err := os.OpenFile(filepath.Join(dir, "leased"), os.O_RDWR, 0)
	must(t, err)
	defer file.Close()
	if _, err := unix.FcntlInt(file.Fd(), unix.F_SETLEASE, unix.F_WRLCK); err != nil {
		t.Skipf("no lease here: %v", err)
	}
	within(t, func() {
		if _, err := f.Read(t.Context(), "leased", 0, 0); fault.KindOf(err) != fault.Unavailable {
			t.Errorf("got %v", err)
		}
	})
}

func TestOwnerOfNewFiles(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root can change owners")
	}
	dir := t.TempDir()
	f := open(t, workspace.Config{Dir: dir, Owner: 12345})
	write(t, f, "a/b/file", "x")
	_, err := f.PrepareMounts(t.Context(), "skills")
	must(t, err)
	for _, name := range []string{"a", "a/b", "a/b/file", "skills"} {
		if got := owner(t, filepath.Join(dir, name)); got != 12345 {
			t.Errorf("%s belongs to %d", name, got)
		}
	}
	outside := filepath.Join(t.TempDir(), "mine")
	must(t, os.WriteFile(outside, nil, 0o600))
	must(t, os.Symlink(outside, filepath.Join(dir, "link")))
	must(t, f.Chown(t.Context(), 23456))
	for _, name := range []string{".", "a", "a/b/file", "link"} {
		if got := owner(t, filepath.Join(dir, name)); got != 23456 {
			t.Errorf("%s belongs to %d", name, got)
		}
	}
	if got := owner(t, outside); got != 0 {
		t.Errorf("the owner of a link's target was changed to %d", got)
	}
}

func owner(t *testing.T, path string) uint32 {
	var st unix.Stat_t
	must(t, unix.Lstat(path, &st))
	return st.Uid
}

func TestWalkStopsWithContext(t *testing.T) {
	f := open(t, workspace.Config{})
	write(t, f, "a/b", "x")
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, listErr := f.List(ctx, ".")
	_, useErr := f.Usage(ctx)
	for _, err := range []error{listErr, useErr, f.RemoveAll(ctx)} {
		if !errors.Is(err, context.Canceled) {
			t.Errorf("got %v", err)
		}
	}
}
