package packaging_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/sandpiper-mcp/sandpiper/internal/logtest"
	"github.com/sandpiper-mcp/sandpiper/internal/longtest"
)

// image is the root directory of a container: the files of glibc. The program is mounted.
type image struct{ root string }

// newImage builds an image as the Containerfile does. Without crun, root or Debian it skips the
// test, or fails it if REQUIRE_CONTAINER is set.
func newImage(t *testing.T) image {
	t.Helper()
	need(t, "REQUIRE_CONTAINER", "crun")
	need(t, "REQUIRE_CONTAINER", "dpkg")
	libc, err := exec.Command("dpkg", "-L", "libc6").Output()
	if err != nil {
		t.Fatal(err)
	}
	i := image{t.TempDir()}
	for _, dir := range []string{"usr/local/bin", "tmp", "data", "proc", "dev", "sys", "etc"} {
		if err := os.MkdirAll(filepath.Join(i.root, dir), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	for path := range strings.Lines(string(libc)) {
		i.copy(t, strings.TrimSpace(path))
	}
	programs(t)
	return i
}

// copy copies a library or a symbolic link to one.
func (i image) copy(t *testing.T, path string) {
	t.Helper()
	if at, err := os.Stat(path); err != nil || at.IsDir() {
		return
	}
	info, err := os.Lstat(path)
	if err != nil || !strings.Contains(path, "lib") || strings.Contains(path, "/share/") {
		return
	}
	to := filepath.Join(i.root, path)
	if err := os.MkdirAll(filepath.Dir(to), 0o755); err != nil {
		t.Fatal(err)
	}
	if info.Mode()&os.ModeSymlink != 0 {
		target, err := os.Readlink(path)
		if err == nil {
			err = os.Symlink(target, to)
		}
		if err != nil {
			t.Fatal(err)
		}
		return
	}
	b, err := os.ReadFile(path)
	if err == nil {
		err = os.WriteFile(to, b, info.Mode().Perm())
	}
	if err != nil {
		t.Fatal(err)
	}
}

type object = map[string]any

// container returns a command that runs a program in a new container: uid 65532, a read-only root,
// no capabilities, no_new_privs, and the shipped profile unless unconfined.
func (i image) container(t *testing.T, unconfined bool, args ...string) *exec.Cmd {
	t.Helper()
	var seccomp any
	if !unconfined {
		b, err := os.ReadFile("seccomp.json")
		if err == nil {
			err = json.Unmarshal(b, &seccomp)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	none, tmpfs := []string{}, func(at, options string) object {
		return object{"destination": at, "type": "tmpfs", "source": "tmpfs",
			"options": append([]string{"nosuid"}, strings.Split(options, ",")...)}
	}
	linux := object{
		"namespaces": []object{{"type": "pid"}, {"type": "ipc"}, {"type": "uts"}, {"type": "mount"}}, // the network of the test
		"maskedPaths": []string{"/proc/acpi", "/proc/kcore", "/proc/keys", "/proc/latency_stats", "/proc/timer_list", "/proc/scsi",
			"/sys/firmware"},
		"readonlyPaths": []string{"/proc/bus", "/proc/fs", "/proc/irq", "/proc/sys", "/proc/sysrq-trigger"},
	}
	if seccomp != nil {
		linux["seccomp"] = seccomp
	}
	config, err := json.Marshal(object{
		"ociVersion": "1.0.0", "hostname": "sandpiper", "root": object{"path": i.root, "readonly": true}, "linux": linux,
		"process": object{
			"args": args, "cwd": "/", "user": object{"uid": 65532, "gid": 65532}, "noNewPrivileges": true,
			"env": []string{"PATH=/usr/local/bin", "HOME=/data", "XDG_DATA_HOME=/data", "XDG_CACHE_HOME=/data/cache",
				"SANDPIPER_HTTP_TOKEN=" + token},
			"capabilities": object{"bounding": none, "effective": none, "permitted": none},
		},
		"mounts": []object{
			{"destination": "/proc", "type": "proc", "source": "proc"},
			{"destination": "/usr/local/bin", "type": "bind", "source": programs(t), "options": []string{"bind", "ro"}},
			tmpfs("/dev", "mode=755"), tmpfs("/tmp", "nodev,mode=1777"), tmpfs("/data", "nodev,mode=700,uid=65532,gid=65532"),
		},
	})
	bundle := t.TempDir()
	if err == nil {
		err = os.WriteFile(filepath.Join(bundle, "config.json"), config, 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
	name := fmt.Sprintf("sandpiper-test-%d-%s", os.Getpid(), filepath.Base(filepath.Dir(bundle))+filepath.Base(bundle))
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	t.Cleanup(func() {
		cancel()
		_ = crun(context.Background(), "delete", "--force", name).Run()
	})
	return crun(ctx, "run", "--bundle", bundle, name)
}

// crun returns a command that runs crun. It gives crun version 2 of cgroups alone: crun does not
// start on a host that has both versions.
func crun(ctx context.Context, args ...string) *exec.Cmd {
	const script = `umount -R /sys/fs/cgroup && mount -t cgroup2 none /sys/fs/cgroup && exec crun --cgroup-manager=disabled "$@"`
	return exec.CommandContext(ctx, "unshare", append([]string{"--mount", "--propagation", "slave", "sh", "-c", script, "crun"},
		args...)...)
}

func output(t *testing.T, cmd *exec.Cmd) string {
	t.Helper()
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		t.Errorf("%v\n%s%s", err, out, &stderr)
	}
	return string(out)
}

const token = "token-in-a-container"

// Everything works in a container as docs/deploy.md starts it.
func TestContainerUnderProfile(t *testing.T) {
	longtest.SkipSlow(t)
	i := newImage(t)
	t.Run("doctor", func(t *testing.T) {
		checkReport(t, []byte(output(t, i.container(t, false, "sandpiper", "doctor", "--json"))))
	})
	t.Run("exec", func(t *testing.T) {
		if got := output(t, i.container(t, false, "sandpiper", "exec", "-c", "1+1")); got != "2\n" {
			t.Errorf("%q", got)
		}
	})
	t.Run("load", func(t *testing.T) { // every family of calls, as in the sandbox outside a container
		load, err := os.ReadFile("../internal/sandbox/process/testdata/load.py")
		if err != nil {
			t.Fatal(err)
		}
		got := map[bool]string{}
		for _, unconfined := range []bool{false, true} {
			cmd := i.container(t, unconfined, "sandpiper", "exec", "--timeout", "90s", "-")
			cmd.Stdin = bytes.NewReader(load)
			got[unconfined] = output(t, cmd)
		}
		if got[false] != got[true] {
			t.Errorf("under the profile:\n%s\nwithout it:\n%s", got[false], got[true])
		}
	})
	t.Run("serve", func(t *testing.T) { i.serve(t) })
}

// checkReport fails the test unless everything is enforced that needs neither cgroups nor root.
func checkReport(t *testing.T, text []byte) {
	t.Helper()
	var report struct {
		Backend string
		Working bool
		Layers  []struct{ Name, State, Detail string }
	}
	if err := json.Unmarshal(text, &report); err != nil {
		t.Fatalf("%v in %s", err, text)
	}
	if report.Backend != "process" || !report.Working || len(report.Layers) < 8 {
		t.Errorf("%+v", report)
	}
	const soft = "memory of all processes, share of the processors, own uid"
	for _, l := range report.Layers {
		if l.State != "enforced" && (l.State != "soft" || !strings.Contains(soft, l.Name)) {
			t.Errorf("%s is %s: %s", l.Name, l.State, l.Detail)
		}
	}
}

// serve runs code over HTTP in a container, and stops it.
func (i image) serve(t *testing.T) {
	cmd := i.container(t, false, "sandpiper", "serve", "--http", "127.0.0.1:0")
	var log logtest.Log
	cmd.Stderr = &log
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) }
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	url := ""
	for url == "" {
		if _, rest, ok := strings.Cut(log.String(), "MCP at "); ok {
			url, _, _ = strings.Cut(rest, "\n")
		}
		select {
		case err := <-ended:
			t.Fatalf("%v\n%s", err, &log)
		case <-time.After(50 * time.Millisecond):
		}
	}
	const call = `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"execute_code","arguments":{"code":"6*7"},"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{},"io.modelcontextprotocol/clientInfo":{"name":"t","version":"1"}}}}`
	r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, url, strings.NewReader(call))
	if err != nil {
		t.Fatal(err)
	}
	for name, value := range map[string]string{
		"Authorization": "Bearer " + token, "Content-Type": "application/json", "Accept": "application/json, text/event-stream",
		"Mcp-Protocol-Version": "2026-07-28", "Mcp-Method": "tools/call", "Mcp-Name": "execute_code",
	} {
		r.Header.Set(name, value)
	}
	res, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	if b, err := io.ReadAll(res.Body); err != nil || !strings.Contains(string(b), `\"result\":42`) {
		t.Errorf("%s %s %v", res.Status, b, err)
	}
	if err := cmd.Process.Signal(os.Interrupt); err != nil { // crun forwards it
		t.Error(err)
	}
	if err := <-ended; err != nil {
		t.Errorf("%v\n%s", err, &log)
	}
}

// The profile refuses calls that nothing in the container needs.
func TestProfileRefusesOtherCalls(t *testing.T) {
	longtest.SkipSlow(t)
	i := newImage(t)
	confined, open := output(t, i.container(t, false, "calls")), output(t, i.container(t, true, "calls"))
	seen, already := 0, 0
	for line := range strings.Lines(confined) {
		if seen++; !strings.HasSuffix(line, ": ENOSYS\n") {
			t.Errorf("under the profile: %s", line)
		}
	}
	already = strings.Count(open, ": ENOSYS\n") // the kernel lacks them
	if seen < 30 || already > seen/4 {
		t.Errorf("%d calls, of which %d are missing also without the profile:\n%s", seen, already, open)
	}
}
