package fault_test

import (
	"fmt"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"

	"github.com/sandpiper-mcp/sandpiper/internal/fault"
)

// Errors of the kernel that nothing has explained have a message that says what to do.
func TestErrorsOfTheMachineAreExplained(t *testing.T) {
	full := os.WriteFile("/dev/full", []byte("x"), 0)
	f, err := os.Open("/proc/self/mem")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	_, failed := f.ReadAt(make([]byte, 1), 0)
	for name, c := range map[string]struct {
		err        error
		kind       fault.Kind
		says, hint string
	}{
		"full disk":    {full, fault.Exhausted, "is full", "free disk space"},
		"failed disk":  {failed, fault.Unavailable, "input/output error", "check the disk"},
		"no processes": {noProcess(t), fault.Unavailable, "no process can be started", "pids.max"},
		"no memory":    {os.NewSyscallError("mmap", syscall.ENOMEM), fault.Unavailable, "no free memory", "MemoryMax"},
	} {
		err := fmt.Errorf("doing something: %w", c.err)
		if c.err == nil || fault.KindOf(err) != c.kind || !strings.Contains(fault.Message(err), c.says) ||
			!strings.Contains(fault.Hint(err), c.hint) {
			t.Errorf("%s: %v (%v) says %q, %q", name, c.err, fault.KindOf(err), fault.Message(err), fault.Hint(err))
		}
		own := fault.Wrap(fault.Denied, err, "own words")
		if got := fault.Message(own); !strings.HasPrefix(got, "own words") {
			t.Errorf("%s: %q", name, got)
		}
	}
}

const startUntilRefused = "SANDPIPER_TEST_START_UNTIL_REFUSED"

// noProcess returns the error of a program that the limit on processes does not let start.
func noProcess(t *testing.T) error {
	t.Helper()
	if os.Getenv(startUntilRefused) != "" {
		if err := syscall.Setrlimit(6 /* RLIMIT_NPROC */, &syscall.Rlimit{}); err != nil {
			t.Fatal(err)
		}
		_, err := os.StartProcess("/bin/true", []string{"true"}, &os.ProcAttr{})
		fmt.Printf("refused with %d\n", err.(*os.PathError).Err)
		os.Exit(0)
	}
	exe, err := os.ReadFile("/proc/self/exe") // in a directory that another user may not enter
	program := t.TempDir() + "/program"
	if err == nil {
		err = os.WriteFile(program, exe, 0o755)
	}
	if err != nil {
		t.Fatal(err)
	}
	for dir := program; dir != "/tmp" && len(dir) > 5; dir = dir[:strings.LastIndexByte(dir, '/')] {
		_ = os.Chmod(dir, 0o755)
	}
	c := exec.Command(program, "-test.run=^TestErrorsOfTheMachineAreExplained$")
	c.Env, c.Dir = append(os.Environ(), startUntilRefused+"=1"), "/"
	if os.Geteuid() == 0 { // which no limit holds
		c.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65533, Gid: 65533}}
	}
	out, err := c.CombinedOutput()
	if !strings.Contains(string(out), fmt.Sprintf("refused with %d", syscall.EAGAIN)) {
		t.Fatalf("%v: %s", err, out)
	}
	return &os.PathError{Op: "fork/exec", Path: "/bin/true", Err: syscall.EAGAIN}
}
