//go:build amd64

package microvm

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/sandpiper-mcp/sandpiper/internal/longtest"
	"github.com/sandpiper-mcp/sandpiper/internal/sandbox"
)

// killed is what a process of TestKilledDaemonLeavesNothing runs.
type killed struct {
	Kernel, Python   string
	Libraries, Roots map[string]string
	Spec             sandbox.Spec
}

const daemonVariable = "MICROVM_TEST_DAEMON"

// beDaemon opens sandboxes until it is killed, and reports each step.
func beDaemon(text string) {
	var k killed
	if err := json.Unmarshal([]byte(text), &k); err != nil {
		panic(err)
	}
	ctx := context.Background()
	fmt.Println("boot")
	b, err := New(ctx, Config{Accel: TCG, Kernel: k.Kernel, Config: sandbox.Config{Python: k.Python, Libraries: k.Libraries,
		Roots: k.Roots}})
	for err == nil {
		fmt.Println("open")
		var s sandbox.Sandbox
		if s, err = b.Open(ctx, k.Spec); err != nil {
			break
		}
		fmt.Println("run")
		late, cancel := context.WithTimeoutCause(ctx, 3*time.Second, sandbox.ErrTimeout)
		_, err = s.Run(late, sandbox.Program{ID: "test", Code: "import time\ntime.sleep(1)"}, sandbox.NoHost{})
		cancel()
		fmt.Println("idle")
		time.Sleep(time.Second)
		fmt.Println("close")
		_ = s.Close()
	}
	fmt.Println(err)
}

// A daemon that is killed leaves no process, file or mount, whatever it was doing, and the next
// one starts.
func TestKilledDaemonLeavesNothing(t *testing.T) {
	h := newHost(t)
	h.requirePrograms()
	if err := unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0); err != nil {
		t.Fatal(err)
	}
	config, err := json.Marshal(killed{h.cfg.Kernel, h.cfg.Python, h.cfg.Libraries, h.cfg.Roots, h.spec("a")})
	if err != nil {
		t.Fatal(err)
	}
	before := h.hostState()
	for _, round := range longtest.Rows([]struct {
		step string
		time time.Duration // within which it is killed
	}{
		{"boot", 5 * time.Second}, {"open", time.Second / 10}, {"open", time.Second}, {"open", time.Second}, {"run", time.Second},
		{"idle", time.Second / 2}, {"close", 10 * time.Millisecond}, {"close", 10 * time.Millisecond},
	}, 0, 2) {
		killDaemon(t, string(config), round.step, rand.N(round.time))
		for end := time.Now().Add(20 * time.Second); ; time.Sleep(10 * time.Millisecond) {
			for pid := 1; pid > 0; { // those that became children of this process
				pid, _ = unix.Wait4(-1, nil, unix.WNOHANG, nil)
			}
			left := leftovers(h)
			if left == "" {
				break
			}
			if time.Now().After(end) {
				t.Fatalf("killed at %s: left behind: %s", round.step, left)
			}
		}
		if after := h.hostState(); after != before {
			t.Fatalf("killed at %s: the host had\n%s\nand now has\n%s", round.step, before, after)
		}
	}
	if out := h.run(h.backend(), h.spec("a"), "6*7"); string(out.Result) != "42" {
		t.Errorf("%+v", out)
	}
}

// killDaemon starts a daemon, and kills it some time after it has reported a step.
func killDaemon(t *testing.T, config, step string, after time.Duration) {
	t.Helper()
	cmd := exec.Command("/proc/self/exe")
	cmd.Env = append(os.Environ(), daemonVariable+"="+config)
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer cmd.Wait()
	defer cmd.Process.Kill()
	last := ""
	for lines := bufio.NewScanner(out); last != step && lines.Scan(); {
		last = lines.Text()
	}
	if last != step {
		t.Fatalf("the daemon ended before %s: %s", step, last)
	}
	time.Sleep(after)
	t.Logf("killed %s after %s", after, step)
}

// hostState lists the mounts of this process and the files of the host that a daemon could leave.
func (h *host) hostState() string {
	h.t.Helper()
	text, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		h.t.Fatal(err)
	}
	for _, root := range []string{h.roots, scratch} {
		err := filepath.WalkDir(root, func(name string, e fs.DirEntry, err error) error {
			if name == h.cfg.Python {
				return filepath.SkipDir
			}
			text = fmt.Appendln(text, name)
			return err
		})
		if err != nil {
			h.t.Fatal(err)
		}
	}
	return string(text)
}
