package workflow

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
)

func TestExpressionsEndWithTheirBrackets(t *testing.T) {
	for text, want := range map[string]string{
		"${{ a }} b":                 "a",
		`${{ {"a": {"b": 1}}}} x`:    `{"a": {"b": 1}}`,
		`${{ "}}" + '}}' }}`:         `"}}" + '}}'`,
		"${{ '''a\n}}''' }}":         "'''a\n}}'''",
		`${{ f'{steps.a}' if x }} y`: `f'{steps.a}' if x`,
		"${{ [r for r in x] ":        "",
		"${{ a } }":                  "",
		"${{":                        "",
		"${{}}":                      "",
	} {
		w, found := parse("w", fmt.Appendf(nil, "name: w\nsteps: [{name: a, type: approval, config: {question: %q}}]", text))
		if got := w.Steps[0].Question.Template[0].Expr; want == "" && len(found) != 1 || want != "" && (len(found) > 0 || got != want) {
			t.Errorf("%q: %q %v", text, got, found)
		}
	}
}

func TestCompileStopsWithItsContext(t *testing.T) {
	source := "name: w\nsteps:\n"
	for i := range 500 {
		source += fmt.Sprintf("  - {name: a%d, type: workflow, config: {workflow: b%d}}\n", i, i)
	}
	w, found := Parse("w", []byte(source))
	if len(found) > 0 {
		t.Fatal(found)
	}
	ctx, cancel := context.WithCancel(t.Context())
	read := 0
	_, _, err := compile(ctx, w, Library{Workflow: func(string) (*Workflow, []Finding, []string) {
		read++
		cancel()
		return nil, nil, nil
	}}, nil)
	if read != 1 || !errors.Is(err, context.Canceled) {
		t.Errorf("%d workflows were read; %v", read, err)
	}
}

// A text is parsed once for all lists of workflows.
func TestSummariesAreKept(t *testing.T) {
	var c summaries
	text := source{file: "w", data: []byte("name: w\nexport: true\nsteps:\n" +
		strings.Repeat("  - {name: a, type: wait, config: {sleep_for: 1}}\n", 500))}
	first := c.of(text)
	if first.workflow == nil || first.steps != 500 {
		t.Fatalf("%+v", first)
	}
	if n := testing.AllocsPerRun(10, func() { c.of(text) }); n > 10 {
		t.Errorf("%v allocations", n)
	}
	wrong := c.of(source{file: "w", data: []byte("name: w")})
	if wrong.workflow != nil || wrong.problem != "w:1:1: the workflow has no steps" {
		t.Errorf("%+v", wrong)
	}
	for i := range maxSummaries >> 10 {
		c.of(source{file: fmt.Sprint(i), data: []byte("x")})
	}
	n := 0
	c.known.Range(func(_, _ any) bool { n++; return true })
	if n >= maxSummaries>>10 {
		t.Errorf("%d summaries are kept", n)
	}
}
