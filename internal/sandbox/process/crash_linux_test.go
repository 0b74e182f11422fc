package process

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/sandpiper-mcp/sandpiper/internal/logtest"
	"github.com/sandpiper-mcp/sandpiper/internal/longtest"
	"github.com/sandpiper-mcp/sandpiper/internal/sandbox"
)

// busy prints when it runs and then never ends, as does its child process.
const busy = `
import os
parent = os.fork()
if parent: print("running")
while True: pass
`

// firstOutput is a Host that sends its first output to a channel.
type firstOutput struct {
	sandbox.NoHost
	output chan string
}

func (h firstOutput) Output(p []byte) error {
	select {
	case h.output <- string(p):
	default:
	}
	return nil
}

// start runs code in a sandbox of its own and returns once it printed something.
func (h *host) start(b *Backend, owner, code string) (*instance, chan sandbox.Outcome) {
	h.t.Helper()
	s, err := b.Open(h.t.Context(), h.spec(owner))
	if err != nil {
		h.t.Fatal(err)
	}
	done, output := make(chan sandbox.Outcome, 1), make(chan string, 1)
	go func() {
		out, err := s.Run(h.t.Context(), sandbox.Program{ID: owner, Code: code}, firstOutput{output: output})
		if err != nil {
			out.Error = err.Error()
		}
		done <- out
	}()
	select {
	case <-output:
	case out := <-done:
		h.t.Fatalf("ended before it printed: %+v", out)
	}
	return s.(*instance), done
}

// beDaemon runs the test binary as a daemon to be killed. It prints its keeper's pid.
func beDaemon(config string) {
	var cfg Config
	if err := json.Unmarshal([]byte(config), &cfg); err != nil {
		panic(err)
	}
	b, err := New(cfg)
	if err != nil {
		panic(err)
	}
	for _, owner := range []string{"a", "b"} {
		spec := sandbox.Spec{Owner: owner, Mounts: []sandbox.Mount{{Target: "/workspace", Root: "workspaces", Name: owner}}}
		s, err := b.Open(context.Background(), spec)
		if err != nil {
			panic(err)
		}
		output := make(chan string, 1)
		go func() { _, _ = s.Run(context.Background(), sandbox.Program{Code: busy}, firstOutput{output: output}) }()
		<-output
	}
	fmt.Println(b.currentKeeper().cmd.Process.Pid)
	select {}
}

func TestKilledDaemonLeavesNothing(t *testing.T) {
	longtest.SkipSlow(t)
	h := newHost(t)
	neighbour := h.backend(nil)
	_, undisturbed := h.start(neighbour, "c", "import time\nprint(1)\ntime.sleep(3)\nresult = 'whole'")
	h.spec("a")
	h.spec("b")
	if tenantUIDs(t) > 0 { // beDaemon names no uid
		for _, owner := range []string{"a", "b"} {
			_ = os.Chown(filepath.Join(h.cfg.Roots["workspaces"], owner), FirstUID, FirstUID)
		}
	}
	cfg := map[string]any{"Python": h.cfg.Python, "Libraries": h.cfg.Libraries, "State": h.cfg.State, "Roots": h.cfg.Roots}
	encoded, err := json.Marshal(cfg)
	if err != nil {
		t.Fatal(err)
	}
	daemon := exec.Command("/proc/self/exe")
	daemon.Env = append(os.Environ(), "PROCESS_TEST_DAEMON="+string(encoded))
	daemon.Stderr = os.Stderr
	out, err := daemon.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := daemon.Start(); err != nil {
		t.Fatal(err)
	}
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		t.Fatalf("the daemon did not start: %v", err)
	}
	keeper, _ := strconv.Atoi(strings.TrimSpace(line))
	left := descendants(keeper, nil)
	if len(left) < 6 { // keeper, zygote, two workers, two children
		t.Errorf("only %d processes to leave behind", len(left))
	}
	pidfds := map[int]int{}
	for _, pid := range left {
		if fd, err := unix.PidfdOpen(pid, 0); err == nil {
			pidfds[pid] = fd
		}
	}
	_ = daemon.Process.Kill()
	_ = daemon.Wait()
	for pid, fd := range pidfds {
		n, err := 0, error(unix.EINTR)
		for err == unix.EINTR {
			n, err = unix.Poll([]unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}, 10_000)
		}
		unix.Close(fd)
		if n != 1 {
			t.Errorf("process %d outlived its daemon: %v", pid, err)
		}
	}

	dead := ""
	locks := func() []string { l, _ := filepath.Glob(filepath.Join(h.cfg.State, "*.lock")); return l }
	for _, l := range locks() {
		if l != neighbour.lock.Path() {
			dead = strings.TrimSuffix(filepath.Base(l), ".lock")
		}
	}
	if dead == "" {
		t.Error("the dead daemon left no lock file to be found by")
	}
	next := h.backend(nil)
	if _, err := os.Stat(filepath.Join(h.cfg.State, dead+".lock")); err == nil {
		t.Error("the dead daemon's lock file is left")
	}
	if _, err := os.Stat(neighbour.lock.Path()); err != nil {
		t.Error("the neighbour's lock file is gone")
	}
	for _, name := range groupNames() {
		if name == dead {
			t.Errorf("cgroup %s of the dead daemon is left", name)
		}
	}
	if out := h.run(next, h.spec("d"), "1+1"); string(out.Result) != "2" {
		t.Errorf("after it: %+v", out)
	}
	if out := <-undisturbed; string(out.Result) != `"whole"` {
		t.Errorf("the neighbour's execution: %+v", out)
	}
}

// groupNames are the cgroups of all daemons that share our place in the tree.
func groupNames() []string {
	var names []string
	for _, controller := range []string{"memory", "pids"} {
		mount, err := mountOf("cgroup", controller)
		if err != nil {
			continue
		}
		own, err := ownGroup(controller)
		if err != nil {
			continue
		}
		found, _ := filepath.Glob(filepath.Join(mount, own, "sandpiper-*"))
		for _, f := range found {
			names = append(names, filepath.Base(f))
		}
	}
	return names
}

func TestKilledZygoteEndsNoExecution(t *testing.T) {
	t.Parallel()
	h := newHost(t)
	var log logtest.Log
	b := h.backend(func(c *Config) { c.Log = slog.New(slog.NewTextHandler(&log, nil)) })
	_, done := h.start(b, "a", "import time\nprint(1)\ntime.sleep(1)\nresult = 'whole'")
	b.zygoteNow().signal(t, unix.SIGKILL)
	if out := h.run(b, h.spec("b"), "2+2"); string(out.Result) != "4" {
		t.Errorf("beside it: %+v", out)
	}
	if out := <-done; string(out.Result) != `"whole"` {
		t.Errorf("the running execution: %+v", out)
	}
	if err := b.Close(); err != nil || strings.Count(log.String(), "level=WARN msg=\"a zygote ended") != 1 {
		t.Errorf("want one zygote that ended by itself in the log: %v\n%s", err, log.String())
	}
}

// A request that fails or is not answered kills the zygote.
func TestFailedZygoteIsLogged(t *testing.T) {
	t.Parallel()
	h := newHost(t)
	var log logtest.Log
	b := h.backend(func(c *Config) { c.Log = slog.New(slog.NewTextHandler(&log, nil)) })
	if out := h.run(b, h.spec("a"), "1+1"); string(out.Result) != "2" {
		t.Errorf("before: %+v", out)
	}
	z := b.zygoteNow()
	z.kill()
	<-z.ended
	if !strings.Contains(log.String(), "level=WARN msg=\"a zygote ended") {
		t.Errorf("no warning in the log:\n%s", log.String())
	}
	if out := h.run(b, h.spec("b"), "2+2"); string(out.Result) != "4" {
		t.Errorf("after: %+v", out)
	}
}

func TestKilledWorkerEndsOneExecution(t *testing.T) {
	t.Parallel()
	h := newHost(t)
	b := h.backend(nil)
	x, done := h.start(b, "a", busy)
	_, other := h.start(b, "b", "import time\nprint(1)\ntime.sleep(1)\nresult = 'whole'")
	x.w.kill()
	if out := <-done; out.Status != sandbox.Crashed || !strings.Contains(out.Error, "signal 9") || !strings.Contains(out.Error,
		"MemoryMax") {
		t.Errorf("the killed: %+v", out)
	}
	if out := <-other; string(out.Result) != `"whole"` {
		t.Errorf("the other: %+v", out)
	}
	if out, err := x.Run(t.Context(), sandbox.Program{Code: "1"}, sandbox.NoHost{}); err != nil || out.Status != sandbox.Crashed {
		t.Errorf("running again: %+v %v", out, err)
	}
}

func TestKilledKeeperIsReplaced(t *testing.T) {
	h := newHost(t)
	b := h.backend(nil)
	_, done := h.start(b, "a", busy)
	_ = b.currentKeeper().cmd.Process.Kill()
	if out := <-done; out.Status != sandbox.Crashed {
		t.Errorf("the running execution: %+v", out)
	}
	if out := h.run(b, h.spec("b"), "2+2"); string(out.Result) != "4" {
		t.Errorf("after it: %+v", out)
	}
}

func TestCancellationAndTimeoutKillWorker(t *testing.T) {
	h := newHost(t)
	b := h.backend(nil)
	for _, c := range []struct {
		cause error
		want  sandbox.Status
	}{{sandbox.ErrTimeout, sandbox.TimedOut}, {context.Canceled, sandbox.Cancelled}} {
		s, err := b.Open(t.Context(), h.spec("a"))
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancelCause(t.Context())
		output := make(chan string, 1)
		go func() { <-output; cancel(c.cause) }()
		out, err := s.Run(ctx, sandbox.Program{Code: busy}, firstOutput{output: output})
		if err != nil || out.Status != c.want {
			t.Errorf("%v: %+v %v", c.cause, out, err)
		}
		if !s.(*instance).w.exitsWithin(5 * time.Second) {
			t.Errorf("%v: the worker lives", c.cause)
		}
		s.Close()
	}
}
