package home_test

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/sandpiper-mcp/sandpiper/internal/fault"
	"github.com/sandpiper-mcp/sandpiper/internal/home"
	"github.com/sandpiper-mcp/sandpiper/internal/home/skill"
	"github.com/sandpiper-mcp/sandpiper/internal/longtest"
	"github.com/sandpiper-mcp/sandpiper/internal/store/tenant"
)

// These tests run this binary as other processes, with the role of each in its environment.
const part = "SANDPIPER_TEST_PART"

var parts = map[string]func(ctx context.Context, root string) error{
	"save forever": saveForever,
	"save some":    saveSome,
	"full disk":    onAFullDisk,
	"read-only":    onAReadOnlyDisk,
}

func TestMain(m *testing.M) {
	play, ok := parts[os.Getenv(part)]
	if !ok {
		os.Exit(m.Run())
	}
	if err := play(context.Background(), os.Getenv("SANDPIPER_TEST_ROOT")); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func process(t *testing.T, name, root string) *exec.Cmd {
	t.Helper()
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	c := exec.CommandContext(t.Context(), exe)
	c.Env = append(os.Environ(), part+"="+name, "SANDPIPER_TEST_ROOT="+root)
	c.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: unix.SIGKILL}
	return c
}

// saveForever saves skills and files, and prints each one that was acknowledged.
func saveForever(ctx context.Context, root string) error {
	ts, err := home.Open(ctx, withUIDs(home.Config{Root: root}))
	if err != nil {
		return err
	}
	h, err := ts.Acquire(ctx, tenant.Local)
	if err != nil {
		return err
	}
	first, err := strconv.Atoi(os.Getenv("SANDPIPER_TEST_FIRST"))
	if err != nil {
		return err
	}
	for i := first; ; i++ {
		name := fmt.Sprintf("n%d", i)
		if _, err := h.Skills.Save(ctx, skill.Draft{Name: name, Code: body(name)}); err != nil {
			return err
		}
		fmt.Println("skill", name)
		if err := h.Workspace.Write(ctx, "d/"+name, []byte(body(name))); err != nil {
			return err
		}
		fmt.Println("file", name)
		if err := h.Workspace.Write(ctx, "latest", []byte(body(name))); err != nil {
			return err
		}
	}
}

func body(name string) string { return "# " + strings.Repeat(name+" ", 2000) }

func TestKillLosesNoAcknowledgedWrite(t *testing.T) {
	root := newRoot(t)
	next := 0
	acknowledged := map[string][]string{}
	for round := range 6 {
		c := process(t, "save forever", root)
		c.Env = append(c.Env, fmt.Sprint("SANDPIPER_TEST_FIRST=", next))
		c.Stderr = os.Stderr
		out, err := c.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := c.Start(); err != nil {
			t.Fatal(err)
		}
		lines := bufio.NewScanner(out)
		for n := 0; lines.Scan(); n++ {
			kind, name, _ := strings.Cut(lines.Text(), " ")
			acknowledged[kind] = append(acknowledged[kind], name)
			if n == 10+3*round {
				c.Process.Kill() // its output before the kill is still read
			}
		}
		c.Wait()
		next += 1000

		ts := open(t, home.Config{Root: root})
		h := acquire(t, ts, "local")
		for _, name := range acknowledged["skill"] {
			if sk, err := h.Skills.Find(t.Context(), name, 0); err != nil || sk.Code != body(name) {
				t.Errorf("round %d: skill %s is lost: %v", round, name, err)
			}
			if got := read(h, "skills/"+name+".py"); got != body(name) {
				t.Errorf("round %d: skill %s cannot be imported: %.60q", round, name, got)
			}
		}
		for _, name := range acknowledged["file"] {
			if got := read(h, "d/"+name); got != body(name) {
				t.Errorf("round %d: file %s is missing or incomplete: %.60q", round, name, got)
			}
		}
		if got := read(h, "latest"); !strings.HasPrefix(got, "# n") || got != body(strings.Fields(got)[1]) {
			t.Errorf("round %d: a file is incomplete: %.60q", round, got)
		}
		h.Release(t.Context())
		ts.Close()
	}
	if len(acknowledged["skill"]) < 30 || len(acknowledged["file"]) < 30 {
		t.Errorf("only %d skills and %d files were acknowledged", len(acknowledged["skill"]), len(acknowledged["file"]))
	}
}

// saveSome saves in the homes of several tenants and exits.
func saveSome(ctx context.Context, root string) error {
	ts, err := home.Open(ctx, withUIDs(home.Config{Root: root, Idle: 1}))
	if err != nil {
		return err
	}
	for i := range 20 {
		id, err := tenant.Parse(fmt.Sprint("t", i%5))
		if err != nil {
			return err
		}
		h, err := ts.Acquire(ctx, id)
		if err != nil {
			return err
		}
		who := fmt.Sprintf("%d_%d", os.Getpid(), i)
		if _, err := h.Skills.Save(ctx, skill.Draft{Name: "by_" + who, Code: "x = 1"}); err != nil {
			return err
		}
		if _, err := h.Skills.Save(ctx, skill.Draft{Name: "shared", Code: "by = '" + who + "'"}); err != nil {
			return err
		}
		if err := errors.Join(h.Workspace.Write(ctx, "d/"+who, nil), h.Release(ctx)); err != nil {
			return err
		}
	}
	return ts.Close()
}

func TestProcessesCreateDataDirectoryConcurrently(t *testing.T) {
	longtest.SkipSlow(t)
	for range 3 {
		root := newRoot(t)
		var all []*exec.Cmd
		for range 4 {
			c := process(t, "save some", root)
			c.Stderr = os.Stderr
			if err := c.Start(); err != nil {
				t.Fatal(err)
			}
			all = append(all, c)
		}
		for _, c := range all {
			if err := c.Wait(); err != nil {
				t.Errorf("a process failed: %v", err)
			}
		}
		ts := open(t, home.Config{Root: root})
		uids := map[int]bool{}
		for i := range 5 {
			h := acquire(t, ts, fmt.Sprint("t", i))
			skills, err := h.Skills.List(t.Context())
			files, err2 := h.Workspace.List(t.Context(), ".")
			view, err3 := h.Workspace.List(t.Context(), "skills")
			if err := errors.Join(err, err2, err3); err != nil || len(skills) != 17 || len(files.Files) != 16 || len(view.Files) != 18 {
				t.Errorf("t%d has %d skills, %d files and %d modules, %v", i, len(skills), len(files.Files), len(view.Files), err)
			}
			if sk, err := h.Skills.Find(t.Context(), "shared", 0); err != nil || read(h, "skills/shared.py") != sk.Code {
				t.Errorf("imported code is %q, saved %q, %v", read(h, "skills/shared.py"), sk.Code, err)
			}
			uids[h.UID()] = true
		}
		if os.Geteuid() == 0 && len(uids) != 5 {
			t.Errorf("five tenants have the uids %v", uids)
		}
	}
}

// onDisk runs a role in a mount namespace with its own small disk at root, which is removed with
// the process.
func onDisk(t *testing.T, name string) {
	t.Helper()
	root := t.TempDir()
	c := process(t, name, root)
	c.SysProcAttr.Cloneflags = unix.CLONE_NEWNS | unix.CLONE_NEWUSER
	c.SysProcAttr.UidMappings = []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Geteuid(), Size: 1}}
	c.SysProcAttr.GidMappings = []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getegid(), Size: 1}}
	var stderr bytes.Buffer
	c.Stdout, c.Stderr = os.Stderr, &stderr
	err := c.Run()
	if errors.Is(err, unix.EPERM) || strings.Contains(stderr.String(), errNoMount.Error()) {
		t.Skipf("no disk of one's own can be had here: %v %s", err, &stderr)
	}
	if err != nil {
		t.Errorf("%v: %s", err, &stderr)
	}
}

var errNoMount = errors.New("mounting is not allowed here")

func mountDisk(root, options string) error {
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
		return errors.Join(errNoMount, err)
	}
	if err := unix.Mount("disk", root, "tmpfs", 0, options); err != nil {
		return errors.Join(errNoMount, err)
	}
	return nil
}

func TestFullDisk(t *testing.T)     { onDisk(t, "full disk") }
func TestReadOnlyDisk(t *testing.T) { onDisk(t, "read-only") }

func onAFullDisk(ctx context.Context, disk string) error {
	if err := mountDisk(disk, "size=4m"); err != nil {
		return err
	}
	ts, err := home.Open(ctx, home.Config{Root: filepath.Join(disk, "data")})
	if err != nil {
		return err
	}
	h, err := ts.Acquire(ctx, tenant.Local)
	if err != nil {
		return err
	}
	if err := h.Workspace.Write(ctx, "kept", []byte("whole")); err != nil {
		return err
	}
	if _, err := h.Skills.Save(ctx, skill.Draft{Name: "kept", Code: "x = 1"}); err != nil {
		return err
	}
	filler, err := os.Create(filepath.Join(disk, "filler"))
	if err != nil {
		return err
	}
	if _, err := io.CopyN(filler, zeros{}, 1<<30); !errors.Is(err, unix.ENOSPC) {
		return fmt.Errorf("fill the disk: %w", err)
	}
	if err := onFull(ctx, ts, h); err != nil {
		return err
	}
	if err := errors.Join(filler.Close(), os.Remove(filler.Name())); err != nil {
		return err
	}
	if _, err := h.Skills.Save(ctx, skill.Draft{Name: "big", Code: "# " + strings.Repeat("x", 500_000)}); err != nil {
		return fmt.Errorf("after freeing space: %w", err)
	}
	return errors.Join(h.Release(ctx), ts.Close())
}

// onFull expects clear errors and undamaged data.
func onFull(ctx context.Context, ts *home.Homes, h *home.Home) error {
	err := h.Workspace.Write(ctx, "kept", bytes.Repeat([]byte("y"), 1<<20))
	if want := `the disk of the machine that runs Sandpiper is full: "kept" was not written`; fault.Message(err) != want ||
		fault.KindOf(err) != fault.Unavailable {
		return fmt.Errorf("write a file: %w", err)
	}
	_, err = h.Skills.Save(ctx, skill.Draft{Name: "big", Code: "# " + strings.Repeat("x", 500_000)})
	if want := "the disk of the database is full"; fault.Message(err) != want || fault.KindOf(err) != fault.Exhausted {
		return fmt.Errorf("save a skill: %w", err)
	}
	other, err := tenant.Parse("other")
	if err != nil {
		return err
	}
	if _, err := ts.Acquire(ctx, other); fault.KindOf(err) != fault.Exhausted {
		return fmt.Errorf("acquire a new tenant: %w", err)
	}
	again, err := ts.Acquire(ctx, tenant.Local)
	if err != nil {
		return fmt.Errorf("acquire an open home: %w", err)
	}
	if got := read(again, "kept"); got != "whole" {
		return fmt.Errorf("the file that was not replaced contains %.60q", got)
	}
	if sk, err := again.Skills.Find(ctx, "kept", 0); err != nil || sk.Code != "x = 1" {
		return fmt.Errorf("the skill is %+v, %w", sk, err)
	}
	if _, err := again.Skills.Find(ctx, "big", 0); fault.KindOf(err) != fault.NotFound {
		return fmt.Errorf("the refused skill: %w", err)
	}
	return again.Release(ctx)
}

func onAReadOnlyDisk(ctx context.Context, disk string) error {
	if err := mountDisk(disk, "size=8m"); err != nil {
		return err
	}
	root := filepath.Join(disk, "data")
	if _, err := home.Open(ctx, home.Config{Root: root}); err != nil {
		return err
	}
	if err := unix.Mount("", disk, "", unix.MS_REMOUNT|unix.MS_RDONLY, ""); err != nil {
		return err
	}
	for _, dir := range []string{root, filepath.Join(disk, "new")} {
		_, err := home.Open(ctx, home.Config{Root: dir})
		if want := "the data directory " + dir + " cannot be written"; fault.Message(err) != want || fault.Hint(err) == "" {
			return fmt.Errorf("got %w, want %s", err, want)
		}
	}
	return nil
}

type zeros struct{}

func (zeros) Read(p []byte) (int, error) { clear(p); return len(p), nil }
