// Package examples_test runs the examples as their READMEs do, and compares the output.
package examples_test

import (
	"bytes"
	"flag"
	"maps"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/sandpiper-mcp/sandpiper/internal/longtest"
	"github.com/sandpiper-mcp/sandpiper/internal/mcpserver/wire/wiretest"
)

var update = flag.Bool("update", false, "write the output of the examples into their READMEs, with LONG_TESTS=1 of all forms")

// TestExamples runs each example in one of its three forms, and as a long test in all.
func TestExamples(t *testing.T) {
	longtest.SkipSlow(t)
	if runtime.GOOS != "linux" {
		t.Skip("examples run in the sandbox, which needs Linux")
	}
	dirs, err := filepath.Glob("0*")
	if err != nil || len(dirs) != 7 {
		t.Fatalf("the examples are %q, %v", dirs, err)
	}
	forms, packages := map[string][]string{}, []string{"../cmd/sandpiper", "./servers/..."}
	for n, dir := range dirs {
		forms[dir] = []string{"", "go", "python"}
		if !longtest.Enabled() {
			forms[dir] = forms[dir][n%3 : n%3+1]
		}
		if slices.Contains(forms[dir], "go") {
			packages = append(packages, "./"+dir)
		}
	}
	env := build(t, packages)
	for _, dir := range dirs {
		t.Run(dir, func(t *testing.T) {
			t.Parallel()
			env := env
			if config, err := os.ReadFile(filepath.Join(dir, "sandpiper.yaml")); err != nil {
				t.Fatal(err)
			} else if bytes.Contains(config, []byte("npx")) {
				modules := wiretest.Installed(t, "@modelcontextprotocol/server-filesystem", "@modelcontextprotocol/server-memory")
				env = append(slices.Clip(env), "MCP_CLIENTS="+string(modules), "npm_config_offline=true")
			}
			check(t, dir, forms[dir], env)
		})
	}
	t.Run("orders", func(t *testing.T) { // the first command of the project's README
		t.Parallel()
		cmd := exec.CommandContext(t.Context(), "sh", "-c", `"$EXAMPLES_BIN/sandpiper" exec --file orders/large_dataset.json `+
			`orders/summary.py`)
		cmd.Env = append(slices.Clip(env), "XDG_DATA_HOME="+t.TempDir())
		if out, err := cmd.CombinedOutput(); err != nil || !strings.HasPrefix(string(out), "10,000 orders read, 3,510 of them active\n") {
			t.Errorf("%v\n%s", err, out)
		}
	})
}

// build builds programs of the examples, and returns the environment to run them.
func build(t *testing.T, packages []string) []string {
	t.Helper()
	bin, home := t.TempDir(), t.TempDir()
	if out, err := exec.Command("go", slices.Concat([]string{"build", "-ldflags=-s -w", "-o", bin}, packages)...).
		CombinedOutput(); err != nil {
		t.Fatalf("go build: %v\n%s", err, out)
	}
	env := append(os.Environ(), "EXAMPLES_BIN="+bin, "HOME="+home, "XDG_CACHE_HOME="+home+"/cache", "XDG_CONFIG_HOME="+home+"/config")
	probe := exec.Command(filepath.Join(bin, "sandpiper"), "exec", "-c", "1") // also unpacks Python, once for all
	probe.Env = append(slices.Clip(env), "XDG_DATA_HOME="+home+"/data")
	if out, err := probe.CombinedOutput(); err != nil {
		if os.Getenv("REQUIRE_SANDBOX") != "" {
			t.Fatalf("code cannot be executed here: %s", out)
		}
		t.Skipf("code cannot be executed here: %s", out)
	}
	return env
}

// console is a session in a README; its groups are the example, the form and the output.
var console = regexp.MustCompile("(?s)```console\n\\$ examples/run (\\w+)([^\n]*)\n(.*?)```")

// check runs forms of an example. A session for Go is also that of the Python program, unless that
// has its own.
func check(t *testing.T, dir string, run, env []string) {
	readme := filepath.Join(dir, "README.md")
	text, err := os.ReadFile(readme)
	if err != nil {
		t.Fatal(err)
	}
	want, header := map[string]string{}, map[string]string{}
	for _, m := range console.FindAllStringSubmatch(string(text), -1) {
		form, _, _ := strings.Cut(m[2], "#")
		if m[1] != dir {
			t.Errorf("%s runs %s", readme, m[1])
		}
		form = strings.TrimSpace(form)
		want[form], header[form] = m[3], strings.TrimSuffix(m[0], m[3]+"```")
	}
	if forms := slices.Sorted(maps.Keys(want)); !slices.Equal(forms, []string{"", "go"}) && !slices.Equal(forms,
		[]string{"", "go", "python"}) {
		t.Fatalf("%s has sessions of the forms %q", readme, forms)
	}
	for _, form := range run {
		got := runExample(t, dir, form, env)
		expected, own := want[form]
		if !own {
			expected = want["go"]
		}
		if *update && own {
			text = bytes.Replace(text, []byte(header[form]+expected+"```"), []byte(header[form]+got+"```"), 1)
			if err := os.WriteFile(readme, text, 0o644); err != nil {
				t.Fatal(err)
			}
			want[form] = got
		} else if d := cmp.Diff(strings.Split(expected, "\n"), strings.Split(got, "\n"), cmp.Comparer(same)); d != "" {
			t.Errorf("examples/run %s %s prints not what its README says (-want +got):\n%s", dir, form, d)
		}
	}
}

func runExample(t *testing.T, dir, form string, env []string) string {
	t.Helper()
	args := []string{dir}
	if form != "" {
		args = append(args, form)
	}
	cmd := exec.CommandContext(t.Context(), "./run", args...)
	cmd.Env = env
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	if err := cmd.Run(); err != nil {
		t.Fatalf("examples/run %s %s: %v\n%s%s", dir, form, err, stdout.Bytes(), stderr.Bytes())
	}
	return stdout.String()
}

var (
	number  = regexp.MustCompile(`-?\d+(\.\d+)?`)
	percent = regexp.MustCompile(`^ ?%`)
)

// same compares two lines. Numbers of tokens depend a little on the ids in answers, so that they may
// differ by 3 %, and percentages by 1.
func same(a, b string) bool {
	if !strings.Contains(a, "token") || number.ReplaceAllString(a, "0") != number.ReplaceAllString(b, "0") {
		return a == b
	}
	x, y := number.FindAllStringIndex(a, -1), number.FindAllStringIndex(b, -1)
	for i := range x {
		m, _ := strconv.ParseFloat(a[x[i][0]:x[i][1]], 64)
		n, _ := strconv.ParseFloat(b[y[i][0]:y[i][1]], 64)
		limit := 0.03 * max(m, n)
		if percent.MatchString(a[x[i][1]:]) {
			limit = 1
		}
		if math.Abs(m-n) > limit {
			return false
		}
	}
	return true
}

func TestSameAllowsSmallDifferencesOfTokens(t *testing.T) {
	const line = "tokens: 4205 instead of 4159, -1.1% saved"
	for other, want := range map[string]bool{
		line: true,
		"tokens: 4220 instead of 4159, -1.5% saved": true,
		"tokens: 4130 instead of 4159, 0.7% saved":  false,
		"tokens: 4170 instead of 4159, -0.3% saved": true,
		"tokens: 4700 instead of 4159, -1.1% saved": false,
		"tokens: 4205 instead of 4159, -1.1 saved":  false,
	} {
		if same(line, other) != want {
			t.Errorf("%q: want %v", other, want)
		}
	}
	if same("tools: 5 of 14, 36%", "tools: 5 of 14, 37%") {
		t.Error("a line without tokens differs")
	}
}
