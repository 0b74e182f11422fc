package schema_test

import "testing"

func TestAlternativesSayWhatIsWrong(t *testing.T) {
	const (
		either = `{"type":"object","anyOf":[{"properties":{"a":{"type":"string"}},"required":["a","b"]},{"properties":{"a":{"type":"integer"}},"required":["a"]}]}`
		nested = `{"properties":{"where":{"oneOf":[{"type":"object","properties":{"id":{"type":"integer"}},"required":["id"]},{"type":"object","properties":{"name":{"type":"string"}},"required":["name"],"additionalProperties":false}]},
			"rows":{"items":{"anyOf":[{"required":["x"]},{"required":["y"]}]}}}}`
		kinds = `{"oneOf":[{"properties":{"kind":{"const":"x"},"n":{"type":"integer"}},"required":["kind","n"]},{"properties":{"kind":{"enum":["y","z"]}},"required":["kind"]},{"properties":{"kind":{"const":"w"}},"required":["kind"]}]}`
		many  = `{"anyOf":[{"required":["a"]},{"required":["b"]},{"required":["c"]},{"required":["d"]},{"required":["e"]},{"required":["f"]}]}`
		deep  = `{"anyOf":[{"properties":{"a":{"anyOf":[{"required":["x"]},{"required":["y"]}]}},"required":["a"]},{"required":["b"]}]}`
		both  = `{"oneOf":[{"required":["a"]},{"required":["b"]}]}`
		wide  = `{"anyOf":[{"properties":{"a":{"type":"integer"},"b":{"minimum":3},"c":{"maxLength":1}}},{"required":["d"]}]}`
	)
	for _, row := range []struct{ schema, args, want string }{
		{either, `{"a": "x"}`, "fits none of 2 alternatives: 1 needs b; 2 a must be an integer"},
		{either, `{"a": "x", "b": 1}`, ""},
		{either, `{}`, "fits none of 2 alternatives: 1 needs a, b; 2 needs a"},
		{nested, `{"where": {"id": "x"}}`, "argument where: fits none of 2 alternatives: 1 id must be an integer; 2 needs name, has no id"},
		{nested, `{"where": 5}`, "argument where: expected a dict, got a number"},
		{nested, `{"rows": [{"x": 1}, {}]}`, "argument rows[1]: fits none of 2 alternatives: 1 needs x; 2 needs y"},
		{kinds, `{"kind": "x"}`, "fits none of 3 alternatives: 1 needs n"},
		{kinds, `{"kind": "v"}`, `fits none of 3 alternatives: 1 needs n, kind must be "x"; 2 kind must be one of "y", "z"; 3 kind ` +
			`must be "w"`},
		{many, `{}`, "fits none of 6 alternatives: 1 needs a; 2 needs b; 3 needs c; 4 needs d; and 2 more"},
		{deep, `{"a": {}}`, "fits none of 2 alternatives: 1 a fits none of 2 alternatives; 2 needs b"},
		{both, `{"a": 1, "b": 2}`, "fits the alternatives 1 and 2, but must fit exactly one"},
		{`{"properties":{"t":{"anyOf":[{"enum":["a"]},{"type":"array"}]}}}`, `{"t": "b"}`,
			`argument t: fits none of 2 alternatives: 1 must be one of "a"; 2 must be a list`},
		{wide, `{"a": "x", "b": 1, "c": "xx"}`, "fits none of 2 alternatives: 1 a must be an integer, b expected at least 3, …; 2 needs d"},
	} {
		if got := check(t, row.schema, row.args); got != row.want {
			t.Errorf("%s\n got %s\nwant %s", row.args, got, row.want)
		}
	}
}
