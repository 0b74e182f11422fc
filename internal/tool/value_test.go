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

func TestTheValueIsTheOneThatCodeExpects(t *testing.T) {
	deep := strings.Repeat("[", 201) + strings.Repeat("]", 201)
	quoted, _ := json.Marshal(deep)
	for name, c := range map[string]struct {
		result tool.Result
		want   string
	}{
		"nothing":                 {tool.Result{}, "null"},
		"an empty text":           {text(""), `""`},
		"words":                   {text("it rains"), `"it rains"`},
		"a number":                {text("42"), "42"},
		"JSON, decoded once":      {text(`"{\"a\": 1}"`), `"{\"a\": 1}"`},
		"an object":               {text(" {\"a\": [1]}\n"), `{"a": [1]}`},
		"no JSON":                 {text("007"), `"007"`},
		"more digits than an int": {text(strings.Repeat("9", 5000)), `"` + strings.Repeat("9", 5000) + `"`},
		"NaN":                     {text("NaN"), `"NaN"`},
		"two values":              {text("1 2"), `"1 2"`},
		"several texts":           {text("1", "two"), `["1","two"]`},
		"too deep":                {text(deep), string(quoted)},
		"deep enough":             {text(deep[1:401]), deep[1:401]},
		"brackets in a string":    {text(`"` + deep + `"`), `"` + deep + `"`},
		"structured and text":     {tool.Result{Structured: json.RawMessage(`{"a":1}`), Parts: text("a is 1").Parts}, `{"a":1}`},
		"one line of CSV":         {tool.Result{Parts: []tool.Part{{Kind: tool.Text, Text: "42", MIME: "text/csv"}}}, `"42"`},
		"what says it is JSON":    {tool.Result{Parts: []tool.Part{{Kind: tool.Text, Text: "[42]", MIME: "application/problem+json"}}}, "[42]"},
		"a broken character":      {text("a\xffb"), `"a\ufffdb"`},
		"what looks like markup":  {text("<b> & </b>"), `"\u003cb\u003e \u0026 \u003c/b\u003e"`},
	} {
		if got, ok := c.result.Value(); !ok || string(got) != c.want {
			t.Errorf("%s: %s, %t; want %s", name, got, ok, c.want)
		}
	}
	if v, ok := (tool.Result{Parts: []tool.Part{{Kind: tool.Image, Data: []byte("x")}}}).Value(); ok {
		t.Errorf("an image is the JSON %s", v)
	}
}
