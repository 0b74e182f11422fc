//go:build unix

package process_test

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/sandpiper-mcp/sandpiper/internal/upstream/process"
)

// TestMain also runs this binary as a daemon that is killed.
func TestMain(m *testing.M) {
	if script := os.Getenv("CHILD_TEST_DAEMON"); script != "" {
		c, err := process.Start(process.Config{Command: "/bin/sh", Args: []string{"-c", script}})
		if err != nil {
			fmt.Println(err)
			os.Exit(1)
		}
		_, _ = io.Copy(os.Stdout, c.Stdout)
		select {}
	}
	os.Exit(m.Run())
}

func start(t *testing.T, cfg process.Config, script string, args ...string) *process.Child {
	t.Helper()
	cfg.Command, cfg.Args = "/bin/sh", append([]string{"-c", script, "sh"}, args...)
	c, err := process.Start(cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Stop)
	return c
}

func all(t *testing.T, r io.Reader) string {
	t.Helper()
	b, err := io.ReadAll(r)
	if err != nil {
		t.Error(err)
	}
	return string(b)
}

func TestProgramEnvironment(t *testing.T) {
	t.Setenv("AZURE_OPENAI_API_KEY", "daemon's own")
	t.Setenv("HTTPS_PROXY", "http://user:password@proxy")
	t.Setenv("HOME", "/home/somebody")
	dir := t.TempDir()
	c := start(t, process.Config{Env: map[string]string{"TOKEN": "its own", "LANG": "C"}, Dir: dir}, "env; pwd")
	got := all(t, c.Stdout)
	for _, want := range []string{"TOKEN=its own\n", "LANG=C\n", "HOME=/home/somebody\n", "PATH=" + os.Getenv("PATH") + "\n", dir + "\n"} {
		if !strings.Contains(got, want) {
			t.Errorf("%q is missing from\n%s", want, got)
		}
	}
	if strings.Contains(got, "AZURE") || strings.Contains(got, "PROXY") {
		t.Errorf("the environment contains\n%s", got)
	}
}

func TestMissingProgramIsReported(t *testing.T) {
	for _, cfg := range []process.Config{{Command: "no-such-program"}, {Command: "/no/such/program"},
		{Command: "sh", Env: map[string]string{"PATH": t.TempDir()}}} {
		if c, err := process.Start(cfg); !errors.Is(err, process.ErrNotFound) {
			t.Errorf("%q: %v, %v", cfg.Command, c, err)
		}
	}
}

func TestProgramIsFoundOnConfiguredPath(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "mine"), []byte("#!/bin/sh\necho here"), 0o755); err != nil {
		t.Fatal(err)
	}
	c, err := process.Start(process.Config{Command: "mine", Env: map[string]string{"PATH": dir}})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Stop()
	if got := all(t, c.Stdout); got != "here\n" {
		t.Errorf("%q", got)
	}
}

func TestLastStderrLinesAreKept(t *testing.T) {
	c := start(t, process.Config{Redact: func(s string) string { return strings.ReplaceAll(s, "sesame", "[secret]") }}, `
		i=0; while [ $i -lt 30 ]; do echo "line $i" >&2; i=$((i+1)); done
		printf '\033[31mred\033[0m\n\n  \nopen sesame\n' >&2
		head -c 200000 /dev/zero | tr '\0' x >&2
		echo >&2; printf 'no end' >&2; exit 3`)
	<-c.Exited()
	if got := c.Status(); got != "exit status 3" {
		t.Error(got)
	}
	lines := c.StderrLines()
	if d := cmp.Diff([]string{"line 28", "line 29", "red", "open [secret]"}, lines[14:18]); d != "" || len(lines) != 20 {
		t.Error(len(lines), d)
	}
	if len(lines[18]) != 500 || lines[19] != "no end" {
		t.Errorf("%d %q", len(lines[18]), lines[19])
	}
}

// family is a program with one child in its process group and one in another. They keep its streams open
// and ignore all signals except SIGKILL.
const family = `
	stay='trap "" TERM HUP INT; echo $$; while :; do sleep 100; done'
	sh -c "$stay" & setsid sh -c "$stay" & eval "$stay"`

// pids parses the process ids that family prints.
func pids(t *testing.T, r io.Reader) (pids []int) {
	t.Helper()
	lines := bufio.NewScanner(r)
	for len(pids) < 3 && lines.Scan() {
		pid, err := strconv.Atoi(lines.Text())
		if err != nil {
			t.Fatal(err)
		}
		pids = append(pids, pid)
	}
	return pids
}

// waitForExit waits until all processes have exited.
func waitForExit(t *testing.T, pids []int) {
	t.Helper()
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for deadline := time.After(20 * time.Second); ; {
		alive := slices.DeleteFunc(slices.Clone(pids), func(pid int) bool { return !isRunning(pid) })
		if len(alive) == 0 {
			return
		}
		select {
		case <-tick.C:
		case <-deadline:
			t.Fatalf("%d of %d processes are running", len(alive), len(pids))
		}
	}
}

// isRunning reports whether a process runs. A zombie does not.
func isRunning(pid int) bool {
	if syscall.Kill(pid, 0) != nil {
		return false
	}
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	return err != nil || !strings.Contains(string(stat), ") Z ")
}

func TestStopKillsDescendants(t *testing.T) {
	needSetsid(t)
	c := start(t, process.Config{Grace: 50 * time.Millisecond}, family)
	family := pids(t, c.Stdout)
	if len(family) != 3 {
		t.Fatalf("%v %v", family, c.StderrLines())
	}
	c.Stop()
	<-c.Exited()
	waitForExit(t, family)
	if got := c.Status(); got != "signal: killed" {
		t.Error(got)
	}
}

func TestDescendantsOfCrashedProgramAreKilled(t *testing.T) {
	needSetsid(t)
	c := start(t, process.Config{}, family)
	family := pids(t, c.Stdout)
	if err := syscall.Kill(c.PID(), syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	<-c.Exited()
	waitForExit(t, family)
}

func TestProgramExitsWhenStdinCloses(t *testing.T) {
	c := start(t, process.Config{Grace: time.Minute}, "cat; echo bye >&2")
	c.Stop() // closes its stdin
	if got, lines := c.Status(), c.StderrLines(); got != "exit status 0" || !slices.Equal(lines, []string{"bye"}) {
		t.Error(got, lines)
	}
}

func TestProgramsEndWithKilledDaemon(t *testing.T) {
	needSetsid(t)
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	daemon := exec.Command(exe)
	daemon.Env = append(os.Environ(), "CHILD_TEST_DAEMON="+family)
	out, err := daemon.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := daemon.Start(); err != nil {
		t.Fatal(err)
	}
	family := pids(t, out)
	if err := daemon.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = daemon.Wait()
	waitForExit(t, family)
}

func needSetsid(t *testing.T) {
	if _, err := exec.LookPath("setsid"); err != nil {
		t.Skip("there is no setsid here, by which a process would leave its group")
	}
}
