package codegen_test

import (
	"cmp"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"testing"

	"github.com/sandpiper-mcp/sandpiper/internal/longtest"
	"github.com/sandpiper-mcp/sandpiper/internal/tool"
	"github.com/sandpiper-mcp/sandpiper/internal/tool/codegen"
)

func TestModuleNamesAreValidPython(t *testing.T) {
	var names []string
	for r := rune(0x80); r <= 0xFFFF; r++ {
		names = append(names, string(r), "a"+string(r))
	}
	var source strings.Builder
	for _, id := range tool.ModuleNames(names) {
		source.WriteString(id + "\n")
	}
	cmd := command(t, "-c", `
import sys, unicodedata
for name in sys.stdin.read().split("\n")[:-1]:
    if not name.isidentifier() or unicodedata.normalize("NFKC", name) != name:
        print(ascii(name))
`)
	cmd.Stdin = strings.NewReader(source.String())
	if out, err := cmd.CombinedOutput(); err != nil || len(out) > 0 {
		t.Errorf("%v: %s", err, out)
	}
}

func TestPythonImportsPackage(t *testing.T) {
	if got := runPython(t, "use.py", "testdata/golden", "testdata"); got != "ok\n" {
		t.Error(got)
	}
}

func TestModulesRun(t *testing.T) {
	t.Run("diverse", func(t *testing.T) { runModules(t, diverse(t)) })
	t.Run("captured", func(t *testing.T) { runModules(t, capturedServers(t)) })
}

// runModules imports all modules and calls each function.
func runModules(t *testing.T, servers []codegen.Server) {
	want := 0
	for _, s := range servers {
		want += len(s.Tools)
		checkSyntax(t, s)
	}
	got := runPython(t, "every.py", inDir(t, servers), "testdata")
	if n, _ := strconv.Atoi(strings.TrimSpace(got)); n != want {
		t.Errorf("%s tools ran, want %d", strings.TrimSpace(got), want)
	}
}

func TestModulesOfHostileSchemasHaveAllowedSyntax(t *testing.T) {
	longtest.SkipSlow(t)
	for name, schema := range hostileSchemas() {
		d := definition(schema)
		d.Output = d.Input
		t.Run(name, func(t *testing.T) { checkSyntax(t, codegen.Server{Name: "s", Tools: []tool.Definition{d}}) })
	}
}

// TestMypyAcceptsModules runs mypy in strict mode. The variable MYPY names the program;
// the default is mypy in PATH.
func TestMypyAcceptsModules(t *testing.T) {
	mypy, err := exec.LookPath(cmp.Or(os.Getenv("MYPY"), "mypy"))
	if err != nil {
		if os.Getenv("REQUIRE_MYPY") != "" {
			t.Fatal("mypy not found, and REQUIRE_MYPY is set: set MYPY to its path")
		}
		t.Skip("mypy not found: install it or set MYPY to its path")
	}
	t.Run("diverse", func(t *testing.T) { runMypy(t, mypy, diverse(t)) })
	t.Run("captured", func(t *testing.T) { runMypy(t, mypy, capturedServers(t)) })
}

func runMypy(t *testing.T, mypy string, servers []codegen.Server) {
	cmd := exec.Command(mypy, "--strict", "--python-version", "3.14", "--no-error-summary", "--cache-dir", t.TempDir(), ".")
	cmd.Dir = inDir(t, servers)
	cmd.Env = append(os.Environ(), "PYTHONUTF8=1")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Errorf("%v\n%.4000s", err, out)
	}
}
