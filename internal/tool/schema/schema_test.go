package schema_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/sandpiper-mcp/sandpiper/internal/tool/schema"
)

const issues = `{"type": "object", "required": ["owner", "title"], "additionalProperties": false, "properties": {
	"owner": {"type": "string", "minLength": 1}, "title": {"type": "string"},
	"state": {"enum": ["open", "closed"]}, "page": {"type": "integer", "minimum": 1, "maximum": 100},
	"labels": {"type": "array", "items": {"type": "string"}},
	"since": {"anyOf": [{"type": "string"}, {"type": "null"}]},
	"tree": {"$ref": "#/$defs/node"}},
	"$defs": {"node": {"type": "object", "properties": {"kids": {"type": "array", "items": {"$ref": "#/$defs/node"}}}}}}`

func check(t *testing.T, raw, args string) string {
	t.Helper()
	decoded, err := schema.Decode(json.RawMessage(args))
	if err != nil {
		return err.Error()
	}
	var all []string
	for _, p := range schema.Compile(json.RawMessage(raw)).Check(decoded) {
		all = append(all, p.String())
	}
	return strings.Join(all, "; ")
}

func TestCheckMessages(t *testing.T) {
	for args, want := range map[string]string{
		`{"owner": "a", "title": "b", "state": "open", "page": 3, "labels": [], "since": null}`: "",
		`{}`:                           "argument owner: is missing; argument title: is missing",
		`{"owner": "a", "titel": "b"}`: "argument titel: there is no such argument; did you mean title?; argument title: is missing",
		`{"owner": 5, "title": "b"}`:   "argument owner: expected a string, got a number",
		`{"owner": "", "title": null}`: "argument owner: expected at least 1 characters, got 0; argument title: expected a string, " +
			"got None",
		`{"owner": "a", "title": "b", "state": "opened"}`:  `argument state: expected one of "open", "closed"`,
		`{"owner": "a", "title": "b", "page": 0}`:          "argument page: expected at least 1",
		`{"owner": "a", "title": "b", "page": 1.5}`:        "argument page: expected an integer, got a number",
		`{"owner": "a", "title": "b", "labels": ["x", 7]}`: "argument labels[1]: expected a string, got a number",
		`{"owner": "a", "title": "b", "since": 5}`:         "argument since: expected None or a string, got a number",
		`{"owner": "a", "title": "b", "tree": {"kids": [{"kids": [3]}]}}`: "argument tree.kids[0].kids[0]: expected a dict, got " +
			"a number",
		`{"owner": "a", "owner": "b"}`: `duplicate key "owner"`,
		`[1]`:                          "expected an object, got a list",
		`{"owner": NaN}`:               "not valid JSON",
		`{} {}`:                        "more than one JSON value",
		strings.Repeat("[", 300) + strings.Repeat("]", 300): "nested deeper than 200 levels",
		`{"owner": "a", "title": "b", "q": "a person's address"}`: "argument q: there is no such argument; there are labels, " +
			"owner, page, since, state, title, tree",
		`{"owner": "a", "title": "b", "a very long name that is nothing": 1}`: "argument a very long name that is nothing: there is no " +
			"such argument; there are labels, owner, page, since, state, title, tree",
	} {
		if got := check(t, issues, args); got != want {
			t.Errorf("%s\n got %s\nwant %s", args, got, want)
		}
	}
}

func TestMisspelledArgumentOfOpenSchema(t *testing.T) {
	const open = `{"properties": {"path": {"type": "string"}, "mode": {}}, "required": ["path"]}`
	for args, want := range map[string]string{
		`{"pth": "a"}`:              "argument path: is missing; argument pth: there is no such argument; did you mean path?",
		`{"comment": "a"}`:          "argument path: is missing",
		`{"path": "a", "pth": "b"}`: "",
	} {
		if got := check(t, open, args); got != want {
			t.Errorf("%s\n got %s\nwant %s", args, got, want)
		}
	}
}

func TestUnusableSchemaAcceptsEverything(t *testing.T) {
	for _, raw := range []string{
		"", "no JSON", "17", `{"type": "nonsense"}`, `{"$ref": "https://example.com/schema.json"}`, `{"$ref": "#/missing"}`,
		`{"properties": {"a": {"pattern": "(?<=a)b("}}}`, `{"$ref": "file:///etc/passwd"}`, `true`,
		`{"a": "` + strings.Repeat("x", 2<<20) + `"}`,
	} {
		if got := check(t, raw, `{"a": 1}`); got != "" {
			t.Errorf("%.60s: %s", raw, got)
		}
	}
	if got := check(t, "false", `{"a": 1}`); got == "" {
		t.Error("the schema false accepted an argument")
	}
	var zero schema.Schema
	if p := zero.Check(map[string]any{"a": 1}); p != nil {
		t.Error(p)
	}
}

// An unusable part of a schema does not switch off the check of the others, and what is left refuses
// nothing that the whole schema allows.
func TestUnusablePartIsDropped(t *testing.T) {
	for _, part := range []string{
		`{"$ref": "#/missing"}`, `{"$ref": "https://example.com/schema.json"}`, `{"type": "nonsense"}`, `{"pattern": "^(?=a)b"}`,
		`{"minimum": "3"}`, `{"enum": 7}`, `{"anyOf": []}`, `{"oneOf": [{"$ref": "#/missing"}, {"type": "string"}]}`, `5`,
		`{"not": {"$ref": "#/missing"}}`, `{"if": {"$ref": "#/missing"}, "then": false}`, `{"allOf": [{"$ref": "#/missing"}]}`,
		`{"oneOf": [{"not": {"pattern": "(?!x)"}}, {"type": "string"}]}`, `{"$schema": "https://example.com/own"}`,
		`{"type": "string", "exclusiveMinimum": true}`, `{"allOf": [{"patternProperties": {"(?!x)": false}}]}`,
	} {
		raw := `{"type": "object", "required": ["n"], "additionalProperties": false, "properties": {"n": {"type": "integer"}, "x": ` +
			part + `}}`
		for args, want := range map[string]string{
			`{"n": 1, "x": "a"}`: "", `{"n": 1}`: "", `{}`: "argument n: is missing",
			`{"n": "1", "x": "a"}`: "argument n: expected an integer, got a string",
		} {
			if got := check(t, raw, args); got != want {
				t.Errorf("%s, %s\n got %s\nwant %s", part, args, got, want)
			}
		}
	}
	const keyword = `{"properties": {"not": {"$ref": "#/missing"}, "oneOf": {"type": "integer"}}, "unevaluatedProperties": false, ` +
		`"allOf": [{"$ref": "#/gone"}]}`
	if got := check(t, keyword, `{"not": 1, "other": 2, "oneOf": "x"}`); got != "argument oneOf: expected an integer, got a string" {
		t.Error(got)
	}
}

func TestFill(t *testing.T) {
	const raw = `{"type": "object", "required": ["mode", "id", "list", "bad", "ref", "null"], "properties": {"id": {"type": "integer"},
		"mode": {"type": "string", "default": "fast"}, "list": {"type": "array", "default": [{"a": 1}]}, "bad": {"type": "integer", "default": "5"},
		"ref": {"$ref": "#/$defs/r"}, "null": {"type": ["string", "null"], "default": null}, "free": {"default": 3},
		"deep": {"anyOf": [{"type": "object", "required": ["m"], "properties": {"m": {"default": "x"}}}, {"type": "null"}]},
		"rows": {"type": "array", "items": {"required": ["r"], "properties": {"r": {"type": "number", "default": 1.50}}}}},
		"$defs": {"r": {"type": "boolean", "default": false}}}`
	for args, want := range map[string]string{
		`{}`: `{"mode":"fast","list":[{"a":1}],"ref":false,"null":null}`,
		`{"null":"x","mode":"slow","list":[],"ref":true,"deep":{"z":1},"rows":[{},{"r":2}]}`: `{"null":"x","mode":"slow","list":[],"ref":true,"deep":{"z":1,"m":"x"},"rows":[{"r":1.50},{"r":2}]}`,
		`{"deep":null,"rows":3,"mode":null,"list":0,"ref":0,"null":0}`:                       `{"deep":null,"rows":3,"mode":null,"list":0,"ref":0,"null":0}`,
	} {
		decoded, err := schema.DecodeObject(json.RawMessage(args))
		if err != nil {
			t.Fatal(err)
		}
		got, err := json.Marshal(schema.Compile(json.RawMessage(raw)).Fill(decoded))
		if err != nil || string(got) != want {
			t.Errorf("%s\n got %s, %v\nwant %s", args, got, err, want)
		}
	}
}

func TestCheckTerminatesForRecursiveSchema(t *testing.T) {
	for _, raw := range []string{`{"$ref": "#"}`, `{"allOf": [{"$ref": "#"}]}`,
		`{"anyOf": [{"$ref": "#/$defs/a"}], "$defs": {"a": {"$ref": "#/$defs/b"}, "b": {"$ref": "#/$defs/a"}}}`} {
		check(t, raw, `{"a": 1}`)
	}
}

func TestDecodeKeepsDigits(t *testing.T) {
	args, err := schema.Decode(json.RawMessage(`{"id": 12345678901234567890, "x": 1e400}`))
	if err != nil {
		t.Fatal(err)
	}
	b, err := json.Marshal(args)
	if err != nil || string(b) != `{"id":12345678901234567890,"x":1e400}` {
		t.Errorf("%s, %v", b, err)
	}
}

func BenchmarkCheck(b *testing.B) {
	s := schema.Compile(json.RawMessage(issues))
	for b.Loop() {
		args, err := schema.Decode(json.RawMessage(`{"owner": "a", "title": "b", "state": "open", "page": 3, "labels": ["x", "y"]}`))
		if err != nil || s.Check(args) != nil {
			b.Fatal(err)
		}
	}
}
