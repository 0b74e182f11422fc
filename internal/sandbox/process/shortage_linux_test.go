package process

import (
	"crypto/rand"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/sandpiper-mcp/sandpiper/internal/fault"
	"github.com/sandpiper-mcp/sandpiper/internal/sandbox"
)

// exhaust leaves this process no descriptor to open, until release.
func exhaust(t *testing.T) (release func()) {
	t.Helper()
	var was unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &was); err != nil {
		t.Fatal(err)
	}
	if err := unix.Setrlimit(unix.RLIMIT_NOFILE, &unix.Rlimit{Max: was.Max}); err != nil {
		t.Fatal(err)
	}
	release = sync.OnceFunc(func() {
		if err := unix.Setrlimit(unix.RLIMIT_NOFILE, &was); err != nil {
			t.Error(err)
		}
	})
	t.Cleanup(release)
	return release
}

func TestReceiveReportsShortageOfDescriptors(t *testing.T) {
	ours, other, err := packetPair()
	if err != nil {
		t.Fatal(err)
	}
	defer ours.Close()
	c, err := net.FileConn(other)
	other.Close()
	if err != nil {
		t.Fatal(err)
	}
	theirs := c.(*net.UnixConn)
	defer theirs.Close()
	if err := send(theirs, zygoteAnswer{Op: "forked", ID: 7}, 0, 0); err != nil {
		t.Fatal(err)
	}
	release := exhaust(t)
	var a zygoteAnswer
	fds, err := receive(ours, &a)
	release()
	if len(fds) != 0 || !errors.Is(err, errShortage) || a.ID != 7 || !fault.NoDescriptors(err) {
		t.Errorf("%v, %v, %+v", fds, err, a)
	}
	if err := send(theirs, a, 0); err != nil {
		t.Fatal(err)
	}
	if fds, err = receive(ours, &a); err != nil || len(fds) != 1 {
		t.Errorf("after it: %v, %v", fds, err)
	}
	closeAll(fds)
}

// A shortage of descriptors fails what needs some, and nothing after it.
func TestBackendSurvivesAShortageOfDescriptors(t *testing.T) {
	h := newHost(t)
	b := h.backend(nil)
	live, err := b.Open(t.Context(), h.spec("a"))
	if err != nil {
		t.Fatal(err)
	}
	defer live.Close()
	release := exhaust(t)
	for range 3 {
		sb, err := b.Open(t.Context(), h.spec("b"))
		if err == nil { // by a worker that was there
			sb.Close()
		}
	}
	release()
	sb, err := b.Open(t.Context(), h.spec("c"))
	if err != nil {
		t.Fatalf("after the shortage: %v", err)
	}
	defer sb.Close()
	for _, s := range []sandbox.Sandbox{live, sb} {
		if out, err := s.Run(t.Context(), sandbox.Program{Code: "1+1"}, sandbox.NoHost{}); err != nil || out.Status != sandbox.Completed {
			t.Errorf("%+v %v", out, err)
		}
	}
}

// A host on which the backend starts at another time does not forbid it.
func TestBusyHostIsNotCalledUnsuitable(t *testing.T) {
	h := newHost(t)
	h.backend(nil)
	cfg := h.cfg
	cfg.startTimeout = time.Nanosecond
	_, err := New(cfg)
	check := func(err error) {
		t.Helper()
		text := fault.Message(err) + "; " + fault.Hint(err)
		if fault.KindOf(err) != fault.Unavailable || strings.Contains(text, "allow") || strings.Contains(text, "belong") {
			t.Errorf("%v: %s", err, text)
		}
		for _, l := range Diagnose(err).Layers {
			if !strings.Contains(l.Remedy, "busy") {
				t.Errorf("%+v", l)
			}
		}
	}
	if check(err); !strings.Contains(fault.Message(err), "no sandbox opened in time") {
		t.Error(err)
	}
	failed := 0
	for free := range 12 {
		open, err := os.ReadDir("/proc/self/fd")
		var was unix.Rlimit
		if err := errors.Join(err, unix.Getrlimit(unix.RLIMIT_NOFILE, &was)); err != nil {
			t.Fatal(err)
		}
		if err := unix.Setrlimit(unix.RLIMIT_NOFILE, &unix.Rlimit{Cur: uint64(len(open) - 1 + free), Max: was.Max}); err != nil {
			t.Fatal(err)
		}
		b, err := New(h.cfg)
		if err := unix.Setrlimit(unix.RLIMIT_NOFILE, &was); err != nil {
			t.Fatal(err)
		}
		if err == nil {
			_ = b.Close()
			continue
		}
		failed++
		if check(err); !strings.Contains(fault.Message(err), "too many open files") {
			t.Errorf("with %d descriptors: %v", free, err)
		}
	}
	if failed == 0 {
		t.Error("nothing was short")
	}
}

// Without room for another process the error says so, the zygote remains, and code runs when there is room.
func TestLimitOnProcessesIsReported(t *testing.T) {
	group := "/sys/fs/cgroup/pids/sandpiper-test-" + strings.ToLower(rand.Text()[:8])
	if err := os.Mkdir(group, 0o755); err != nil {
		t.Skip("there is no cgroup that limits processes: ", err)
	}
	h := newHost(t)
	b := h.backend(nil)
	t.Cleanup(func() { b.Close(); _ = os.Remove(group) })
	z := b.zygoteNow()
	for file, text := range map[string]string{"cgroup.procs": strconv.Itoa(pidOf(z.pidfd)), "pids.max": "1"} {
		if err := os.WriteFile(filepath.Join(group, file), []byte(text), 0); err != nil {
			t.Fatal(err)
		}
	}
	var err error
	for i := 0; err == nil && i < 20; i++ { // some workers were forked in advance
		var s sandbox.Sandbox
		if s, err = b.Open(t.Context(), h.spec(fmt.Sprint("t", i))); err == nil {
			defer s.Close()
		}
	}
	if fault.KindOf(err) != fault.Unavailable || !strings.Contains(fault.Message(err), "no process can be started") ||
		!strings.Contains(fault.Hint(err), "pids.max") {
		t.Errorf("%v; %s", err, fault.Hint(err))
	}
	if err := os.WriteFile(filepath.Join(group, "pids.max"), []byte("max"), 0); err != nil {
		t.Fatal(err)
	}
	if out := h.run(b, h.spec("a"), "1 + 1"); string(out.Result) != "2" {
		t.Errorf("%+v", out)
	}
	if b.zygoteNow() != z {
		t.Error("the zygote was replaced")
	}
}
