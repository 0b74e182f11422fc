package packaging_test

import (
	"context"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/sandpiper-mcp/sandpiper/internal/longtest"
)

// built is the directory of the programs, "" until a test needs them.
var built string

func TestMain(m *testing.M) {
	code := m.Run()
	if built != "" {
		os.RemoveAll(built)
	}
	os.Exit(code)
}

// programs builds sandpiper and calls once for all tests, and returns their directory. It
// builds without -trimpath, which would compile all dependencies again.
func programs(t *testing.T) string {
	t.Helper()
	if built != "" {
		return built
	}
	dir, err := os.MkdirTemp("/var/tmp", "sandpiper-packaging-")
	if err == nil {
		built, err = dir, os.Chmod(dir, 0o755)
	}
	if err != nil {
		t.Fatal(err)
	}
	build := exec.Command("go", "build", "-ldflags", "-s -w", "-o", dir, "../cmd/sandpiper", "./testdata/calls")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	return built
}

// need skips the test if a program is missing, or fails it if variable is set.
func need(t *testing.T, variable, program string) {
	t.Helper()
	_, err := exec.LookPath(program)
	switch {
	case err == nil && os.Getuid() == 0:
	case os.Getenv(variable) != "":
		t.Fatalf("%s is set, but %s is not installed, or this is not root", variable, program)
	default:
		t.Skipf("%s, as root, is needed", program)
	}
}

func readUnit(t *testing.T) string {
	t.Helper()
	b, err := os.ReadFile("sandpiper.service")
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// The service and the container allow the same system calls.
func TestServiceAllowsTheCallsOfTheProfile(t *testing.T) {
	var profile struct{ Syscalls []struct{ Names []string } }
	b, err := os.ReadFile("seccomp.json")
	if err == nil {
		err = json.Unmarshal(b, &profile)
	}
	if err != nil {
		t.Fatal(err)
	}
	var want []string
	for _, s := range profile.Syscalls {
		want = append(want, s.Names...)
	}
	_, list, _ := strings.Cut(strings.ReplaceAll(readUnit(t), "\\\n", ""), "SystemCallFilter=")
	list, _, _ = strings.Cut(list, "\n")
	got := strings.Fields(list)
	slices.Sort(want)
	slices.Sort(got)
	if !slices.Equal(slices.Compact(want), got) {
		t.Errorf("the profile allows\n%v\nthe service\n%v", want, got)
	}
}

func TestServiceExposure(t *testing.T) {
	need(t, "REQUIRE_SYSTEMD", "systemd-analyze")
	out, err := exec.Command("systemd-analyze", "security", "--offline=true", "--threshold=27", "--no-pager", "sandpiper.service").
		CombinedOutput()
	if err != nil {
		t.Errorf("%v\n%s", err, out)
	}
}

// machine is a directory with the files of a system that systemd starts in a container.
type machine struct {
	t   *testing.T
	dir string
}

func (m machine) write(name, text string) string {
	m.t.Helper()
	path := filepath.Join(m.dir, name)
	err := os.MkdirAll(filepath.Dir(path), 0o755)
	if err == nil {
		err = os.WriteFile(path, []byte(text), 0o644)
	}
	if err != nil {
		m.t.Fatal(err)
	}
	return path
}

// result returns what check.sh left in a file.
func (m machine) result(name string) string {
	m.t.Helper()
	b, err := os.ReadFile(filepath.Join(m.dir, "results", name))
	if err != nil {
		m.t.Error(err)
	}
	return string(b)
}

// boot starts systemd as process 1 with the host's /usr, read-only, and waits until check.sh has run.
func (m machine) boot(files map[string]string) {
	m.t.Helper()
	args := []string{"--quiet", "--directory=/", "--volatile=yes", "--boot", "--register=no", "--keep-unit",
		"--machine=" + filepath.Base(m.dir),
		"--system-call-filter=landlock_create_ruleset landlock_add_rule landlock_restrict_self", // not in the list of this nspawn
		"--bind=" + filepath.Join(m.dir, "results") + ":/results"}
	for at, from := range files {
		args = append(args, "--bind-ro="+from+":"+at)
	}
	ctx, cancel := context.WithTimeout(m.t.Context(), 2*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, "systemd-nspawn", append(args, "systemd.firstboot=no", "systemd.unit=check.service")...)
	cmd.Env = append(os.Environ(), "SYSTEMD_NSPAWN_UNIFIED_HIERARCHY=1")
	if out, err := cmd.CombinedOutput(); err != nil {
		m.t.Fatalf("%v\n%s", err, out)
	}
}

// The unit runs under a real systemd: it becomes ready, executes code with full isolation, reloads,
// answers the watchdog and stops.
func TestService(t *testing.T) {
	longtest.SkipSlow(t)
	need(t, "REQUIRE_SYSTEMD", "systemd-nspawn")
	m := machine{t, filepath.Join("/var/tmp", "sandpiper-"+strings.ToLower(t.Name())+time.Now().Format("150405.000"))}
	if err := os.MkdirAll(filepath.Join(m.dir, "results"), 0o755); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(m.dir) })
	unit := strings.Replace(readUnit(t), "WatchdogSec=30", "WatchdogSec=1", 1)
	doctor := regexp.MustCompile(`(?m)^ExecStart=.*$`).ReplaceAllString(unit,
		"ExecStart=/usr/local/bin/sandpiper doctor --json\nStandardOutput=file:/results/doctor")
	doctor = regexp.MustCompile(`(?m)^(Type=notify|Restart=.*|WatchdogSec=.*)$`).ReplaceAllString(doctor, "")
	check, err := os.ReadFile("testdata/check.sh")
	if err != nil {
		t.Fatal(err)
	}
	m.boot(map[string]string{
		"/usr/local/bin":                        programs(t),
		"/etc/sandpiper/sandpiper.yaml":         m.write("sandpiper.yaml", "http: {sse: false}\n"),
		"/etc/sysusers.d/sandpiper.conf":        m.write("sysusers", "u sandpiper - Sandpiper /var/lib/sandpiper\n"),
		"/etc/systemd/system/sandpiper.service": m.write("service", unit),
		"/etc/systemd/system/doctor.service": m.write("doctor.service",
			strings.Replace(doctor, "[Service]\n", "[Service]\nType=oneshot\n", 1)),
		"/etc/systemd/system/check.service": m.write("check.service",
			"[Unit]\nAfter=basic.target\n[Service]\nType=oneshot\nExecStart=/bin/sh /check.sh\nExecStopPost=/bin/systemctl poweroff "+
				"--no-block\n"),
		"/check.sh": m.write("check.sh", string(check)),
	})
	for name, want := range map[string]string{
		"started": "", "ready": "ready\n", "reloaded": "active\n", "alive": "NRestarts=0\nActiveState=active\nSubState=running\n",
		"stopped": "Result=success\nActiveState=inactive\n",
		"files":   "sandpiper 700 /var/lib/sandpiper\nsandpiper 600 /var/lib/sandpiper/key\nsandpiper 700 /var/cache/sandpiper\n",
	} {
		if got := m.result(name); got != want {
			t.Errorf("%s: %q, want %q", name, got, want)
		}
	}
	if got := m.result("execution"); !strings.Contains(got, `\"result\":42`) {
		t.Errorf("the execution: %s", got)
	}
	checkReport(t, []byte(m.result("doctor")))
	if t.Failed() {
		t.Log(m.result("journal"))
	}
}
