package shape_test

import (
	"strings"
	"testing"

	"github.com/sandpiper-mcp/sandpiper/internal/tool/shape"
)

func TestDifferences(t *testing.T) {
	for _, row := range []struct{ then, now, want string }{
		{`1`, `2`, ""},
		{`1.5`, `2`, ""},
		{`1`, `2.5`, "result is number, expected integer"},
		{`1`, `"a"`, "result is string, expected integer"},
		{`[]`, `[1]`, ""},
		{`[1]`, `[]`, ""},
		{`[1]`, `["a"]`, "result[] is string, expected integer"},
		{`[1, null]`, `[null]`, ""},
		{`{"a": 1}`, `{"a": 2, "b": 3}`, ""},
		{`{"a": 1, "b": {"c": "x"}}`, `{"b": {"c": 1}}`, "result.a is missing; result.b.c is integer, expected string"},
		{`[{"a": 1, "b": 1}, {"a": 1}]`, `[{"a": 2}]`, ""},
		{`[{"a": 1, "b": 1}]`, `[{"a": 2, "b": 1}, {"a": 1}]`, "result[].b is missing in some objects"},
		{`{"a": 1}`, `[{"a": 1}]`, "result is array, expected object"},
		{`{"ada@example.org": 1}`, `{"bob@example.org": "x"}`, "result{} is string, expected integer"},
		{`{}`, `{"a": 1}`, ""},
		{`{"a": 1}`, `{}`, "result.a is missing"},
	} {
		got := strings.Join(shape.Learn([]byte(row.then)).Differences("result", shape.Learn([]byte(row.now))), "; ")
		if got != row.want {
			t.Errorf("%s then %s: %q, want %q", row.then, row.now, got, row.want)
		}
	}
}
