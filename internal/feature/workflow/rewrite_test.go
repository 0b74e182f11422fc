package workflow

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
)

func TestRewrite(t *testing.T) {
	c := newCompiler(&Workflow{}, Library{})
	outer := &scope{inputs: []string{"repo", "day"}, hidden: map[string]string{"deep": "b"}}
	in := outer.inner(&c.output, []*Step{{Name: "a"}, {Name: "b"}, {Name: "list"}})
	in = &scope{outer: in, loop: "row"}
	for expr, want := range map[string]string{
		`1 + 2`:                                           `1 + 2`,
		`steps.a.result`:                                  `a`,
		`steps.a.result.rows[0].id`:                       `a["rows"][0]["id"]`,
		`steps . a . result . rows`:                       `a ["rows"]`,
		`steps.list.result.items.keys()`:                  `list_["items"].keys()`,
		`steps.a.result["x"].y`:                           `a["x"]["y"]`,
		`steps.a.result[steps.b.result.i].name.upper().x`: `a[b["i"]]["name"].upper().x`,
		`inputs.repo + inputs["day"].x`:                   `inputs["repo"] + inputs["day"]["x"]`,
		`row.id + f(row=row.x)`:                           `row["id"] + f(row=row["x"])`,
		`x.steps.a.result`:                                `x.steps.a.result`,
		`"steps.a.result" + 'it\'s'`:                      `"steps.a.result" + 'it\'s'`,
		`f"{steps.a.result.x}: {{steps.a}} {row.y:>3}"`:   `f"{a["x"]}: {{steps.a}} {row["y"]:>3}"`,
		`f"{steps.a.result["k"]}"`:                        `f"{a["k"]}"`,
		"steps.a.result  # a comment":                     `a`,
		"[r for r in\n steps.a.result]":                   `[r for r in  a]`,
		`steps.a.error or ''`:                             `a_error or ''`,
		`max(steps.a.result.n, 3.5).real`:                 `max(a["n"], 3.5).real`,
	} {
		got, problems := rewrite(expr, in)
		if got != want || len(problems) > 0 {
			t.Errorf("%s: %s %v", expr, got, problems)
		}
	}
	for expr, want := range map[string]problem{
		`1 + steps.bb.result`:    {10, `there is no step "bb"`, "there are a, b, list"},
		`steps.deep.result`:      {6, "step deep is inside step b and not visible here", "refer to steps.b.result"},
		`steps.a`:                {6, "a step has result and error only", "write steps.a.result"},
		`steps.a.resutl`:         {8, "a step has result and error only", "did you mean result?"},
		`len(steps)`:             {4, "steps is used without the name of a step", "write steps.NAME.result"},
		`inputs.rpo`:             {7, `there is no input "rpo"`, "did you mean repo?"},
		`f"x {steps.aa.result}"`: {11, `there is no step "aa"`, "there are a, b, list"},
	} {
		if _, problems := rewrite(expr, in); len(problems) != 1 || problems[0] != want {
			t.Errorf("%s: %+v", expr, problems)
		}
	}
}

func TestExpressionEnd(t *testing.T) {
	for source, want := range map[string]int{
		` a }} b`:                3,
		`{"a": {"b": 1}}}} x`:    15,
		`"}}" + '}}' }}`:         12,
		`f"{x["}}"]}" }}`:        13,
		`[r for r in x] `:        -1,
		"'''a\n}}''' }}":         11,
		`{}}}`:                   2,
		`"unclosed }}`:           -1,
		`f'{steps.a}' if x }} y`: 18,
	} {
		if got := expressionEnd(source); got != want {
			t.Errorf("%q: %d, not %d", source, got, want)
		}
	}
}

// Whatever the text, its tokens are the text, and rewriting ends.
func FuzzTokens(f *testing.F) {
	for _, s := range []string{`f"{x["a"]:{w}}"`, `steps.a.result[`, `"\`, `rb'''`, `f"{`, "é.x # y\nz", `}}{{`, `0x_f.e`} {
		f.Add(s)
	}
	in := &scope{steps: map[string]*variable{"a": {name: "a", error: "e"}}, inputs: []string{"x"}}
	f.Fuzz(func(t *testing.T, s string) {
		joined := ""
		for _, tok := range tokens(s) {
			joined += tok.text
		}
		if joined != s {
			t.Errorf("%q became %q", s, joined)
		}
		rewrite(s, in)
		expressionEnd(s)
	})
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
	text := source{file: "w", data: []byte("name: w\nexport: true\nsteps:\n" + strings.Repeat("  - {name: a, type: wait, config: {sleep_for: 1}}\n", 500))}
	first := c.of(text)
	if first.workflow == nil || first.steps != 500 || len(c.known) != 1 {
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
	if len(c.known) >= maxSummaries>>10 {
		t.Errorf("%d summaries are kept", len(c.known))
	}
}
