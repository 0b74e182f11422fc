package audit_test

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
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/sandpiper-mcp/sandpiper/internal/audit"
	"github.com/sandpiper-mcp/sandpiper/internal/fault"
)

// Tests of what happens to other processes run them for real: this binary again,
// with the part it has to play in its environment.
const part = "SANDPIPER_TEST_PART"

var parts = map[string]func(dir string) error{
	"append until killed": appendUntilKilled,
	"full disk":           onAFullDisk,
	"read-only":           onAReadOnlyDisk,
}

func TestMain(m *testing.M) {
	play, ok := parts[os.Getenv(part)]
	if !ok {
		os.Exit(m.Run())
	}
	if err := play(os.Getenv("SANDPIPER_TEST_DIR")); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func process(t *testing.T, name, dir string) *exec.Cmd {
	t.Helper()
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	c := exec.CommandContext(t.Context(), exe)
	c.Env = append(os.Environ(), part+"="+name, "SANDPIPER_TEST_DIR="+dir)
	c.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: unix.SIGKILL}
	return c
}

// appendUntilKilled says which lines are on disk.
func appendUntilKilled(dir string) error {
	l, err := audit.Open(audit.Config{Dir: dir, Key: key, MaxBytes: 8000})
	if err != nil {
		return err
	}
	for i := 0; ; i++ {
		name := fmt.Sprintf("%d_%d", os.Getpid(), i)
		l.AppendLater(call("later"))
		if err := l.Append(context.Background(), call(name)); err != nil {
			return err
		}
		fmt.Println(name)
	}
}

func TestKilledProcessLosesNoAppendedLine(t *testing.T) {
	cfg := config(t)
	var shown []string
	for round := range 12 {
		two := [2]*exec.Cmd{process(t, "append until killed", cfg.Dir), process(t, "append until killed", cfg.Dir)}
		var out [2]io.Reader
		for i, c := range two {
			r, err := c.StdoutPipe()
			if err = errors.Join(err, c.Start()); err != nil {
				t.Fatal(err)
			}
			out[i] = r
		}
		for i, c := range two { // the other goes on meanwhile
			lines := bufio.NewScanner(out[i])
			for n := 0; lines.Scan(); n++ {
				shown = append(shown, lines.Text())
				if n == 3+round {
					_ = c.Process.Kill()
				}
			}
			_ = c.Wait()
		}
	}
	there := map[string]bool{}
	n := int64(0)
	for _, r := range records(t, cfg, audit.TailOptions{Last: 1 << 20}) {
		there[r.Execution] = true
		n++
	}
	for _, name := range shown {
		if !there[name] {
			t.Errorf("line %s was there and is not", name)
		}
	}
	good(t, cfg, n)
	if len(shown) < 24*4 {
		t.Errorf("only %d lines were written", len(shown))
	}
}

func TestTwoProcessesWriteOneChain(t *testing.T) {
	cfg := config(t)
	a, b := process(t, "append until killed", cfg.Dir), process(t, "append until killed", cfg.Dir)
	for _, c := range []*exec.Cmd{a, b} {
		out, err := c.StdoutPipe()
		if err = errors.Join(err, c.Start()); err != nil {
			t.Fatal(err)
		}
		lines := bufio.NewScanner(out)
		began := time.Now() // the log grows while it is verified
		for n := 0; n < 60 && time.Since(began) < 10*time.Second && lines.Scan(); n++ {
			if r := verify(t, cfg); r.Problem != nil { // while both write
				t.Fatalf("%+v", r.Problem)
			}
		}
		t.Cleanup(func() {
			_ = c.Process.Kill()
			_ = c.Wait()
		})
		go io.Copy(io.Discard, out)
	}
}

// onDisk plays a part in a mount namespace of its own.
func onDisk(t *testing.T, name string) {
	if os.Getuid() != 0 {
		t.Skip("mounting needs root")
	}
	c := process(t, name, t.TempDir())
	var stderr bytes.Buffer
	c.Stderr = &stderr
	c.SysProcAttr.Unshareflags = syscall.CLONE_NEWNS
	err := c.Run()
	if errors.Is(err, unix.EPERM) || strings.Contains(stderr.String(), errNoMount.Error()) {
		t.Skip("mounting is not allowed here")
	}
	if err != nil {
		t.Fatalf("%v\n%s", err, &stderr)
	}
}

var errNoMount = errors.New("mounting is not allowed here")

func mountDisk(dir, options string) error {
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
		return errors.Join(errNoMount, err)
	}
	if err := unix.Mount("disk", dir, "tmpfs", 0, options); err != nil {
		return errors.Join(errNoMount, err)
	}
	return nil
}

func TestAFullDisk(t *testing.T)     { onDisk(t, "full disk") }
func TestAReadOnlyDisk(t *testing.T) { onDisk(t, "read-only") }

func onAFullDisk(disk string) error {
	if err := mountDisk(disk, "size=1m"); err != nil {
		return err
	}
	cfg := audit.Config{Dir: filepath.Join(disk, "audit"), Key: key}
	l, err := audit.Open(cfg)
	if err != nil {
		return err
	}
	ctx := context.Background()
	if err := l.Append(ctx, call("1")); err != nil {
		return err
	}
	filler := filepath.Join(disk, "filler")
	if err := os.WriteFile(filler, make([]byte, 2<<20), 0o600); !errors.Is(err, unix.ENOSPC) {
		return fmt.Errorf("filling the disk: %w", err)
	}
	l.AppendLater(call("kept"))
	for err = nil; err == nil; { // the page that there is has room for some
		err = l.Append(ctx, call(strings.Repeat("x", 100)))
	}
	if fault.KindOf(err) != fault.Exhausted || fault.Message(err) != "the disk that holds the audit log is full" {
		return fmt.Errorf("appending says %w", err)
	}
	for range 30_000 {
		l.AppendLater(call("kept"))
	}
	if r, err := audit.Verify(ctx, cfg); err != nil || r.Problem != nil {
		return fmt.Errorf("on the full disk: %+v, %w", r.Problem, err)
	}
	if err := os.Remove(filler); err != nil {
		return err
	}
	return afterwards(l, cfg, disk)
}

// afterwards expects that lines which waited are written, and the others counted.
func afterwards(l *audit.Log, cfg audit.Config, disk string) error {
	if err := unix.Mount("", disk, "", unix.MS_REMOUNT, "size=64m"); err != nil {
		return err
	}
	if err := l.Close(); err != nil {
		return fmt.Errorf("closing says %w", err)
	}
	r, err := audit.Verify(context.Background(), cfg)
	if err != nil || r.Problem != nil {
		return fmt.Errorf("with room again: %+v, %w", r.Problem, err)
	}
	kept, lost := 0, int64(0)
	err = audit.Tail(context.Background(), cfg, audit.TailOptions{Last: 50_000}, func(r audit.Record) error {
		if r.Kind == audit.Recovery && r.Outcome == "gap" {
			lost += r.Lost
		}
		if r.Execution == "kept" {
			kept++
		}
		return nil
	})
	if kept+int(lost) != 30_001 || lost == 0 {
		return fmt.Errorf("%d kept and %d lost of 30001, %w", kept, lost, err)
	}
	return err
}

func onAReadOnlyDisk(disk string) error {
	if err := mountDisk(disk, ""); err != nil {
		return err
	}
	cfg := audit.Config{Dir: filepath.Join(disk, "audit"), Key: key}
	l, err := audit.Open(cfg)
	if err == nil {
		err = l.Append(context.Background(), call("1"))
	}
	if err = errors.Join(err, l.Close()); err != nil {
		return err
	}
	if l, err = audit.Open(cfg); err != nil {
		return err
	}
	if err := unix.Mount("", disk, "", unix.MS_REMOUNT|unix.MS_RDONLY, ""); err != nil {
		return errors.Join(errNoMount, err)
	}
	if err := l.Append(context.Background(), call("2")); fault.KindOf(err) != fault.Unavailable || !strings.Contains(fault.Message(err),
		"read-only") {
		return fmt.Errorf("appending says %w", err)
	}
	l.AppendLater(call("3"))
	if err := l.Close(); !strings.HasPrefix(fault.Message(err),
		"lines of the audit log are lost (1): the audit log cannot be read or written: ") {
		return fmt.Errorf("closing says %w", err)
	}
	if _, err := audit.Open(audit.Config{Dir: filepath.Join(disk, "other"), Key: key}); fault.KindOf(err) != fault.Unavailable {
		return fmt.Errorf("opening says %w", err)
	}
	r, err := audit.Verify(context.Background(), cfg)
	if err != nil || r.Problem != nil || r.Lines != 1 {
		return fmt.Errorf("%+v, %w", r, err)
	}
	return nil
}
