package tool_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/sandpiper-mcp/sandpiper/internal/tool"
)

func text(texts ...string) (r tool.Result) {
	for _, t := range texts {
		r.Parts = append(r.Parts, tool.Part{Kind: tool.Text, Text: t})
	}
	return r
}

// read returns r with a form.
func read(as tool.Form, r tool.Result) tool.Result {
	r.As = as
	return r
}

func TestIsWrapped(t *testing.T) {
	marked := json.RawMessage(`{"fastmcp":{"wrap_result":true}}`)
	for name, c := range map[string]struct {
		structured, text string
		meta             json.RawMessage
		want             bool
	}{
		"a list":                 {`{"result":[1, 2]}`, "[1,2]", nil, true},
		"a text":                 {`{"result":"hi"}`, "hi", nil, true},
		"marked":                 {`{"result":[]}`, "", marked, true},
		"marked, but more":       {`{"result":[],"more":1}`, "", marked, false},
		"an object of the tool":  {`{"result":2}`, `{"result":2}`, nil, false},
		"words about a result":   {`{"result":2}`, "the result is 2", nil, false},
		"another key":            {`{"value":2}`, "2", nil, false},
		"a text that says a key": {`{"result":"x"}`, `{"result":"x"}`, nil, false},
	} {
		r := text(c.text)
		r.Structured, r.Meta = json.RawMessage(c.structured), c.meta
		if got := r.IsWrapped(); got != c.want {
			t.Errorf("%s: %v", name, got)
		}
	}
}

func TestReturnsUnwrapsFastMCPSchema(t *testing.T) {
	for output, want := range map[string]string{
		`{"type":"object","properties":{"result":{"type":"array","items":{"$ref":"#/$defs/P"}}},"required":["result"],"x-fastmcp-wrap-result":true,"$defs":{"P":{"type":"object"}}}`: `{"$defs":{"P":{"type":"object"}},"items":{"$ref":"#/$defs/P"},"type":"array"}`,
		`{"type":"object","properties":{"result":{"type":"integer"}},"required":["result"],"x-fastmcp-wrap-result":true}`:                                                            `{"type":"integer"}`,
		`{"properties":{"result":true},"x-fastmcp-wrap-result":true}`:                                                                                                                `true`,
	} {
		if got, wrapped := (tool.Definition{Output: json.RawMessage(output)}).Returns(); !wrapped || string(got) != want {
			t.Errorf("%s, %v", got, wrapped)
		}
	}
	titled := `{"properties":{"result":{"title":"Result","type":"integer"}},"required":["result"],"title":"numOutput","type":"object"}`
	if got, wrapped := (tool.Definition{Ref: tool.Ref{Tool: "num"}, Output: json.RawMessage(titled)}).
		Returns(); !wrapped || string(got) != `{"title":"Result","type":"integer"}` {
		t.Errorf("%s, %v", got, wrapped)
	}
	for _, output := range []string{
		titled, // of another tool
		`{"type":"object","properties":{"result":{"type":"integer"}},"required":["result"]}`,
		`{"type":"object","properties":{"result":{},"more":{}},"x-fastmcp-wrap-result":true}`,
		`{"type":"object","properties":{"x-fastmcp-wrap-result":true}}`,
		`{"x-fastmcp-wrap-result":false,"properties":{"result":{}}}`, ``,
	} {
		if got, wrapped := (tool.Definition{Output: json.RawMessage(output)}).Returns(); wrapped || string(got) != output {
			t.Errorf("%s, %v", got, wrapped)
		}
	}
}

func TestValue(t *testing.T) {
	deep := strings.Repeat("[", 201) + strings.Repeat("]", 201)
	quoted, _ := json.Marshal(deep)
	for name, c := range map[string]struct {
		result tool.Result
		want   string
	}{
		"nothing":                {tool.Result{}, "null"},
		"an empty text":          {text(""), `""`},
		"words":                  {text("it rains"), `"it rains"`},
		"a number":               {text("42"), `"42"`},
		"a number, declared":     {read(tool.AsJSON, text("42")), "42"},
		"a string of JSON":       {text(`"a"`), `"\"a\""`},
		"JSON, decoded once":     {read(tool.AsJSON, text(`"{\"a\": 1}"`)), `"{\"a\": 1}"`},
		"an object that is text": {read(tool.AsText, text("{}")), `"{}"`},
		"a number, said to be":   {tool.Result{Parts: []tool.Part{{Kind: tool.Text, Text: "42", MIME: "application/json"}}}, "42"},
		"a wrapped value":        {read(tool.AsWrapped, tool.Result{Structured: json.RawMessage(`{"result": [1]}`)}), "[1]"},
		"text beside a structure": {read(tool.AsText, tool.Result{Structured: json.RawMessage(`{"a":1}`), Parts: text("a is 1").Parts}),
			`"a is 1"`},
		"an object":               {text(" {\"a\": [1]}\n"), `{"a": [1]}`},
		"no JSON":                 {text("007"), `"007"`},
		"more digits than an int": {text(strings.Repeat("9", 5000)), `"` + strings.Repeat("9", 5000) + `"`},
		"NaN":                     {text("NaN"), `"NaN"`},
		"two values":              {text("1 2"), `"1 2"`},
		"several texts":           {text("1", "two"), `["1","two"]`},
		"too deep":                {text(deep), string(quoted)},
		"deep enough":             {text(deep[1:401]), deep[1:401]},
		"brackets in a string":    {read(tool.AsJSON, text(`"`+deep+`"`)), `"` + deep + `"`},
		"structured and text":     {tool.Result{Structured: json.RawMessage(`{"a":1}`), Parts: text("a is 1").Parts}, `{"a":1}`},
		"one line of CSV":         {tool.Result{Parts: []tool.Part{{Kind: tool.Text, Text: "42", MIME: "text/csv"}}}, `"42"`},
		"what says it is JSON": {tool.Result{Parts: []tool.Part{{Kind: tool.Text, Text: "[42]", MIME: "application/problem+json"}}},
			"[42]"},
		"a broken character":     {text("a\xffb"), `"a\ufffdb"`},
		"what looks like markup": {text("<b> & </b>"), `"\u003cb\u003e \u0026 \u003c/b\u003e"`},
	} {
		if got, ok := c.result.Value(); !ok || string(got) != c.want {
			t.Errorf("%s: %s, %t; want %s", name, got, ok, c.want)
		}
	}
	if v, ok := (tool.Result{Parts: []tool.Part{{Kind: tool.Image, Data: []byte("x")}}}).Value(); ok {
		t.Errorf("Value of an image returned %s", v)
	}
}
