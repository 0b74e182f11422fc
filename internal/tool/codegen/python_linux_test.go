package codegen_test

import (
	"bufio"
	"context"
	"encoding/json"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/sandpiper-mcp/sandpiper/internal/sandbox/python"
	"github.com/sandpiper-mcp/sandpiper/internal/sandbox/worker"
	"github.com/sandpiper-mcp/sandpiper/internal/tool"
	"github.com/sandpiper-mcp/sandpiper/internal/tool/codegen"
)

func TestMain(m *testing.M) {
	code := m.Run()
	checker.stop()
	os.Exit(code)
}

// cpython returns the embedded Python, installed where the tests of other packages also look for it.
var cpython = sync.OnceValues(func() (*python.Installation, error) {
	cache, err := os.UserCacheDir()
	if err != nil {
		return nil, err
	}
	return python.Install(context.Background(), python.Config{Dir: filepath.Join(cache, "sandpiper-test"), Overlay: worker.Python()})
})

func command(t testing.TB, args ...string) *exec.Cmd {
	t.Helper()
	install, err := cpython()
	if err != nil {
		t.Skipf("Python is not available: %v", err)
	}
	cmd := exec.Command(filepath.Join(install.Dir(), "bin", "python3.14"), append([]string{"-I", "-S", "-B"}, args...)...)
	cmd.Env = []string{"PATH=/usr/bin:/bin", "HOME=/nonexistent", "LC_ALL=C.UTF-8"}
	return cmd
}

// runPython runs a script of testdata and returns its output.
func runPython(t testing.TB, script string, args ...string) string {
	t.Helper()
	out, err := command(t, append([]string{filepath.Join("testdata", script)}, args...)...).CombinedOutput()
	if err != nil {
		t.Fatalf("%s: %v\n%s", script, err, out)
	}
	return string(out)
}

// checks runs testdata/check.py as one process for all tests.
type checks struct {
	mu  sync.Mutex
	cmd *exec.Cmd
	in  io.WriteCloser
	out *bufio.Reader
}

var checker checks

// request is one request to testdata/check.py.
type request struct {
	Files     map[string]string `json:"files,omitempty"`
	Signature string            `json:"signature,omitempty"`
	Example   string            `json:"example,omitempty"`
}

// ask returns the errors found.
func (c *checks) ask(t testing.TB, r request) (wrong []string) {
	t.Helper()
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.cmd == nil {
		c.start(t)
	}
	if err := json.NewEncoder(c.in).Encode(r); err != nil {
		t.Fatal(err)
	}
	line, err := c.out.ReadBytes('\n')
	if err == nil {
		err = json.Unmarshal(line, &wrong)
	}
	if err != nil {
		t.Fatalf("check.py exited: %v", err)
	}
	return wrong
}

func (c *checks) start(t testing.TB) {
	cmd := command(t, filepath.Join("testdata", "check.py"))
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	cmd.Stderr = os.Stderr
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	c.cmd, c.in, c.out = cmd, in, bufio.NewReader(out)
}

func (c *checks) stop() {
	if c.cmd != nil {
		c.in.Close()
		_ = c.cmd.Wait()
	}
}

// checkSyntax fails unless all files generated for s have only the syntax that check.py
// allows.
func checkSyntax(t testing.TB, s codegen.Server) {
	t.Helper()
	r := request{Files: map[string]string{}}
	for _, f := range codegen.Generate(s) {
		if strings.HasSuffix(f.Path, ".py") {
			r.Files[f.Path] = string(f.Data)
		}
	}
	if wrong := checker.ask(t, r); len(wrong) > 0 {
		t.Errorf("check.py found %d errors, the first: %s", len(wrong), wrong[0])
	}
	var names []string
	for _, d := range s.Tools {
		names = append(names, d.Tool)
	}
	ids := tool.ModuleNames(names)
	for _, d := range s.Tools {
		u := codegen.Describe(d, "server", ids[d.Tool])
		if wrong := checker.ask(t, request{Signature: u.Signature, Example: u.Example}); len(wrong) > 0 {
			t.Error(wrong[0])
		}
	}
}
