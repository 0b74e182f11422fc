package confine_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/sandpiper-mcp/sandpiper/internal/sandbox/confine"
)

// The test binary is the program: a child runs one of these, named by the input.
func init() {
	// What inits of other packages may have done before: a timer, and an open file.
	time.Sleep(time.Nanosecond)
	left, _ = os.Open("/etc/passwd")
	confine.Main("confine-test", func(in []byte) []byte { return programs[string(in)](in) })
}

var left *os.File

var programs = map[string]func(in []byte) []byte{
	"echo": func(in []byte) []byte { return in },
	"loop": func([]byte) []byte {
		for {
			runtime.Gosched()
		}
	},
	"block": func([]byte) []byte { select {} },
	"sleep": func([]byte) []byte { time.Sleep(time.Hour); return nil },
	"allocate": func([]byte) []byte {
		for all := [][]byte{}; ; runtime.KeepAlive(all) {
			all = append(all, bytes.Repeat([]byte{1}, 1<<20))
		}
	},
	"recurse":  func([]byte) []byte { return deeper(1) },
	"long":     func([]byte) []byte { return make([]byte, 2<<20) },
	"panic":    func([]byte) []byte { panic("at the disco") },
	"parallel": parallel,
	"attack":   attack,
}

// deeper does not return: n is positive.
func deeper(n int) []byte {
	if n < 0 {
		return nil
	}
	return append(deeper(n+1), 1)
}

// parallel needs several threads and the garbage collector.
func parallel([]byte) []byte {
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			for range 20 {
				_ = bytes.Repeat([]byte{1}, 1<<20)
			}
		})
	}
	wg.Wait()
	return []byte("done")
}

// attack tries to reach something, and reports what succeeded, from every thread that it can get.
func attack([]byte) []byte {
	var mu sync.Mutex
	found := []string{}
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			runtime.LockOSThread()
			defer runtime.UnlockOSThread()
			for name, try := range attacks {
				if err := try(); err == nil {
					mu.Lock()
					found = append(found, name)
					mu.Unlock()
				}
			}
		})
	}
	wg.Wait()
	out, _ := json.Marshal(found)
	return out
}

func errno(r1, _ uintptr, e syscall.Errno) error {
	if e != 0 {
		return e
	}
	return nil
}

var attacks = map[string]func() error{
	"read a file":             func() error { _, err := os.ReadFile("/etc/passwd"); return err },
	"read its program":        func() error { _, err := os.ReadFile("/proc/self/exe"); return err },
	"stat a file":             func() error { _, err := os.Stat("/etc/passwd"); return err },
	"write a file":            func() error { return os.WriteFile("/tmp/confine-attack", nil, 0o600) },
	"delete a file":           func() error { return os.Remove("/tmp") },
	"list a directory":        func() error { _, err := os.ReadDir("/"); return err },
	"open a socket":           func() error { _, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM, 0); return err },
	"open a unix socket":      func() error { _, err := unix.Socket(unix.AF_UNIX, unix.SOCK_STREAM, 0); return err },
	"make a pipe":             func() error { return unix.Pipe2(make([]int, 2), 0) },
	"duplicate a descriptor":  func() error { _, err := unix.Dup(0); return err },
	"start a program":         func() error { return exec.Command("/bin/true").Run() },
	"become a program":        func() error { return unix.Exec("/bin/true", []string{"true"}, nil) },
	"fork":                    func() error { return errno(unix.RawSyscall(unix.SYS_CLONE, uintptr(unix.SIGCHLD), 0, 0)) },
	"new namespace":           func() error { return unix.Unshare(unix.CLONE_NEWUSER) },
	"signal its parent":       func() error { return unix.Kill(1, 0) },
	"signal a thread outside": func() error { return unix.Tgkill(1, 1, 0) },
	"trace":                   func() error { return errno(unix.RawSyscall(unix.SYS_PTRACE, 0, 0, 0)) },
	"raise a limit":           func() error { return unix.Setrlimit(unix.RLIMIT_NOFILE, &unix.Rlimit{Cur: 100, Max: 100}) },
	"run written code": func() error {
		_, err := unix.Mmap(-1, 0, 4096, unix.PROT_READ|unix.PROT_EXEC, unix.MAP_ANON|unix.MAP_PRIVATE)
		return err
	},
	"memory file":    func() error { _, err := unix.MemfdCreate("x", 0); return err },
	"change its uid": func() error { return errno(unix.RawSyscall(unix.SYS_SETUID, 0, 0, 0)) },
	"see the environment": func() error {
		if len(os.Environ()) == 0 {
			return errors.New("empty")
		}
		return nil
	},
	"use a descriptor": func() error {
		for fd := 3; fd < 100; fd++ {
			// The runtime's poller and its eventfd, which read nothing, are the only ones.
			if _, err := unix.Read(fd, make([]byte, 8)); err != unix.EBADF && err != unix.EINVAL && err != unix.EAGAIN {
				return nil
			}
		}
		return errors.New("none")
	},
}

func run(t *testing.T, program string, l confine.Limits) ([]byte, error) {
	t.Helper()
	return confine.Run(t.Context(), "confine-test", l, []byte(program))
}

func TestRunReturnsTheAnswer(t *testing.T) {
	for _, program := range []string{"echo", "parallel"} {
		out, err := run(t, program, confine.Limits{})
		if err != nil || string(out) != map[string]string{"echo": "echo", "parallel": "done"}[program] {
			t.Errorf("%s: %q, %v", program, out, err)
		}
	}
}

// The attacks succeed in this process, which shows that they are attacks.
func TestChildReachesNothing(t *testing.T) {
	t.Setenv("CONFINE_TEST_SECRET", "x")
	out, err := run(t, "attack", confine.Limits{})
	if err != nil || string(out) != "[]" {
		t.Fatalf("succeeded: %s, %v", out, err)
	}
	for _, name := range []string{"read a file", "stat a file", "list a directory", "open a socket", "make a pipe", "start a program", "see the environment", "memory file", "run written code"} {
		if err := attacks[name](); err != nil {
			t.Errorf("%s fails outside too: %v", name, err)
		}
	}
}

func TestLimits(t *testing.T) {
	small := confine.Limits{MemoryBytes: 128 << 20, CPU: time.Second, OutputBytes: 1 << 20}
	for program, want := range map[string]confine.Reason{
		"loop": confine.OutOfTime, "allocate": confine.OutOfMemory, "recurse": confine.OutOfMemory, "long": confine.TooLong, "panic": confine.Crashed,
	} {
		t.Run(program, func(t *testing.T) {
			out, err := run(t, program, small)
			f, ok := errors.AsType[*confine.Failure](err)
			if !ok || f.Reason != want {
				t.Errorf("%q, %v; want a failure because of %s", out, err, want)
			}
		})
	}
}

func TestDeadlineAndCancel(t *testing.T) {
	_, err := run(t, "sleep", confine.Limits{Wall: 200 * time.Millisecond})
	if f, ok := errors.AsType[*confine.Failure](err); !ok || f.Reason != confine.OutOfTime {
		t.Errorf("%v; want a failure because of time", err)
	}
	ctx, cancel := context.WithCancelCause(t.Context())
	why := fmt.Errorf("no longer needed")
	cancel(why)
	if _, err := confine.Run(ctx, "confine-test", confine.Limits{}, []byte("sleep")); !errors.Is(err, why) {
		t.Errorf("%v; want the cause", err)
	}
}

// A failure's detail is for logs, and names what happened.
func TestCrashHasDetail(t *testing.T) {
	_, err := run(t, "panic", confine.Limits{})
	if err == nil || !strings.Contains(err.Error(), "at the disco") {
		t.Errorf("%v", err)
	}
}

func BenchmarkRun(b *testing.B) {
	for b.Loop() {
		if _, err := confine.Run(b.Context(), "confine-test", confine.Limits{}, []byte("echo")); err != nil {
			b.Fatal(err)
		}
	}
}
