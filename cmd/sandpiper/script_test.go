package main

import (
	"cmp"
	"context"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/sandpiper-mcp/sandpiper/cmd/sandpiper/testdata/ledger"
	"github.com/sandpiper-mcp/sandpiper/internal/cli"
	"github.com/sandpiper-mcp/sandpiper/internal/feature"
	"github.com/sandpiper-mcp/sandpiper/internal/feature/all"
	"github.com/sandpiper-mcp/sandpiper/internal/feature/oauth/oauthtest"
	"github.com/sandpiper-mcp/sandpiper/internal/feature/openapi/openapi/openapitest"
	"github.com/sandpiper-mcp/sandpiper/internal/feature/task/model/modeltest"
	"github.com/sandpiper-mcp/sandpiper/internal/longtest"
	"github.com/sandpiper-mcp/sandpiper/internal/upstream/upstreamtest"
)

func TestMain(m *testing.M) {
	upstreamtest.Main()
	testscript.Main(tests{m}, map[string]func(){"sandpiper": programOfTests, "moody": moody, "ledger": ledger.Main})
}

// tests runs all tests with one unpacked Python.
type tests struct{ *testing.M }

func (m tests) Run() int {
	dir, err := os.MkdirTemp("", "sandpiper-test-")
	if err != nil {
		panic(err)
	}
	defer os.RemoveAll(dir)
	keepGoCache()
	for _, name := range []string{"cache", "data", "config"} {
		os.Setenv("XDG_"+strings.ToUpper(name)+"_HOME", filepath.Join(dir, name))
	}
	buildServers = goBuild(filepath.Join(dir, "servers"), "../../examples/servers/...")
	buildSandpiper = goBuild(filepath.Join(dir, "sandpiper"), ".")
	limitProcess = func(uint64) error { return nil }
	// Most tests wait for other programs. The command line takes precedence, as it is
	// parsed later.
	flag.Set("test.parallel", strconv.Itoa(max(4, runtime.GOMAXPROCS(0))))
	return m.M.Run()
}

// buildServers and buildSandpiper build on the first call and return the path of the
// result.
var buildServers, buildSandpiper func() (string, error)

// goBuild returns a function that builds packages to out, a file for one command and a
// directory for several.
func goBuild(out, packages string) func() (string, error) {
	return sync.OnceValues(func() (string, error) {
		if strings.HasSuffix(packages, "...") {
			if err := os.Mkdir(out, 0o755); err != nil {
				return "", err
			}
		}
		if said, err := exec.Command("go", "build", "-o", out, packages).CombinedOutput(); err != nil {
			return "", fmt.Errorf("go build %s: %v\n%s", packages, err, said)
		}
		return out, nil
	})
}

// keepGoCache sets GOCACHE to its current default, as TestMain changes the cache
// directory.
func keepGoCache() {
	if dir, err := os.UserCacheDir(); err == nil && os.Getenv("GOCACHE") == "" {
		os.Setenv("GOCACHE", filepath.Join(dir, "go-build"))
	}
}

// TestScripts runs the scripts in testdata/script, which also document the commands. A
// script with [!sandbox] skip needs a machine that can execute code.
func TestScripts(t *testing.T) {
	p := scriptParams(t)
	p.Dir = filepath.Join("testdata", "script")
	testscript.Run(t, p)
}

// withoutFeature is the variable that names a feature which the program of tests does not have.
const withoutFeature = "TEST_WITHOUT_FEATURE"

// programOfTests is the program, with all features but one.
func programOfTests() {
	runProcess(slices.DeleteFunc(all.Features(), func(f feature.Feature) bool { return f.Name == os.Getenv(withoutFeature) }))
}

// Without a feature the rest of the program works. A script of the feature states what is missing. One
// script of the core, another for each feature, shows the rest, and all of them if slow tests run.
func TestFeaturesCanBeLeftOut(t *testing.T) {
	rest := []string{"exec", "exec_files", "files", "servers", "session", "tenant"}
	for i, f := range all.Features() {
		core := rest
		if i %= len(rest); !longtest.Slow() {
			core = rest[i : i+1]
		}
		t.Run(f.Name, func(t *testing.T) {
			p := scriptParams(t)
			p.Files = []string{filepath.Join("testdata", "without", f.Name+".txtar")}
			for _, name := range core {
				p.Files = append(p.Files, filepath.Join("testdata", "script", name+".txtar"))
			}
			setup := p.Setup
			p.Setup = func(e *testscript.Env) error {
				e.Setenv(withoutFeature, f.Name)
				return setup(e)
			}
			testscript.Run(t, p)
		})
	}
}

// scriptParams returns how scripts are run.
func scriptParams(t *testing.T) testscript.Params {
	servers := exampleServers(t)
	document, err := filepath.Abs("../../internal/feature/openapi/openapi/testdata/github.json")
	if err != nil {
		t.Fatal(err)
	}
	api := openapitest.Serve(t, document, "sesame-open")
	model := modeltest.Serve(t, scriptedModel)
	shaped := shapes(t)
	return testscript.Params{
		RequireExplicitExec: true,
		RequireUniqueNames:  true,
		UpdateScripts:       os.Getenv("UPDATE_SCRIPTS") != "",
		Setup: func(e *testscript.Env) error {
			e.Setenv("XDG_CACHE_HOME", os.Getenv("XDG_CACHE_HOME"))
			e.Setenv("RUNSC", runsc(t))
			e.Setenv("SERVERS", servers)
			e.Setenv("API", api.URL)
			e.Setenv("API_DOCUMENT", document)
			e.Setenv("SHAPES", shaped)
			e.Setenv("MODEL", model.URL)
			e.Setenv("MODEL_KEY", modeltest.Key)
			e.Setenv("GUARDED", oauthtest.New(t).URL)
			e.Setenv("XDG_DATA_HOME", filepath.Join(e.WorkDir, ".data"))
			e.Setenv("XDG_CONFIG_HOME", filepath.Join(e.WorkDir, ".config"))
			// A sandpiper.yaml in a script is the user's own configuration.
			if own := filepath.Join(e.WorkDir, "sandpiper.yaml"); isRegular(own) {
				e.Setenv("SANDPIPER_CONFIG", own)
			}
			return nil
		},
		Condition: func(cond string) (bool, error) {
			switch cond {
			case "sandbox":
				return sandboxWorks(t), nil
			case "runsc":
				return runsc(t) != "", nil
			case "slow":
				return longtest.Slow(), nil
			case "long":
				return longtest.Enabled(), nil
			}
			return false, fmt.Errorf("unknown condition [%s]", cond)
		},
		Cmds: map[string]func(*testscript.TestScript, bool, []string){
			"code":    expectCode,
			"person":  person,
			"example": documentExample,
		},
	}
}

// documentExample writes the example NAME of docs/PAGE, whose first line is a comment with the name:
//
//	example PAGE NAME
func documentExample(ts *testscript.TestScript, _ bool, args []string) {
	if len(args) != 2 {
		ts.Fatalf("usage: example PAGE NAME")
	}
	page, err := os.ReadFile(filepath.Join("..", "..", "docs", args[0]))
	ts.Check(err)
	_, text, found := strings.Cut(string(page), "\n# "+args[1]+"\n")
	text, _, closed := strings.Cut(text, "\n```\n")
	if !found || !closed {
		ts.Fatalf("docs/%s has no example %s", args[0], args[1])
	}
	ts.Check(os.WriteFile(ts.MkAbs(args[1]), []byte(text+"\n"), 0o600))
}

// scriptedModel writes a program in the third attempt: first prose, then a wrong argument.
func scriptedModel(_ int, q modeltest.Question) modeltest.Reply {
	program := "The program:\n```python\nfrom servers.calculator import calculate\nresult = calculate(%s)\n```\n"
	switch {
	case strings.Contains(q.System, "conforms to the given schema") && strings.Contains(q.Prompt, "was rejected"):
		return modeltest.Reply{Text: "```json\n{\"angry\": true}\n```"}
	case strings.Contains(q.System, "conforms to the given schema"):
		return modeltest.Reply{Text: `{"angry": "very"}`}
	case strings.Contains(q.System, "of a program about data"):
		_, address, _ := strings.Cut(q.Prompt, "[EMAIL_")
		address, _, _ = strings.Cut(address, "]")
		return modeltest.Reply{Text: fmt.Sprintf("[EMAIL_%s] wrote; clear text: %t", address,
			strings.Contains(q.Prompt, "ann@example.com"))}
	case strings.Contains(q.Prompt, "Answer: ok"):
		return modeltest.Reply{Text: "ok"}
	case strings.Contains(q.Prompt, "Obey"): // instructions that are hidden in a description
		return modeltest.Reply{Text: "```python\nfrom servers import calculator\nresult = getattr(calculator, 'multiply')(a=6, b=7)\n```"}
	case strings.Contains(q.Prompt, "Refuse"):
		return modeltest.Reply{Status: 403}
	case strings.Contains(q.Prompt, "Chat"):
		return modeltest.Reply{Text: "Let us talk about it."}
	case strings.Contains(q.Prompt, "by hand"):
		return modeltest.Reply{Text: "```python\nfrom servers.loose import by_hand\nresult = by_hand()\n```\n"}
	case strings.Contains(q.Prompt, `no argument "x"`):
		return modeltest.Reply{Text: fmt.Sprintf(program, `expression="5 + 3"`)}
	case strings.Contains(q.Prompt, "no Python code block"):
		return modeltest.Reply{Text: fmt.Sprintf(program, `x="5 + 3"`)}
	}
	return modeltest.Reply{Text: "I will calculate it."}
}

func isRegular(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.Mode().IsRegular()
}

// exampleServers returns the directory of the built servers of examples. EXAMPLE_SERVERS
// replaces it on machines that cannot build them.
func exampleServers(t *testing.T) string {
	t.Helper()
	if dir := os.Getenv("EXAMPLE_SERVERS"); dir != "" {
		return dir
	}
	dir, err := buildServers()
	if err != nil {
		t.Fatal(err)
	}
	return dir
}

// expectCode runs a program and checks its exit code: code 3 sandpiper exec …
func expectCode(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: code N PROGRAM ARG...")
	}
	err := ts.Exec(args[1], args[2:]...)
	got := "0"
	if err != nil {
		got = strings.TrimPrefix(err.Error(), "exit status ")
	}
	if got != args[0] {
		ts.Fatalf("%s ended with %s, want exit code %s", args[1], got, args[0])
	}
}

// person runs a command that requires a login and acts as the user: it opens the address
// and agrees, pastes a wrong and then the right final address, or cancels.
func person(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: person follows|pastes|interrupts PROGRAM ARG...")
	}
	program := args[1]
	if exe, err := exec.LookPath(program); err == nil {
		program = exe
	}
	cmd := exec.Command(program, args[2:]...)
	cmd.Dir, cmd.Env = ts.Getenv("WORK"), scriptEnv(ts)
	in, err := cmd.StdinPipe()
	ts.Check(err)
	said := &address{found: make(chan string, 1)}
	cmd.Stdout, cmd.Stderr = ts.Stdout(), io.MultiWriter(ts.Stderr(), said)
	ts.Check(cmd.Start())
	done := make(chan error, 1)
	go func() { done <- cmd.Wait() }()
	select {
	case at := <-said.found:
		act(ts, args[0], at, in, cmd.Process)
	case err := <-done:
		ts.Fatalf("%v before there was an address", err)
	}
	if err := <-done; (err == nil) != (args[0] != "interrupts") {
		ts.Fatalf("%s: %v", args[0], err)
	}
}

func act(ts *testscript.TestScript, how, at string, in io.Writer, process *os.Process) {
	switch how {
	case "follows":
		_, err := oauthtest.Browse(at)
		ts.Check(err)
	case "pastes":
		ended, err := oauthtest.BrowseRemotely(at)
		ts.Check(err)
		fmt.Fprintf(in, "what now\n%s\n", ended)
	case "interrupts":
		ts.Check(process.Signal(os.Interrupt))
	}
}

// scriptEnv returns the environment of a script's commands.
func scriptEnv(ts *testscript.TestScript) (variables []string) {
	for _, name := range []string{"PATH", "HOME", "TMPDIR", "XDG_CACHE_HOME", "XDG_DATA_HOME", "XDG_CONFIG_HOME", "SANDPIPER_CONFIG",
		"SERVERS", "GUARDED"} {
		variables = append(variables, name+"="+ts.Getenv(name))
	}
	return variables
}

// address is a writer that finds the first indented line with an address.
type address struct {
	text  strings.Builder
	found chan string
	once  sync.Once
}

func (a *address) Write(p []byte) (int, error) {
	a.text.Write(p)
	if _, rest, ok := strings.Cut(a.text.String(), "\n  http"); ok {
		if line, _, whole := strings.Cut(rest, "\n"); whole {
			a.once.Do(func() { a.found <- "http" + line })
		}
	}
	return len(p), nil
}

// runsc returns the path of gVisor's program, which RUNSC names or which is on PATH, or "". In CI
// it fails the test if there is none.
func runsc(t *testing.T) string {
	t.Helper()
	path, err := exec.LookPath(cmp.Or(os.Getenv("RUNSC"), "runsc"))
	if err != nil && os.Getenv("REQUIRE_GVISOR") != "" {
		t.Errorf("gVisor's runsc is required: %v", err)
	}
	return path
}

// sandboxWorks reports whether code can be executed on this machine. In CI it fails the
// test if not.
func sandboxWorks(t *testing.T) bool {
	t.Helper()
	said := sandboxFails()
	if said != "" && os.Getenv("REQUIRE_SANDBOX") != "" {
		t.Errorf("code cannot be executed here: %s", said)
	}
	return said == ""
}

var sandboxFails = sync.OnceValue(func() string {
	var said strings.Builder
	if run(context.Background(), all.Features(), []string{"exec", "-c", "1"}, strings.NewReader(""), io.Discard, &said) == cli.ExitOK {
		return ""
	}
	return cmp.Or(said.String(), "no message")
})

// sandpiper returns the command with its data, working directory and, if it exists,
// configuration in dir.
func sandpiper(dir string, args ...string) *exec.Cmd {
	cmd := exec.Command("sandpiper", args...)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "XDG_DATA_HOME="+filepath.Join(dir, "data"))
	if own := filepath.Join(dir, "sandpiper.yaml"); isRegular(own) {
		cmd.Env = append(cmd.Env, "SANDPIPER_CONFIG="+own)
	}
	return cmd
}
