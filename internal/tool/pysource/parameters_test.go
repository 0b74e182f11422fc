package pysource

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestInputIsTheSchemaOfTheArguments(t *testing.T) {
	for source, want := range map[string]string{
		"def f(): ...": `{"properties":{},"required":[],"type":"object"}`,
		"def f(a: int, b: str = 'x, y', *rest, c: float | None = None, **more): ...": `{"properties":{"a":{"type":"integer"},"b":{"type":"string"},"c":{"type":"number"}},"required":["a"],"type":"object"}`,
		"def f(a, /, b: dict[str, int], *, c: Optional[bool] = None): ...":           `{"properties":{"b":{"type":"object"},"c":{"type":"boolean"}},"required":["b"],"type":"object"}`,
		"def f(a: Path, b=(1, 2)): ...":                                              `{"properties":{"a":{},"b":{}},"required":["a"],"type":"object"}`,
	} {
		if d := cmp.Diff(want, string(Parse([]byte(source)).Functions[0].Input())); d != "" {
			t.Errorf("%s: %s", source, d)
		}
	}
}

func TestCallsAreThoseWithConstantNames(t *testing.T) {
	source := "call_mcp_tool('erp', \"get-invoice\", {})\nx = call_tool(\n  'a.b', 'c', d=1)\ncall_tool(server, " +
		"'e')\nrecall_tool('f', 'g')\n"
	if d := cmp.Diff([]string{"a.b.c", "erp.get-invoice"}, Calls([]byte(source))); d != "" {
		t.Error(d)
	}
}
