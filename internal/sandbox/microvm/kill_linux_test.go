//go:build amd64

package microvm

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/sandpiper-mcp/sandpiper/internal/sandbox"
)

// killed is what a process of TestKilledDaemonLeavesNothing runs.
type killed struct {
	Kernel, Python, State string
	Libraries, Roots      map[string]string
	Spec                  sandbox.Spec
}

const daemonVariable = "MICROVM_TEST_DAEMON"

// beDaemon opens sandboxes until it is killed, and reports each step.
func beDaemon(text string) {
	var k killed
	if err := json.Unmarshal([]byte(text), &k); err != nil {
		panic(err)
	}
	fmt.Println("boot")
	b, err := New(context.Background(), Config{Accel: TCG, Kernel: k.Kernel, Python: k.Python, Libraries: k.Libraries, Roots: k.Roots, State: k.State})
	for err == nil {
		fmt.Println("open")
		var s sandbox.Sandbox
		if s, err = b.Open(context.Background(), k.Spec); err == nil {
			fmt.Println("run")
			_, err = s.Run(context.Background(), sandbox.Program{ID: "test", Code: "while True: pass"}, sandbox.NoHost{})
		}
	}
	fmt.Println(err)
}

// A daemon that is killed leaves no guest, file or mount, whatever it was doing.
func TestKilledDaemonLeavesNothing(t *testing.T) {
	h := newHost(t)
	h.requirePrograms()
	if err := unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0); err != nil {
		t.Fatal(err)
	}
	config, err := json.Marshal(killed{h.cfg.Kernel, h.cfg.Python, h.cfg.State, h.cfg.Libraries, h.cfg.Roots, h.spec("a")})
	if err != nil {
		t.Fatal(err)
	}
	for _, step := range []string{"boot", "open", "run"} {
		cmd := exec.Command("/proc/self/exe")
		cmd.Env = append(os.Environ(), daemonVariable+"="+string(config))
		out, err := cmd.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		lines := bufio.NewScanner(out)
		reached := false
		for !reached && lines.Scan() {
			t.Log(lines.Text())
			reached = lines.Text() == step
		}
		if !reached {
			t.Errorf("the daemon ended before %s", step)
		}
		time.Sleep(100 * time.Millisecond) // into the step
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
		for end := time.Now().Add(20 * time.Second); ; time.Sleep(10 * time.Millisecond) {
			for pid := 1; pid > 0; { // those that became children of this process
				pid, _ = unix.Wait4(-1, nil, unix.WNOHANG, nil)
			}
			left := leftovers(h)
			if left == "" {
				break
			}
			if time.Now().After(end) {
				t.Fatalf("killed at %s: left behind: %s", step, left)
			}
		}
	}
}
