package workflow

import "testing"

func TestRewrite(t *testing.T) {
	c := newCompiler(&Workflow{}, Library{})
	outer := &scope{inputs: []string{"repo", "day"}, hidden: map[string]string{"deep": "b"}}
	in := c.inner(outer, []*Step{{Name: "a"}, {Name: "b"}, {Name: "list"}})
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
