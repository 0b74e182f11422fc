package tool

import (
	"bytes"
	"encoding/json"
	"strings"
)

// Form is how the value of a result is read.
type Form string

const (
	// AsDefault is the structured content, or else one text, of which JSON objects and
	// arrays are decoded, and all JSON if the text is said to be JSON.
	AsDefault Form = ""
	AsJSON    Form = "json" // AsSaid, and a text is decoded if it is any JSON: the tool declares what it returns
	AsText    Form = "text" // one text is that text, whatever it looks like
	// AsWrapped is what is in the structured content under "result": see IsWrapped.
	AsWrapped Form = "inner"
)

// Value is the result as code gets it, if it can be said in JSON: what its Form
// says, a list of the texts if there are several, null if there is nothing. A result
// that holds bytes or links has no such value, and its parts are what code gets.
func (r Result) Value() (v json.RawMessage, ok bool) {
	for _, p := range r.Parts {
		if p.Kind != Text {
			return nil, false
		}
	}
	one := len(r.Parts) == 1
	switch {
	case one && r.As == AsText:
		return encode(r.Parts[0].Text), true
	case r.Structured != nil && r.As == AsWrapped:
		if inner, ok := inner(r.Structured); ok {
			return inner, true
		}
		return r.Structured, true
	case r.Structured != nil:
		return r.Structured, true
	case len(r.Parts) == 0:
		return json.RawMessage("null"), true
	case one:
		return r.Parts[0].value(r.As), true
	}
	texts := make([]string, len(r.Parts))
	for i, p := range r.Parts {
		texts[i] = p.Text
	}
	return encode(texts), true
}

// value is what a text says.
func (p Part) value(as Form) json.RawMessage {
	if saysNoJSON(p.MIME) {
		return encode(p.Text)
	}
	v := decoded(p.Text)
	if v[0] == '{' || v[0] == '[' || as == AsJSON || strings.Contains(p.MIME, "json") {
		return v
	}
	return encode(p.Text)
}

// Evidence is what an answer says about the type of its tool's results.
type Evidence int

const (
	NoEvidence   Evidence = iota
	TextEvidence          // one text that is no JSON
)

// Evidence reports what the result says about the type of its tool's results. Neither an
// empty text nor JSON in a text says anything.
func (r Result) Evidence() Evidence {
	if r.Structured != nil || len(r.Parts) != 1 || r.Parts[0].Kind != Text {
		return NoEvidence
	}
	text := strings.TrimSpace(r.Parts[0].Text)
	if text == "" || json.Valid([]byte(text)) && !saysNoJSON(r.Parts[0].MIME) {
		return NoEvidence
	}
	return TextEvidence
}

// IsWrapped reports whether the structured content of a result without a declared
// type is the wrapper {"result": value} that FastMCP puts around values that are no
// objects: the text beside it is the value alone.
func (r Result) IsWrapped() bool {
	value, ok := inner(r.Structured)
	if !ok {
		return false
	}
	var meta struct {
		FastMCP struct {
			Wrap bool `json:"wrap_result"`
		} `json:"fastmcp"`
	}
	if json.Unmarshal(r.Meta, &meta) == nil && meta.FastMCP.Wrap {
		return true
	}
	if len(r.Parts) != 1 || r.Parts[0].Kind != Text {
		return false
	}
	var text string
	if json.Unmarshal(value, &text) == nil {
		return text == r.Parts[0].Text
	}
	return same(value, []byte(r.Parts[0].Text))
}

// inner is the value of an object that has "result" and nothing else.
func inner(structured json.RawMessage) (value json.RawMessage, ok bool) {
	var fields map[string]json.RawMessage
	if len(structured) == 0 || json.Unmarshal(structured, &fields) != nil || len(fields) != 1 {
		return nil, false
	}
	value, ok = fields["result"]
	return value, ok
}

// same reports whether two texts are the same JSON but for blanks.
func same(a, b []byte) bool {
	var x, y bytes.Buffer
	return json.Compact(&x, a) == nil && json.Compact(&y, b) == nil && bytes.Equal(x.Bytes(), y.Bytes())
}

// Returns is the schema of what code gets from the tool, and whether that is what its
// structured content has under "result". FastMCP makes such schemas of functions that
// return no object: it marks them, or, in the SDK for Python, gives them titles.
func (d Definition) Returns() (schema json.RawMessage, wrapped bool) {
	var root map[string]json.RawMessage
	var properties, result map[string]json.RawMessage
	if !bytes.Contains(d.Output, []byte(`"result"`)) || json.Unmarshal(d.Output, &root) != nil ||
		json.Unmarshal(root["properties"], &properties) != nil || len(properties) != 1 || properties["result"] == nil {
		return d.Output, false
	}
	whole := json.Unmarshal(properties["result"], &result) != nil // a boolean
	marked := string(root["x-fastmcp-wrap-result"]) == "true"
	titled := string(root["title"]) == string(encode(d.Tool+"Output")) && string(result["title"]) == `"Result"` && string(root["required"]) == `["result"]`
	switch {
	case !marked && !titled:
		return d.Output, false
	case whole:
		return properties["result"], true
	}
	for _, shared := range []string{"$defs", "definitions"} { // that the result refers to
		if defs := root[shared]; defs != nil && result[shared] == nil {
			result[shared] = defs
		}
	}
	return encode(result), true
}

// Text is what the parts say in words, for a message.
func (r Result) Text() string {
	var texts []string
	for _, p := range r.Parts {
		if p.Kind == Text && p.Text != "" {
			texts = append(texts, p.Text)
		}
	}
	return strings.Join(texts, "\n")
}

// decoded is the JSON that the text is, or else the text, as JSON. JSON that is
// nested deeper than code could take apart stays text.
func decoded(text string) json.RawMessage {
	t := []byte(strings.TrimSpace(text))
	if !json.Valid(t) || depth(t) > maxDepth || number(t) && len(t) > maxDigits {
		return encode(text)
	}
	return t
}

// saysNoJSON tells whether a text is said to be something else, such as CSV, of
// which the one line 42 is no number.
func saysNoJSON(mime string) bool { return mime != "" && !strings.Contains(mime, "json") }

// maxDigits is how long a number alone may be: Python reads no integer of more
// than 4,300 digits, and what is that long is a text of digits.
const maxDigits = 4000

func number(valid []byte) bool { return valid[0] == '-' || valid[0] >= '0' && valid[0] <= '9' }

// maxDepth is how deeply nested JSON may be for Python's own parser.
const maxDepth = 200

// depth is how deeply valid JSON is nested.
func depth(b []byte) int {
	deepest, now := 0, 0
	for len(b) > 0 {
		i := bytes.IndexAny(b, `"{}[]`)
		if i < 0 {
			break
		}
		switch c := b[i]; c {
		case '"':
			b = b[i+1+closing(b[i+1:]):]
			continue
		case '{', '[':
			now++
			deepest = max(deepest, now)
		default:
			now--
		}
		b = b[i+1:]
	}
	return deepest
}

// closing is the length of the rest of a string, with its closing quote.
func closing(b []byte) int {
	for i := 0; i < len(b); i++ {
		switch b[i] {
		case '\\':
			i++
		case '"':
			return i + 1
		}
	}
	return len(b)
}

func encode(v any) json.RawMessage {
	b, err := json.Marshal(v)
	if err != nil { // strings always can be
		panic(err)
	}
	return b
}
