package process

import (
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/sandpiper-mcp/sandpiper/internal/sandbox"
)

// restless is code that leaves threads and processes running that do as much as
// they can.
const restless = `
import os, threading, subprocess, sys, time
n = 0
def count():
    global n
    while True: n += 1
threading.Thread(target=count, daemon=True).start()
def fork():
    while True:
        pid = os.fork()
        if pid == 0: os._exit(0)
        os.waitpid(pid, 0)
for _ in range(2): threading.Thread(target=fork, daemon=True).start()
def speak():
    while True: print("late" * 20_000)
threading.Thread(target=speak, daemon=True).start()
child = os.fork()
if child == 0:
    while True: pass
`

// ways are the ways of freezing that this machine has.
func ways(t *testing.T, f func(*testing.T, *Backend, *host)) {
	for name, off := range map[string][]string{"with cgroups": nil, "without": {"cgroups"}} {
		t.Run(name, func(t *testing.T) {
			h := newHost(t)
			f(t, h.backend(func(c *Config) { c.Disabled = off }), h)
		})
	}
}

func TestFreezeStopsAllProcesses(t *testing.T) {
	ways(t, func(t *testing.T, b *Backend, h *host) {
		x := openInstance(t, b, h, "a")
		if out := runIn(t, x, restless); out.Status != sandbox.Completed {
			t.Fatalf("%+v", out)
		}
		for round := range 10 {
			if err := x.Freeze(); err != nil {
				t.Fatal(err)
			}
			before := x.w.cpuTicks()
			for range 100 { // what was in the kernel comes to its stop, and its time is counted, a little later
				was := before
				time.Sleep(20 * time.Millisecond)
				if before = x.w.cpuTicks(); maps.Equal(was, before) {
					break
				}
			}
			if len(before) < 2 {
				t.Errorf("only %d processes were found", len(before))
			}
			if err := x.Freeze(); err != nil { // again does nothing
				t.Fatal(err)
			}
			if now := x.w.cpuTicks(); fmt.Sprint(now) != fmt.Sprint(before) {
				t.Errorf("what stood still has moved: %v, then %v", before, now)
			}
			if err := x.Thaw(); err != nil {
				t.Fatal(err)
			}
			var host ear
			out, err := x.Run(t.Context(), sandbox.Program{ID: "again", Code: fmt.Sprintf(`
before = n
while n == before: time.sleep(0.001)
print("mine", %d)
os.kill(child, 0)`, round)}, &host)
			if err != nil || out.Status != sandbox.Completed {
				t.Fatalf("after the thaw: %+v, %v", out, err)
			}
			if want := []string{fmt.Sprint("mine ", round)}; !slices.Equal(host.output, want) {
				t.Fatalf("output %.80q, want %q", host.output, want)
			}
		}
	})
}

// cpuTicks are the processor times of all that is in the sandbox and no zombie,
// by process.
func (w *process) cpuTicks() map[int]string {
	ticks := map[int]string{}
	for _, pid := range w.pids() {
		b, _ := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
		f := strings.Fields(string(b[strings.LastIndex(string(b), ")")+1:]))
		if len(f) > 12 && f[0] != "Z" {
			ticks[pid] = f[11] + " " + f[12]
		}
	}
	return ticks
}

func TestCloseFrozenSandbox(t *testing.T) {
	ways(t, func(t *testing.T, b *Backend, h *host) {
		x := openInstance(t, b, h, "a")
		runIn(t, x, restless)
		if err := x.Freeze(); err != nil {
			t.Fatal(err)
		}
		if err := x.Close(); err != nil {
			t.Fatal(err)
		}
		<-x.w.exited
		if x.Freeze() == nil || x.Thaw() == nil {
			t.Error("a closed sandbox was frozen and thawed")
		}
		if out := h.run(b, h.spec("a"), "1+1"); string(out.Result) != "2" {
			t.Errorf("the next sandbox: %+v", out)
		}
	})
}

func TestThawReportsDeath(t *testing.T) {
	ways(t, func(t *testing.T, b *Backend, h *host) {
		x := openInstance(t, b, h, "a")
		runIn(t, x, "x = 1")
		if err := x.Freeze(); err != nil {
			t.Fatal(err)
		}
		x.w.kill()
		<-x.w.exited
		if err := x.Thaw(); err == nil {
			t.Error("a dead interpreter was woken")
		}
		if err := x.Freeze(); err == nil {
			t.Error("a dead interpreter was frozen")
		}
	})
}

// TestThawLeavesProcessesStoppedByCode: a thaw continues only what the freeze
// stopped.
func TestThawLeavesProcessesStoppedByCode(t *testing.T) {
	h := newHost(t)
	b := h.backend(func(c *Config) { c.Disabled = []string{"cgroups"} })
	x := openInstance(t, b, h, "a")
	runIn(t, x, `
import os, signal
child = os.fork()
if child == 0:
    os.kill(os.getpid(), signal.SIGSTOP)
    os._exit(7)
os.waitpid(child, os.WUNTRACED)`)
	if err := x.Freeze(); err != nil {
		t.Fatal(err)
	}
	if err := x.Thaw(); err != nil {
		t.Fatal(err)
	}
	out := runIn(t, x, `
first = os.waitpid(child, os.WNOHANG)
os.kill(child, signal.SIGCONT)
[first, os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])]`)
	if string(out.Result) != "[[0,0],7]" {
		t.Errorf("%s %s", out.Result, out.Error)
	}
}

// TestFreezeCgroupV2 tries the freezer of version 2 on an ordinary
// process, since hosts whose limits are of version 1 often have it too.
func TestFreezeCgroupV2(t *testing.T) {
	mount, err := mountOf("cgroup2", "")
	if err != nil {
		t.Skip(err)
	}
	own, err := ownGroup("")
	if err != nil {
		t.Skip(err)
	}
	dir := filepath.Join(mount, own, fmt.Sprintf("sandpiper-test-%d", os.Getpid()))
	if err := os.Mkdir(dir, 0o755); err != nil {
		t.Skip(err)
	}
	t.Cleanup(func() { os.Remove(dir) })
	busy := exec.Command("sh", "-c", "while :; do :; done")
	if err := busy.Start(); err != nil {
		t.Fatal(err)
	}
	defer busy.Wait()
	defer busy.Process.Kill()
	if err := writeFile(dir, "cgroup.procs", strconv.Itoa(busy.Process.Pid)); err != nil {
		t.Skip(err)
	}
	g := &group{dirs: []string{dir}}
	w := &process{group: g}
	for range 20 {
		if err := g.freeze(true); err != nil {
			t.Fatal(err)
		}
		for b := ""; !strings.Contains(b, "frozen 1"); {
			read, err := os.ReadFile(filepath.Join(dir, "cgroup.events"))
			if err != nil {
				t.Fatal(err)
			}
			b = string(read)
		}
		before := w.cpuTicks()
		for range 1000 {
			if now := w.cpuTicks(); fmt.Sprint(now) != fmt.Sprint(before) || len(now) != 1 {
				t.Fatalf("what stood still has moved: %v, then %v", before, now)
			}
		}
		if err := g.freeze(false); err != nil {
			t.Fatal(err)
		}
	}
	if err := g.freeze(true); err != nil {
		t.Fatal(err)
	}
	busy.Process.Kill() // ends it although it is frozen; else this test hangs
	busy.Wait()
	c := &cgroups{version: 2}
	c.put(g)
	if b, err := os.ReadFile(filepath.Join(dir, "cgroup.freeze")); err != nil || strings.TrimSpace(string(b)) != "0" || len(c.free) != 1 {
		t.Errorf("a group to be used again is frozen: %q, %v", b, err)
	}
}

func openInstance(t *testing.T, b *Backend, h *host, owner string) *instance {
	t.Helper()
	s, err := b.Open(t.Context(), h.spec(owner))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	return s.(*instance)
}

func runIn(t *testing.T, x *instance, code string) sandbox.Outcome {
	t.Helper()
	out, err := x.Run(t.Context(), sandbox.Program{ID: "test", Code: code}, sandbox.NoHost{})
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// ear hears what is printed.
type ear struct {
	sandbox.NoHost
	output []string
}

func (e *ear) Output(p []byte) error {
	e.output = append(e.output, string(p))
	return nil
}

func BenchmarkFreezeAndThaw(b *testing.B) {
	h := newHost(b)
	backend := h.backend(nil)
	s, err := backend.Open(b.Context(), h.spec("a"))
	if err != nil {
		b.Fatal(err)
	}
	defer s.Close()
	x := s.(*instance)
	for b.Loop() {
		if err := x.Freeze(); err != nil {
			b.Fatal(err)
		}
		if err := x.Thaw(); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkThawAndRun(b *testing.B) {
	h := newHost(b)
	backend := h.backend(nil)
	s, err := backend.Open(b.Context(), h.spec("a"))
	if err != nil {
		b.Fatal(err)
	}
	defer s.Close()
	x := s.(*instance)
	for b.Loop() {
		b.StopTimer()
		if err := x.Freeze(); err != nil {
			b.Fatal(err)
		}
		b.StartTimer()
		if err := x.Thaw(); err != nil {
			b.Fatal(err)
		}
		if out, err := x.Run(b.Context(), sandbox.Program{Code: "1"}, sandbox.NoHost{}); err != nil || out.Status != sandbox.Completed {
			b.Fatal(out, err)
		}
	}
}
