package main

import (
	"fmt"
	"os"
	"path/filepath"
	"runtime/debug"
	"slices"
	"strings"
	"syscall"
	"testing"
)

// statusOf returns the fields of a /proc/PID/status file.
func statusOf(t *testing.T, file string) map[string]string {
	t.Helper()
	b, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	fields := map[string]string{}
	for line := range strings.Lines(string(b)) {
		k, v, _ := strings.Cut(line, ":")
		fields[k] = strings.TrimSpace(v)
	}
	return fields
}

// children returns the processes that pid started, by the first word of their command lines.
func children(t *testing.T, pid int) map[string]int {
	t.Helper()
	found := map[string]int{}
	lists, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/children", pid))
	for _, list := range lists {
		b, _ := os.ReadFile(list)
		for child := range strings.FieldsSeq(string(b)) {
			var n int
			_, _ = fmt.Sscan(child, &n)
			line, _ := os.ReadFile("/proc/" + child + "/cmdline")
			name, _, _ := strings.Cut(string(line), "\x00")
			found[filepath.Base(name)] = n
		}
	}
	return found
}

// A daemon as root has only the capabilities that it uses, in every thread and in the servers that it
// starts, and everything that uses them works: workspaces of two tenants, a new keeper, a reload.
func TestDaemonDropsCapabilities(t *testing.T) {
	t.Parallel()
	needSandbox(t)
	if os.Geteuid() != 0 || statusOf(t, "/proc/self/status")["CapEff"] == "0000000000000000" {
		if os.Getenv("REQUIRE_ROOT") != "" {
			t.Fatal("REQUIRE_ROOT is set, and this is not root with capabilities")
		}
		t.Skip("only root has capabilities")
	}
	if info, ok := debug.ReadBuildInfo(); ok && slices.Contains(info.Settings, debug.BuildSetting{Key: "CGO_ENABLED", Value: "1"}) {
		t.Skip("a program that is built with cgo keeps its capabilities")
	}
	const alices, bobs = "alice-has-a-long-token", "bob-has-a-token-as-well"
	config := fmt.Sprintf("servers:\n%shttp: {tokens: {alice: %s, bob: %s}}\n",
		strings.ReplaceAll(calculator, "$SERVERS", exampleServers(t)), alices, bobs)
	d := startServing(t, "", config)
	alice, bob := d.visit("Authorization", "Bearer "+alices), d.visit("Authorization", "Bearer "+bobs)
	works := func(when string) {
		t.Helper()
		for name, v := range map[string]*visitor{"alice": alice, "bob": bob} {
			code := "from servers.calculator import add\nopen('a.txt', 'w').write('1')\nresult = add(a=40, b=2)['result']"
			if r := v.run("", code); string(r.Result) != "42" {
				t.Errorf("%s, %s: %+v", when, name, r)
			}
		}
	}
	works("at first")
	keeper, server := children(t, d.pid)["sandpiper-sandbox-keeper"], children(t, d.pid)["calculator"]
	if keeper == 0 || server == 0 {
		t.Fatalf("the daemon's processes: %v", children(t, d.pid))
	}
	var ours uint64 // in a container, root may lack some
	if _, err := fmt.Sscanf(statusOf(t, "/proc/self/status")["CapPrm"], "%x", &ours); err != nil {
		t.Fatal(err)
	}
	want := fmt.Sprintf("%016x", servingCapabilities&ours)
	files, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/status", d.pid))
	for _, file := range append(files, fmt.Sprintf("/proc/%d/status", server)) {
		got := statusOf(t, file)
		for set, want := range map[string]string{"CapPrm": want, "CapEff": want, "CapBnd": want, "CapInh": "0000000000000000",
			"CapAmb": "0000000000000000"} {
			if got[set] != want {
				t.Errorf("%s: %s is %s, want %s", file, set, got[set], want)
			}
		}
	}
	d.mayFail = true // calls during the end of the keeper
	if err := syscall.Kill(keeper, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	works("after the keeper was killed")
	d.reload(config+"log: {level: debug}\n", "configuration")
	works("after a reload")
}
