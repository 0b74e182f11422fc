package codegen_test

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/sandpiper-mcp/sandpiper/internal/tool"
	"github.com/sandpiper-mcp/sandpiper/internal/tool/codegen"
)

var update = flag.Bool("update", false, "rewrite the golden files")

var golden = filepath.Join("testdata", "golden", "servers")

func TestGolden(t *testing.T) {
	want := tree(diverse(t))
	if *update {
		if err := os.RemoveAll(golden); err != nil {
			t.Fatal(err)
		}
		for name, source := range want {
			path := filepath.Join(golden, filepath.FromSlash(name))
			if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(path, []byte(source), 0o644); err != nil {
				t.Fatal(err)
			}
		}
	}
	if d := cmp.Diff(onDisk(t, golden), want); d != "" {
		t.Errorf("generated files differ from the golden files; run with -update to accept (-golden +generated):\n%s", d)
	}
}

func TestGenerateIgnoresOrder(t *testing.T) {
	servers := diverse(t)
	want := tree(servers)
	slices.Reverse(servers)
	for _, s := range servers {
		slices.Reverse(s.Tools)
	}
	if d := cmp.Diff(want, tree(servers)); d != "" {
		t.Error(d)
	}
}

func TestGenerateRemovesDuplicateTools(t *testing.T) {
	a, b := definition(`{}`), definition(`{"properties":{"x":{}}}`)
	one := codegen.Generate(codegen.Server{Name: "s", Tools: []tool.Definition{a, b, a}})
	other := codegen.Generate(codegen.Server{Name: "s", Tools: []tool.Definition{b, a}})
	if d := cmp.Diff(one, other); d != "" {
		t.Error(d)
	}
}

func definition(input string) tool.Definition {
	return tool.Definition{Ref: tool.Ref{Server: "s", Tool: "f"}, Input: []byte(input)}
}

func TestDescribe(t *testing.T) {
	for _, c := range []struct{ schema, signature, example, arguments string }{
		{`{"type":"object"}`, `f(**more: Any) -> Any`, `f()`, ``},
		{`{"type":"object","properties":{}}`, `f() -> Any`, `f()`, ``},
		{`{"properties":{"b":{"type":"integer"},"a":{"type":"string"}},"required":["a"]}`,
			`f(a: str, b: int | None = None) -> Any`, `f(a="a")`, ``},
		{`{"properties":{"s":{"enum":["open","closed"],"default":"open"}}}`,
			`f(s: Literal["open", "closed"] = "open") -> Any`, `f()`, ``},
		{`{"properties":{"resource-group":{"type":"string","format":"uuid"},"from":{"type":"integer","minimum":3}},"required":["from","resource-group"]}`,
			`f(resource_group: str, from_: int) -> Any`, `f(resource_group="00000000-0000-4000-8000-000000000000", from_=3)`,
			"resource_group: Sent as \"resource-group\". Format uuid.\nfrom_: Sent as \"from\". At least 3."},
		{`{"properties":{"o":{"type":"object","properties":{"a":{"type":"string"},"b-c":{"type":"array","items":{"type":"number"}}},"required":["a"]}},"required":["o"]}`,
			`f(o: {"a": str, "b-c?": list[float]}) -> Any`, `f(o={"a": "a"})`, ``},
		{`{"properties":{"x":{"anyOf":[{"type":"string"},{"type":"null"},{"const":3},{"const":"y"}]}},"required":["x"]}`,
			`f(x: Literal[3, "y"] | str | None) -> Any`, `f(x="x")`, ``},
		{`{"properties":{"x":{"type":"integer","default":"5"},"y":{"type":"number","default":2}}}`,
			`f(x: int | None = None, y: float = 2) -> Any`, `f()`, `x: The server's default is "5".`},
		{`{"properties":{"x":{"type":"string"}},"additionalProperties":{"type":"boolean"}}`,
			`f(x: str | None = None, **more: bool) -> Any`, `f()`, ``},
		{`{"properties":{"more":{},"_sandpiper":{}},"additionalProperties":true}`,
			`f(more: Any = ..., _sandpiper: Any = ..., **more_: Any) -> Any`, `f()`, ``},
		{`{"properties":{"x":{"$ref":"#/$defs/n"}},"$defs":{"n":{"type":"object","properties":{"next":{"$ref":"#/$defs/n"}}}}}`,
			`f(x: {"next?": dict[str, Any]} | None = None) -> Any`, `f()`, ``},
		{`{"properties":{"x":{"type":"array","prefixItems":[{"type":"number"},{"type":"string"}],"items":false}},"required":["x"]}`,
			`f(x: tuple[float, str]) -> Any`, `f(x=[1, "x"])`, ``},
		{`not JSON`, `f(**more: Any) -> Any`, `f()`, ``},
		{`true`, `f(**more: Any) -> Any`, `f()`, ``},
	} {
		got := codegen.Describe(definition(c.schema), "s", "f")
		want := codegen.Usage{Import: "from servers.s import f", Signature: c.signature, Example: c.example}
		if c.arguments != "" {
			want.Arguments = strings.Split(c.arguments, "\n")
		}
		if d := cmp.Diff(want, got); d != "" {
			t.Errorf("%s\n%s", c.schema, d)
		}
	}
}

// A composed root schema yields one parameter for each property of any branch; an example has those of
// the first.
func TestDescribeComposedRoot(t *testing.T) {
	for schema, want := range map[string][2]string{
		`{"type":"object","anyOf":[{"properties":{"a":{"type":"string"}},"required":["a"]},{"properties":{"b":{"type":"integer"}},"required":["b"]}]}`:                                                                  {`f(a: str | None = None, b: int | None = None) -> Any`, `f(a="a")`},
		`{"oneOf":[{"properties":{"kind":{"const":"x"},"a":{}},"required":["kind"]},{"properties":{"kind":{"const":"y"}},"required":["kind"]}]}`:                                                                        {`f(kind: Literal["x", "y"] | None = None, a: Any = ...) -> Any`, `f(kind="x")`},
		`{"allOf":[{"properties":{"a":{"type":"string"}},"required":["a"]},{"$ref":"#/$defs/b"}],"$defs":{"b":{"properties":{"b":{"type":"integer"}}}}}`:                                                                {`f(a: str, b: int | None = None) -> Any`, `f(a="a")`},
		`{"$ref":"#/$defs/b","$defs":{"b":{"type":"object","properties":{"b":{"type":"integer"}},"required":["b"]}}}`:                                                                                                   {`f(b: int) -> Any`, `f(b=1)`},
		`{"properties":{"a":{"type":"string"}},"if":{"properties":{"a":{"const":"x"},"q":{"const":1}}},"then":{"properties":{"b":{"type":"integer"}},"required":["b"]},"else":{"properties":{"c":{"type":"boolean"}}}}`: {`f(a: str | None = None, b: int | None = None, c: bool | None = None, q: Any = ...) -> Any`, `f()`},
		`{"type":"object","anyOf":[{"required":["a"]},{"required":["b"]}]}`:                                                                                                                                             {`f(a: Any = ..., b: Any = ...) -> Any`, `f(a=...)`},
		`{"properties":{"a":{"type":"string"}},"dependentSchemas":{"a":{"properties":{"b":{"type":"integer"}}}}}`:                                                                                                       {`f(a: str | None = None, b: int | None = None) -> Any`, `f()`},
		`{"type":"object","anyOf":[{"properties":{"a":{"type":"string"}}},{"additionalProperties":{"type":"integer"}}]}`:                                                                                                {`f(a: str | None = None, **more: int) -> Any`, `f()`},
		`{"type":"object","allOf":[{"$ref":"https://example.com/x"}]}`:                                                                                                                                                  {`f(**more: Any) -> Any`, `f()`},
		`{"type":"object","allOf":[{"$ref":"#/nothing"}],"additionalProperties":false}`:                                                                                                                                 {`f() -> Any`, `f()`},
	} {
		got := codegen.Describe(definition(schema), "s", "f")
		if d := cmp.Diff(want, [2]string{got.Signature, got.Example}); d != "" {
			t.Errorf("%s\n%s", schema, d)
		}
	}
}

// A required argument with a default may be omitted, and None is a value where the schema allows it.
func TestDescribeDefaults(t *testing.T) {
	for schema, want := range map[string]string{
		`{"properties":{"mode":{"type":"string","default":"fast"},"id":{"type":"integer"}},"required":["mode","id"]}`:                            `f(id: int, mode: str = "fast") -> Any`,
		`{"properties":{"tags":{"type":"array","items":{"type":"string"},"default":[]}},"required":["tags"]}`:                                    `f(tags: list[str] = ...) -> Any`,
		`{"properties":{"n":{"type":"integer","default":"5"}},"required":["n"]}`:                                                                 `f(n: int) -> Any`,
		`{"properties":{"a":{"type":["string","null"]},"b":{"anyOf":[{"type":"string"},{"type":"null"}],"default":null},"c":{"type":"string"}}}`: `f(a: str | None = ..., b: str | None = None, c: str | None = None) -> Any`,
		`{"properties":{"o":{"type":"object","properties":{"m":{"type":"string","default":"x"}},"required":["m"]}}}`:                             `f(o: {"m?": str} | None = None) -> Any`,
	} {
		if got := codegen.Describe(definition(schema), "s", "f").Signature; got != want {
			t.Errorf("%s\n got %s\nwant %s", schema, got, want)
		}
	}
}

// The brief forms of optional arguments stay as short as they were with None.
func TestAbbreviateOptional(t *testing.T) {
	d := definition(`{"properties":{"a":{"type":["string","null"]},"b":{"type":"integer"},"c":{}}}`)
	if got := codegen.Abbreviate(d, "f").Complete; got != "f(a: str=..., b: int=None, c: Any=...)" {
		t.Error(got)
	}
	if got := codegen.Abbreviate(definition(`{"type":"object"}`), "f").Complete; got != "f()" {
		t.Error(got)
	}
}

func TestDescribeWidensLargeEnum(t *testing.T) {
	var values []string
	for i := range 200 {
		values = append(values, fmt.Sprintf(`"value %d"`, i))
	}
	d := definition(`{"properties":{"x":{"enum":[` + strings.Join(values, ",") + `,7,null]}},"required":["x"]}`)
	if got := codegen.Describe(d, "s", "f").Signature; got != "f(x: str | int | None) -> Any" {
		t.Error(got)
	}
}

// hostileSchemas returns schemas that expand exponentially, or are large or deep.
func hostileSchemas() map[string]string {
	doubling := func(open, between, end string) string {
		var b strings.Builder
		b.WriteString(`{"properties":{"x":{"$ref":"#/$defs/d0"}},"$defs":{`)
		for i := range 60 {
			ref := fmt.Sprintf(`{"$ref":"#/$defs/d%d"}`, i+1)
			fmt.Fprintf(&b, `"d%d":%s%s%s%s%s,`, i, open, ref, between, ref, end)
		}
		b.WriteString(`"d60":{"type":"string"}}}`)
		return b.String()
	}
	many := func(n int, format string) string {
		var parts []string
		for i := range n {
			parts = append(parts, fmt.Sprintf(format, i))
		}
		return strings.Join(parts, ",")
	}
	return map[string]string{
		"tuples":     doubling(`{"type":"array","items":false,"prefixItems":[`, ",", `]}`),
		"objects":    doubling(`{"type":"object","properties":{"a":`, `,"b":`, `}}`),
		"unions":     doubling(`{"anyOf":[`, `,{"type":"integer"},`, `]}`),
		"all of":     doubling(`{"properties":{"k":{}},"allOf":[`, ",", `]}`),
		"items":      doubling(`{"type":"object","additionalProperties":{"type":"array","items":`, `},"patternProperties":{"x":`, `}}`),
		"cross":      `{"properties":{` + many(40, `"p%[1]d":{"allOf":[{"$ref":"#"}],"properties":{"q%[1]d":{"$ref":"#"}}}`) + `}}`,
		"parameters": `{"properties":{` + many(30_000, `"p%d":{"type":"string"}`) + `}}`,
		"keys":       `{"properties":{"x":{"type":"object","properties":{` + many(30_000, `"p%d":{"type":"string"}`) + `}}}}`,
		"classes":    `{"properties":{` + many(5000, `"p%d":{"type":"object","properties":{"k%[1]d":{"type":"string"}}}`) + `}}`,
		"enum":       `{"properties":{"x":{"enum":[` + many(80_000, `"v%d"`) + `]}}}`,
		"branches":   `{"properties":{"x":{"anyOf":[` + many(20_000, `{"type":"array","items":{"const":%d}}`) + `]}}}`,
		"required":   `{"required":[` + many(50_000, `"p%d"`) + `]}`,
		"deep":       strings.Repeat(`{"properties":{"a":`, 9_000) + `{}` + strings.Repeat(`}}`, 9_000),
		"description": `{"properties":{"x":{"description":"` + strings.Repeat(`\"\\\n\u202e`,
			100_000) + `","default":"` + strings.Repeat("x", 500_000) + `"}}}`,
		"long names": `{"properties":{` + many(20, `"`+strings.Repeat("n",
			40_000)+`%d":{"type":"object","properties":{"`+strings.Repeat("k", 10_000)+`%[1]d":{}}}`) + `}}`,
	}
}

func TestGenerateLimitsModuleSize(t *testing.T) {
	for name, schema := range hostileSchemas() {
		d := definition(schema)
		d.Output = d.Input
		size := 0
		for _, f := range codegen.Generate(codegen.Server{Name: "s", Tools: []tool.Definition{d}}) {
			size += len(f.Data)
		}
		if size > 8*len(schema)+100_000 {
			t.Errorf("%s: a schema of %d bytes yields %d bytes of Python", name, len(schema), size)
		}
		if u := codegen.Describe(d, "s", "f"); len(u.Signature) > 2500 || len(u.Example) > 500 {
			t.Errorf("%s: the signature has %d bytes, the example %d", name, len(u.Signature), len(u.Example))
		}
	}
}

func TestGenerateListsAtMost300Tools(t *testing.T) {
	s := codegen.Server{Name: "many"}
	for i := range 5000 {
		s.Tools = append(s.Tools, tool.Definition{Ref: tool.Ref{Tool: fmt.Sprintf("tool %04d", i)},
			Description: "Does something. And more.", Input: []byte(`{}`)})
	}
	files := tree([]codegen.Server{s})
	doc := files["many/__init__.py"]
	for _, want := range []string{"tool_0000: Does something.\n", "and 4700 more", `"tool_4999",`} {
		if !strings.Contains(doc, want) {
			t.Errorf("__init__.py does not contain %q", want)
		}
	}
	if strings.Contains(doc, "tool_0300: ") || len(files) != 5004 {
		t.Errorf("%d files, want 5004; the docstring must list at most 300 tools", len(files))
	}
}
