package sandpiper_test

import (
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/sandpiper-mcp/sandpiper"
	"github.com/sandpiper-mcp/sandpiper/internal/longtest"
)

// A program of another module needs nothing but this package: no program in PATH and no
// configuration.
func TestProgramOfAnotherModule(t *testing.T) {
	longtest.SkipSlow(t)
	if noSandbox != nil {
		t.Skip("code cannot be executed here:", noSandbox)
	}
	root, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	copyFile(t, "examples/embed/main.go", dir)
	copyFile(t, "go.mod", dir) // its versions are in the cache; others would need a network
	copyFile(t, "go.sum", dir)
	for _, args := range []string{"mod edit -module=example.com/embed -require=github.com/sandpiper-mcp/sandpiper@v0.0.0 " +
		"-replace=github.com/sandpiper-mcp/sandpiper=" + root, "build -o embed ."} {
		cmd := exec.CommandContext(t.Context(), "go", strings.Fields(args)...)
		cmd.Dir = dir
		cmd.Env = append(os.Environ(), "GOFLAGS=", "GOPROXY=off", "GOWORK=off", "CGO_ENABLED=0")
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("go %s: %v\n%s", args, err, out)
		}
	}
	cmd := exec.CommandContext(t.Context(), filepath.Join(dir, "embed"))
	cmd.Dir = dir
	cmd.Env = []string{"HOME=" + t.TempDir(), "XDG_CACHE_HOME=" + os.Getenv("XDG_CACHE_HOME"), "TMPDIR=" + t.TempDir()}
	got, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, got)
	}
	want, err := os.ReadFile("examples/embed/output.txt")
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(string(want), string(got)); d != "" {
		t.Errorf("-want +got\n%s", d)
	}
}

func copyFile(t *testing.T, path, dir string) {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, filepath.Base(path)), data, 0o600); err != nil {
		t.Fatal(err)
	}
}

// block is a block of a document that is a file: its first comment is the name.
var block = regexp.MustCompile("(?s)```[a-z]+\n((?:#![^\n]*\n)?# ([a-z]+\\.[a-z]+)\n.*?)```")

// The files in docs/extending.md work as they are.
func TestProgramsOfExtendingDocument(t *testing.T) {
	if _, err := exec.LookPath("python3"); err != nil && os.Getenv("REQUIRE_CLIENTS") == "" {
		t.Skip("python3 is needed")
	}
	text, err := os.ReadFile("docs/extending.md")
	if err != nil {
		t.Fatal(err)
	}
	dir, names := t.TempDir(), []string{}
	for _, m := range block.FindAllSubmatch(text, -1) {
		names = append(names, string(m[2]))
		mode := fs.FileMode(0o600)
		if strings.HasPrefix(string(m[1]), "#!") {
			mode = 0o700
		}
		if err := os.WriteFile(filepath.Join(dir, string(m[2])), m[1], mode); err != nil {
			t.Fatal(err)
		}
	}
	if d := cmp.Diff([]string{"stock.py", "check.py", "sandpiper.yaml"}, names); d != "" {
		t.Fatalf("files (-want +got)\n%s", d)
	}
	c := open(t, sandpiper.Config{File: filepath.Join(dir, "sandpiper.yaml")})
	r, err := c.Execute(t.Context(), `from servers.shop import stock; stock("tea")`)
	if got := result[struct{ Count int }](t, r, err); got.Count != 3 {
		t.Errorf("%+v", got)
	}
	_, err = c.Execute(t.Context(), `from servers.shop import stock; stock("plutonium")`)
	if err == nil || !strings.Contains(err.Error(), "ToolError: shop.stock was not called: it is not for sale (hook 1, check.py)") {
		t.Error(err)
	}
}
