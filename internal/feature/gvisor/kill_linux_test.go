package gvisor

import (
	"encoding/json"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/sandpiper-mcp/sandpiper/internal/longtest"
	"github.com/sandpiper-mcp/sandpiper/internal/sandbox"
)

// beDaemon opens sandboxes with the configuration in the environment, until it is killed.
func beDaemon(config string) {
	var d struct {
		Config Config
		Spec   sandbox.Spec
	}
	if err := json.Unmarshal([]byte(config), &d); err != nil {
		panic(err)
	}
	b, err := New(ctx, d.Config)
	if err != nil {
		panic(err)
	}
	for {
		s, err := b.Open(ctx, d.Spec)
		if err != nil {
			panic(err)
		}
		fmt.Println("opened")
		go s.Run(ctx, sandbox.Program{ID: "endless", Code: "import os\nos.fork()\nwhile True: pass"}, sandbox.NoHost{})
	}
}

// A daemon that is killed, while it starts sandboxes and while code runs in them, leaves no
// process and no mount, and the next backend removes its files.
func TestKilledDaemonLeavesNothing(t *testing.T) {
	h := newHost(t)
	h.backend(nil).Close()
	mounts := mountsOf(h.cfg.State)
	spec := h.spec("a")
	c := h.cfg
	config, err := json.Marshal(map[string]any{"Spec": spec, "Config": map[string]any{
		"Runsc": c.Runsc, "Python": c.Python, "Libraries": c.Libraries, "State": c.State, "Roots": c.Roots,
	}})
	if err != nil {
		t.Fatal(err)
	}
	var names []string // of the daemons
	rounds := 3
	if longtest.Enabled() {
		rounds = 20
	}
	for round := range rounds {
		killDaemon(t, string(config))
		for end := time.Now().Add(10 * time.Second); ; time.Sleep(10 * time.Millisecond) {
			left := processesOf(h.cfg.State)
			if left == "" {
				break
			}
			if time.Now().After(end) {
				t.Fatalf("round %d: a process is left: %s", round, left)
			}
		}
		dirs, _ := filepath.Glob(filepath.Join(h.cfg.State, "gv-??????"))
		for _, dir := range dirs {
			names = append(names, filepath.Base(dir))
		}
		if now := mountsOf(h.cfg.State); now != mounts {
			t.Fatalf("round %d: the host's mounts changed: %s", round, now)
		}
	}
	h.backend(nil).Close()
	if files, _ := filepath.Glob(filepath.Join(h.cfg.State, "*")); len(files) > 0 {
		t.Errorf("files are left in the state directory: %v", files)
	}
	if left := cgroupsOf(names); len(names) < rounds || len(left) > 0 {
		t.Errorf("cgroups of the daemons %v are left: %v", names, left)
	}
}

// cgroupsOf returns the cgroups with one of names.
func cgroupsOf(names []string) []string {
	var found []string
	_ = filepath.WalkDir("/sys/fs/cgroup", func(path string, e fs.DirEntry, err error) error {
		if err == nil && e.IsDir() && slices.Contains(names, e.Name()) {
			found = append(found, path)
		}
		return nil
	})
	return found
}

// killDaemon starts a daemon and kills it within half a second after its first sandbox.
func killDaemon(t *testing.T, config string) {
	cmd := exec.Command("/proc/self/exe")
	cmd.Env = append(os.Environ(), "GVISOR_TEST_DAEMON="+config)
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer cmd.Wait()
	defer cmd.Process.Kill()
	if _, err := out.Read(make([]byte, 1)); err != nil {
		t.Fatal(err)
	}
	time.Sleep(rand.N(500 * time.Millisecond)) // any moment of its work
}

// processesOf describes processes of runsc with a directory among their arguments.
func processesOf(dir string) string {
	lines, _ := filepath.Glob("/proc/[0-9]*/cmdline")
	for _, file := range lines {
		line := strings.ReplaceAll(read(file), "\x00", " ")
		if strings.Contains(line, dir) && strings.Contains(line, "--root=") {
			return file + ": " + line
		}
	}
	return ""
}

// mountsOf returns the mounts of this host, without those in the temporary directories of other tests,
// which run at the same time.
func mountsOf(state string) string {
	others := filepath.Join(os.TempDir(), "Test")
	var b strings.Builder
	for line := range strings.Lines(read("/proc/self/mountinfo")) {
		if !strings.Contains(line, others) || strings.Contains(line, state) {
			b.WriteString(line)
		}
	}
	return b.String()
}

func read(file string) string {
	b, _ := os.ReadFile(file)
	return string(b)
}
