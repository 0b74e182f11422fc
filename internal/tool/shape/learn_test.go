package shape_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/sandpiper-mcp/sandpiper/internal/tool/shape"
)

func learned(values ...string) string {
	var t shape.Type
	for _, v := range values {
		t = t.Merge(shape.Learn([]byte(v)))
	}
	return string(t.Schema())
}

func TestLearn(t *testing.T) {
	many := make([]string, 40)
	for i := range many {
		many[i] = fmt.Sprintf(`"field_%c%c": 1`, 'a'+i/26, 'a'+i%26)
	}
	for name, c := range map[string]struct {
		values []string
		want   string
	}{
		"nothing":   {nil, `{}`},
		"a number":  {[]string{"1"}, `{"type":"integer"}`},
		"two kinds": {[]string{"1", `"a"`}, `{"type":["integer","string"]}`},
		"numbers":   {[]string{"1", "1.5"}, `{"type":"number"}`},
		"dates": {[]string{`["2026-01-31","2025-12-01"]`, `[null]`},
			`{"items":{"format":"date","type":["null","string"]},"type":"array"}`},
		"dates and words": {[]string{`["2026-01-31"]`, `["today"]`, `["2026-01-31"]`}, `{"items":{"type":"string"},"type":"array"}`},
		"times": {[]string{`"2026-01-31T09:30:00Z"`, `"2026-01-31T09:30:00.5+02:00"`},
			`{"format":"date-time","type":"string"}`},
		"addresses":     {[]string{`"https://example.com/a"`}, `{"format":"uri","type":"string"}`},
		"decimals":      {[]string{`"12.50"`, `"-0.5"`}, `{"format":"decimal","type":"string"}`},
		"digits":        {[]string{`"1250"`, `"1.2.3"`, `"."`, `"1e5"`}, `{"type":"string"}`},
		"an empty list": {[]string{"[]"}, `{"type":"array"}`},
		"a list": {[]string{`[{"a":1},{"a":null,"b":"x"}]`},
			`{"items":{"properties":{"a":{"type":["integer","null"]},"b":{"type":"string"}},"required":["a"],"type":"object"},"type":"array"}`},
		"a later field": {[]string{`{"a":1}`, `{"a":2,"b":true}`},
			`{"properties":{"a":{"type":"integer"},"b":{"type":"boolean"}},"required":["a"],"type":"object"}`},
		"an empty object": {[]string{`{"a":1}`, `{}`}, `{"properties":{"a":{"type":"integer"}},"type":"object"}`},
		"addresses as keys": {[]string{`{"ann@example.com": {"n": 1}}`},
			`{"additionalProperties":{"properties":{"n":{"type":"integer"}},"required":["n"],"type":"object"},"type":"object"}`},
		"numbers as keys": {[]string{`{"2024-01-05": 1, "2024-01-06": 2.5}`},
			`{"additionalProperties":{"type":"number"},"type":"object"}`},
		"names as keys": {[]string{`{"Ann": 1, "Bob": 2.5}`}, `{"additionalProperties":{"type":"number"},"type":"object"}`},
		"a name as key": {[]string{`{"ann": {"total": 1}}`},
			`{"additionalProperties":{"properties":{"total":{"type":"integer"}},"required":["total"],"type":"object"},"type":"object"}`},
		"lists by name": {[]string{`{"ann": [1], "bob": []}`},
			`{"additionalProperties":{"items":{"type":"integer"},"type":"array"},"type":"object"}`},
		"identifiers": {[]string{`{"cus_9Xk2LmQ4": {"n": 1}, "id": 4}`},
			`{"additionalProperties":{"properties":{"n":{"type":"integer"}},"required":["n"],"type":["integer","object"]},"type":"object"}`},
		"currencies": {[]string{`{"EUR": 1, "CHF": null}`}, `{"additionalProperties":{"type":["integer","null"]},"type":"object"}`},
		"fields of one type": {[]string{`{"width": 1, "height": 2, "nextPage": 3, "total_cents": 4}`},
			`{"properties":{"height":{"type":"integer"},"nextPage":{"type":"integer"},"total_cents":{"type":"integer"},"width":{"type":"integer"}},"required":["height","nextPage","total_cents","width"],"type":"object"}`},
		"very many keys": {[]string{"{" + strings.Join(many, ",") + "}"},
			`{"additionalProperties":{"type":"integer"},"type":"object"}`},
		"a list or a string": {[]string{`[1]`, `"none"`}, `{"items":{"type":"integer"},"type":["array","string"]}`},
		"data, then fields": {[]string{`{"ann@example.com": 1}`, `{"a":"x"}`},
			`{"additionalProperties":{"type":["integer","string"]},"type":"object"}`},
	} {
		if got := learned(c.values...); got != c.want {
			t.Errorf("%s:\n got %s\nwant %s", name, got, c.want)
		}
	}
}

func TestLearnTreatsVaryingKeysAsData(t *testing.T) {
	var values []string
	for i := range 20 {
		values = append(values, fmt.Sprintf(`{"%c%c": 1, "%c%c": 2}`, 'a'+i, 'a', 'a'+i, 'b'))
	}
	if got := learned(values...); got != `{"additionalProperties":{"type":"integer"},"type":"object"}` {
		t.Error(got)
	}
}

func TestLearnKeepsNoValues(t *testing.T) {
	typ := shape.Learn([]byte(`{"secret": "hunter2", "list": ["hunter2", {"x": "hunter2", "hunter2@example.com": 1}], "deep": ` +
		`[[[[[[[[[["hunter2"]]]]]]]]]]}`))
	b, err := json.Marshal(typ)
	if err != nil || strings.Contains(string(b), "hunter2") {
		t.Errorf("%s, %v", b, err)
	}
	var back shape.Type
	if err := json.Unmarshal(b, &back); err != nil || string(back.Schema()) != string(typ.Schema()) {
		t.Errorf("%s became %s, %v", typ.Schema(), back.Schema(), err)
	}
}

func FuzzLearn(f *testing.F) {
	f.Add(`{"a":[1,{"b":null}]}`, `[{},{"a":1}]`)
	f.Fuzz(func(t *testing.T, a, b string) {
		ab := shape.Learn([]byte(a)).Merge(shape.Learn([]byte(b)))
		if !json.Valid(ab.Schema()) {
			t.Error(ab.Schema())
		}
	})
}
