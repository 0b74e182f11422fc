package process

import (
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// TestDerive is no test but the tool behind docs/seccomp.md: it traces loads
// outside the sandbox and compares the calls they make with the lists. It runs
// where DERIVE_SECCOMP names the loads: "load", and modules of CPython's tests.
// OTHER_PACKAGES names a directory with packages for the load to use.
func TestDerive(t *testing.T) {
	loads := strings.Fields(os.Getenv("DERIVE_SECCOMP"))
	if len(loads) == 0 {
		t.Skip("DERIVE_SECCOMP names no load")
	}
	p := newRegress(t).place("derive")
	p.copy("testdata/load.py", "load.py")
	rules, numbers := workerRules(), callNumbers(t)
	used := map[string]map[string]int{} // call to load to count
	for _, load := range loads {
		args := []string{"run.py", load + ".log", regressSeconds, load}
		if load == "load" {
			args = []string{"load.py"}
		}
		for call, n := range p.trace(args) {
			if used[call] == nil {
				used[call] = map[string]int{}
			}
			used[call][load] = n
		}
	}
	var report strings.Builder
	section := func(title string, wanted bool, classes ...string) {
		fmt.Fprintf(&report, "\n%s\n", title)
		for _, call := range slices.Sorted(maps.Keys(numbers)) {
			class := classOf(rules, numbers[call])
			if slices.Contains(classes, class) && (len(used[call]) > 0) == wanted {
				fmt.Fprintf(&report, "  %-24s %-10s %v\n", call, class, used[call])
			}
		}
	}
	section("called, in no list:", true, "unlisted")
	section("called, refused or unlisted on purpose:", true, "refused", "falls back")
	section("called and allowed:", true, "allowed", "checked")
	section("allowed, called by no load:", false, "allowed", "checked")
	t.Log(report.String())
}

func classOf(rules map[int]rule, nr int) string {
	r, listed := rules[nr]
	switch {
	case !listed:
		return "unlisted"
	case len(r.when) > 0:
		return "checked"
	case r.otherwise == allow:
		return "allowed"
	case r.otherwise == absent:
		return "falls back"
	}
	return "refused"
}

// trace counts the system calls of an interpreter outside and its children.
func (p place) trace(args []string) map[string]int {
	p.t.Helper()
	log := filepath.Join(p.other, "strace")
	args = append([]string{"-f", "-c", "-U", "calls,name", "-o", log, filepath.Join(p.cfg.Python, "bin/python3.14")}, args...)
	cmd := exec.CommandContext(p.t.Context(), "strace", args...)
	p.outside(cmd)
	cmd.Env = append(cmd.Env, "PYTHONPATH="+os.Getenv("OTHER_PACKAGES"))
	if out, err := cmd.CombinedOutput(); err != nil {
		p.t.Errorf("strace %v: %v: %s", args, err, out)
	}
	table, err := os.ReadFile(log)
	if err != nil {
		p.t.Fatal(err)
	}
	counts := map[string]int{}
	for _, m := range regexp.MustCompile(`(?m)^ *(\d+) +([a-z0-9_]+)$`).FindAllStringSubmatch(string(table), -1) {
		if m[2] != "total" {
			counts[m[2]], _ = strconv.Atoi(m[1])
		}
	}
	return counts
}

// callNumbers reads what every system call of this architecture is called.
func callNumbers(t *testing.T) map[string]int {
	t.Helper()
	dir, err := exec.CommandContext(t.Context(), "go", "list", "-f", "{{.Dir}}", "golang.org/x/sys/unix").Output()
	if err != nil {
		t.Fatal(err)
	}
	source, err := os.ReadFile(filepath.Join(strings.TrimSpace(string(dir)), "zsysnum_linux_"+runtime.GOARCH+".go"))
	if err != nil {
		t.Fatal(err)
	}
	numbers := map[string]int{}
	for _, m := range regexp.MustCompile(`SYS_(\w+) += (\d+)`).FindAllStringSubmatch(string(source), -1) {
		numbers[strings.ToLower(m[1])], _ = strconv.Atoi(m[2])
	}
	return numbers
}
