package main

import (
	"cmp"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/sandpiper-mcp/sandpiper/internal/longtest"
)

const pythonClient = "../../clients/python"

// python3 returns the path of Python 3.10 or newer.
func python3(t *testing.T) string {
	t.Helper()
	path, err := exec.LookPath("python3")
	if err == nil {
		err = exec.Command(path, "-c", "import sys; sys.exit(sys.version_info < (3, 10))").Run()
	}
	if err != nil {
		if os.Getenv("REQUIRE_CLIENTS") != "" {
			t.Fatalf("Python 3.10 or newer is needed, and REQUIRE_CLIENTS is set: %v", err)
		}
		t.Skipf("Python 3.10 or newer is needed: %v", err)
	}
	return path
}

// TestPythonClient runs the tests of the Python client with this program, and the
// servers of the examples.
func TestPythonClient(t *testing.T) {
	longtest.SkipSlow(t)
	needSandbox(t)
	python := python3(t)
	program, servers := selfAsSandpiper(t), exampleServers(t)
	source, err := filepath.Abs(pythonClient)
	if err != nil {
		t.Fatal(err)
	}
	for _, module := range []string{"test_client", "test_areas", "test_compat", "test_compat_lifetime"} {
		t.Run(module, func(t *testing.T) {
			t.Parallel()
			cmd := exec.CommandContext(t.Context(), python, "-W", "error", "-m", "unittest", "-v", module)
			cmd.Dir = t.TempDir()
			cmd.Env = append(os.Environ(), "PYTHONDONTWRITEBYTECODE=1", "PYTHONUTF8=1", "HOME="+t.TempDir(), "XDG_CONFIG_HOME="+t.TempDir(),
				"XDG_DATA_HOME="+t.TempDir(),
				"PYTHONPATH="+filepath.Join(source, "src")+":"+filepath.Join(source, "tests"), "SANDPIPER="+program,
				"EXAMPLE_SERVERS="+servers)
			out, err := cmd.CombinedOutput()
			if err != nil {
				t.Errorf("%v\n%s", err, out)
			}
		})
	}
}

// selfAsSandpiper returns the path of the program. The test binary is it under this name.
func selfAsSandpiper(t *testing.T) string {
	t.Helper()
	path, err := exec.LookPath("sandpiper") // testscript puts it in PATH
	if err != nil {
		t.Fatal(err)
	}
	return path
}

func TestMypyAcceptsPythonClient(t *testing.T) {
	mypy, err := exec.LookPath(cmp.Or(os.Getenv("MYPY"), "mypy"))
	if err != nil {
		if os.Getenv("REQUIRE_MYPY") != "" {
			t.Fatal("mypy not found, and REQUIRE_MYPY is set: set MYPY to its path")
		}
		t.Skip("mypy not found: install it or set MYPY to its path")
	}
	for _, version := range []string{"3.10", "3.14"} {
		cmd := exec.Command(mypy, "--strict", "--python-version", version, "--no-error-summary", "--cache-dir", t.TempDir(), "src", "tests")
		cmd.Dir = pythonClient
		cmd.Env = append(os.Environ(), "PYTHONUTF8=1", "MYPYPATH=src:tests")
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Errorf("%s: %v\n%.4000s", version, err, out)
		}
	}
}

// TestPythonClientInstalls builds the wheel and installs it into a new virtual
// environment. The build needs the network, so the test runs only with REQUIRE_PACKAGES.
func TestPythonClientInstalls(t *testing.T) {
	longtest.SkipSlow(t)
	if os.Getenv("REQUIRE_PACKAGES") == "" {
		t.Skip("REQUIRE_PACKAGES is not set")
	}
	needSandbox(t)
	python := python3(t)
	dir := t.TempDir()
	run := func(name string, args ...string) string {
		t.Helper()
		cmd := exec.CommandContext(t.Context(), name, args...)
		cmd.Dir = dir
		cmd.Env = append(os.Environ(), "PIP_DISABLE_PIP_VERSION_CHECK=1")
		out, err := cmd.CombinedOutput()
		if err != nil {
			t.Fatalf("%s %q: %v\n%s", name, args, err, out)
		}
		return string(out)
	}
	source := filepath.Join(dir, "source") // the build writes next to the source
	if err := os.CopyFS(source, os.DirFS(pythonClient)); err != nil {
		t.Fatal(err)
	}
	run(python, "-m", "venv", "env")
	pip := filepath.Join(dir, "env/bin/pip")
	run(pip, "wheel", "--quiet", "--no-deps", "--wheel-dir", "wheels", source)
	run(pip, "install", "--quiet", "--no-index", "--find-links", "wheels", "sandpiper-mcp")
	code := "import os, sys, sandpiper; from sandpiper.compat import ExecutionConfig, SandboxExecutor\n" +
		"with sandpiper.Sandpiper(binary=sys.argv[1], data_dir='data') as s: print(s.execute('6 * 7').result)\n" +
		"os.environ['SANDPIPER'] = sys.argv[1]\nprint(SandboxExecutor(ExecutionConfig(workspace_dir='workspaces/ada')).execute('print(5 " +
		"+ 3)').output)"
	if out := run(filepath.Join(dir, "env/bin/python"), "-c", code, selfAsSandpiper(t)); out != "42\n8\n" {
		t.Errorf("the installed client prints %q", out)
	}
	if typed, err := filepath.Glob(filepath.Join(dir, "env/lib/python3*/site-packages/sandpiper/py.typed")); len(typed) != 1 || err != nil {
		t.Errorf("py.typed is in %q, %v", typed, err)
	}
}
