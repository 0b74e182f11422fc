package schema_test

import (
	"encoding/json"
	"fmt"
	"runtime"
	"strings"
	"testing"

	"github.com/sandpiper-mcp/sandpiper/internal/tool/schema"
)

// doubling returns a schema that refers twice to one that refers twice to another, n times.
func doubling(n int) string {
	defs := `"s0": {"type": "object"}`
	for i := range n {
		defs += fmt.Sprintf(`, "s%d": {"allOf": [{"$ref": "#/$defs/s%d"}, {"$ref": "#/$defs/s%[2]d"}]}`, i+1, i)
	}
	return fmt.Sprintf(`{"$defs": {%s}, "$ref": "#/$defs/s%d"}`, defs, n)
}

// nested returns {"a": {"a": … {} }}, n deep.
func nested(n int) string { return strings.Repeat(`{"a": `, n) + "{}" + strings.Repeat("}", n) }

// expensive are schemas with arguments whose check takes more than an acceptable amount of work.
var expensive = map[string][2]string{
	"references double": {doubling(40), `{}`},
	"each level is checked twice": {
		`{"$defs": {"s": {"allOf": [{"properties": {"a": {"$ref": "#/$defs/s"}}}, {"properties": {"a": {"$ref": "#/$defs/s"}}}]}}, ` +
			`"$ref": "#/$defs/s"}`, nested(60),
	},
	"alternatives double": {
		`{"$defs": {"s": {"anyOf": [{"properties": {"a": {"$ref": "#/$defs/s"}}, "required": ["b"]}, {"properties": {"a": {"$ref": ` +
			`"#/$defs/s"}}, "required": ["b"]}]}}, "$ref": "#/$defs/s"}`, nested(60),
	},
	"references to themselves": {`{"$defs": {"s": {"allOf": [{"$ref": "#/$defs/t"}, {"$ref": "#/$defs/t"}]}, "t": {"anyOf": [{"$ref": ` +
		`"#/$defs/s"}, {"$ref": "#/$defs/s"}]}}, "$ref": "#/$defs/s"}`, `{}`},
	"values times choices": {
		`{"properties": {"a": {"items": {"enum": [` + many(20_000, `"choice %d"`) + `]}}}}`, `{"a": [` + many(20_000, `"other %d"`) + `]}`,
	},
	"patterns times properties": {
		`{"patternProperties": {` + many(3000, `"^x%d.*y": true`) + `}}`, `{` + many(3000, `"x%d": 1`) + `}`,
	},
	"a large pattern": {`{"properties": {"a": {"pattern": "(a{1,30}){1,30}$"}}}`, `{"a": "` + strings.Repeat("a", 300_000) + `"}`},
	"keys of dependentRequired times values": {
		`{"properties": {"a": {"items": {"dependentRequired": {` + many(5000, `"k%d": []`) + `}}}}}`, `{"a": [` + many(2000, `{}`) + `]}`,
	},
	"lists of dependentRequired times values": {
		`{"properties": {"a": {"items": {"dependentRequired": {"k": [` + many(5000, `"k%d"`) + `]}}}}}`, `{"a": [` + many(2000,
			`{"k": 1}`) + `]}`,
	},
	"keys of dependencies times values": {
		`{"$schema": "http://json-schema.org/draft-07/schema#", "properties": {"a": {"items": {"dependencies": {` + many(5000,
			`"k%d": []`) + `}}}}}`, `{"a": [` + many(2000, `{}`) + `]}`,
	},
	"lists of dependencies times values": {
		`{"$schema": "http://json-schema.org/draft-07/schema#", "properties": {"a": {"items": {"dependencies": {"k": [` + many(5000,
			`"k%d"`) + `]}}}}}`, `{"a": [` + many(2000, `{"k": null}`) + `]}`,
	},
	"regular expressions as values": {
		`{"$schema": "http://json-schema.org/draft-07/schema#", "properties": {"a": {"format": "regex"}}}`,
		`{"a": "` + strings.Repeat("x{1000}", 1000) + `"}`,
	},
	"formats times a large text": {
		`{"$schema": "http://json-schema.org/draft-07/schema#", "properties": {"a": {"allOf": [` + many(1000, `{"format": "uri"}`) + `]}}}`,
		`{"a": "x:` + strings.Repeat("a", 100_000) + `"}`,
	},
	"lengths of a large text": {
		`{"properties": {"a": {"allOf": [` + many(5000, `{"minLength": 1}`) + `]}}}`, `{"a": "` + strings.Repeat("a", 300_000) + `"}`,
	},
	"large exponents": {`{"properties": {"a": {"items": {"type": "integer", "multipleOf": 3}}}}`,
		`{"a": [` + strings.TrimSuffix(strings.Repeat("1e999999, ", 300), ", ") + `]}`},
}

func many(n int, format string) string {
	all := make([]string, n)
	for i := range n {
		if all[i] = format; strings.Contains(format, "%d") {
			all[i] = fmt.Sprintf(format, i)
		}
	}
	return strings.Join(all, ", ")
}

func arguments(t *testing.T, text string) map[string]any {
	t.Helper()
	args, err := schema.Decode(json.RawMessage(text))
	if err != nil {
		t.Fatal(err)
	}
	return args
}

func TestCheckIsBounded(t *testing.T) {
	for name, c := range expensive {
		t.Run(name, func(t *testing.T) {
			found := schema.Compile(json.RawMessage(c[0])).Check(arguments(t, c[1]))
			if len(found) != 1 || !strings.Contains(found[0].Message, "too much work") {
				t.Errorf("%d problems: %.300v", len(found), found)
			}
		})
	}
}

// Regular expressions in arguments are no part of those of the schema, whose size is limited.
func TestCheckOfRegularExpressionsIsRepeatable(t *testing.T) {
	s := schema.Compile(json.RawMessage(`{"$schema": "http://json-schema.org/draft-07/schema#", "properties": {"a": {"format": "regex"}}}`))
	for i := range 200 {
		if found := s.Check(arguments(t, `{"a": "x{1000}"}`)); len(found) > 0 {
			t.Fatalf("check %d: %v", i, found)
		}
	}
	if found := s.Check(arguments(t, `{"a": "("}`)); len(found) != 1 {
		t.Errorf("%v", found)
	}
}

// Large arguments of an ordinary schema are checked.
func TestCheckOfLargeArguments(t *testing.T) {
	s := schema.Compile(json.RawMessage(`{"properties": {"rows": {"items": {"type": "object", "properties": {"id": {"type": "integer"}, ` +
		`"name": {"type": "string", "pattern": "^[a-z]+ [0-9]+$"}, "kind": {"enum": ["a", "b", "c"]}}, "required": ["id"]}}}}`))
	rows := many(20_000, `{"id": %d, "name": "row 1", "kind": "b"}`)
	if found := s.Check(arguments(t, `{"rows": [`+rows+`]}`)); len(found) > 0 {
		t.Errorf("%v", found)
	}
	if found := s.Check(arguments(t, `{"rows": [`+rows+`, {"name": "x"}]}`)); len(found) != 2 {
		t.Errorf("%v", found)
	}
}

func allocated(work func()) uint64 {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	work()
	runtime.ReadMemStats(&after)
	return after.TotalAlloc - before.TotalAlloc
}

func TestWorkGrowsWithTheSchema(t *testing.T) {
	for name, shape := range map[string]func(n int) (of, args string){
		"depth": func(n int) (string, string) {
			return strings.Repeat(`{"not": `, n) + "{}" + strings.Repeat("}", n), `{}`
		},
		"properties": func(n int) (string, string) {
			return `{"properties": {` + many(n, `"p%d": {"type": "string"}`) + `}}`, `{}`
		},
		"unknown arguments": func(n int) (string, string) {
			return `{"additionalProperties": false, "properties": {` + many(n, `"p%d": {}`) + `}}`, `{` + many(n, `"q%d": 1`) + `}`
		},
		"missing arguments": func(n int) (string, string) {
			return `{"required": [` + many(n, `"p%d"`) + `]}`, `{` + many(n, `"q%d": 1`) + `}`
		},
		"wrong values": func(n int) (string, string) {
			return `{"properties": {"a": {"items": {"type": "integer"}}}}`, `{"a": [` + many(n, `"%d"`) + `]}`
		},
		"references": func(n int) (string, string) {
			return `{"$defs": {"s0": {}, ` + many(n, `"t%d": {"$ref": "#/$defs/s0"}`) + `}, "allOf": [` + many(n,
				`{"$ref": "#/$defs/t%d"}`) + `]}`, `{}`
		},
	} {
		t.Run(name, func(t *testing.T) {
			var used []uint64
			for _, n := range []int{400, 800, 1600} {
				of, text := shape(n)
				args := arguments(t, text)
				used = append(used, allocated(func() {
					_ = schema.Valid(json.RawMessage(of))
					schema.Compile(json.RawMessage(of)).Check(args)
				}))
			}
			if used[2] > 1<<20 && used[2] > 3*used[1] {
				t.Errorf("1600, 800 and 400 allocate %d, %d and %d bytes", used[2], used[1], used[0])
			}
		})
	}
}

func TestSizeOfSchemaIsLimited(t *testing.T) {
	for text, want := range map[string]string{
		`{"anyOf": [` + many(200_000, `{}`) + `]}`:                          "more than 10000 schemas",
		strings.Repeat(`{"not": `, 250) + "{}" + strings.Repeat("}", 250):   "deeper than 200 levels",
		`{"maximum": 1e999999}`:                                             "more than 400 digits",
		`{"allOf": [` + many(50, `{"pattern": "(a{1,30}){1,30}%d"}`) + `]}`: "patterns are too large",
	} {
		if err := schema.Valid(json.RawMessage(text)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%.50s: %v", text, err)
		}
	}
}
