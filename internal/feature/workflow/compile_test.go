package workflow_test

import (
	"flag"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/sandpiper-mcp/sandpiper/internal/feature/workflow"
)

var update = flag.Bool("update", false, "write the golden files")

// compile compiles a file of testdata/compile. Workflows find each other by the names of their files.
func compile(t *testing.T, path string) *workflow.Program {
	t.Helper()
	w := parse(t, path)
	lib := workflow.Library{Workflow: func(name string) (*workflow.Workflow, []workflow.Finding, []string) {
		return parse(t, filepath.Join("testdata", "compile", name+".yaml")), nil, nil
	}}
	p, found := workflow.Compile(w, lib)
	if len(found) > 0 {
		t.Fatal(found)
	}
	return p
}

func parse(t *testing.T, path string) *workflow.Workflow {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	w, found := workflow.Parse(filepath.Base(path), data)
	if len(found) > 0 {
		t.Fatal(found)
	}
	return w
}

func sources(t *testing.T) []string {
	t.Helper()
	all, err := filepath.Glob("testdata/compile/*.yaml")
	if err != nil || len(all) == 0 {
		t.Fatal(all, err)
	}
	return all
}

// golden compares got with a file, which -update writes.
func golden(t *testing.T, path, got string) {
	t.Helper()
	if *update {
		if err := os.WriteFile(path, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(string(want), got); d != "" {
		t.Errorf("%s:\n%s", path, d)
	}
}

func TestCompiledPython(t *testing.T) {
	for _, path := range sources(t) {
		p := compile(t, path)
		base := strings.TrimSuffix(path, ".yaml")
		golden(t, base+".py", p.Code)
		golden(t, base+".mmd", p.Workflow.Mermaid())
		if n := strings.Count(p.Code, "\n"); n != len(p.Lines) {
			t.Errorf("%s: %d lines of code have %d positions", path, n, len(p.Lines))
		}
	}
}

func TestFailedAtNamesTheStep(t *testing.T) {
	p := compile(t, "testdata/compile/orders.yaml")
	line := 0
	for i, text := range strings.Split(p.Code, "\n") {
		if strings.Contains(text, `if r["late"]`) {
			line = i + 1
		}
	}
	got := p.FailedAt("Traceback\n  File \"<code>\", line " + strconv.Itoa(line) + ", in run_late")
	if got != "step late (orders.yaml:32:9)" {
		t.Errorf("%q", got)
	}
	if got := p.FailedAt("no traceback"); got != "" {
		t.Errorf("%q", got)
	}
}

func TestFillChecksInputs(t *testing.T) {
	w := parse(t, "testdata/compile/orders.yaml")
	for in, want := range map[string]string{
		`{"shop":"north"}`:           `{"limit":10,"shop":"north"}`,
		`{"shop":"north","limit":3}`: `{"limit":3,"shop":"north"}`,
		``:                           "the inputs of workflow orders are wrong: input shop: is missing",
		`{"shop":1}`:                 "the inputs of workflow orders are wrong: input shop: expected a string, got a number",
		`{"shp":"x"}`:                `workflow orders has no input "shp"`,
		`[1]`:                        "the inputs of workflow orders are not a JSON object",
	} {
		got, err := w.Fill([]byte(in))
		text := string(got)
		if err != nil {
			text = err.Error()
		}
		if text != want {
			t.Errorf("%s: %s", in, text)
		}
	}
}
