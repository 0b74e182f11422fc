package tool

import (
	"bytes"
	"encoding/json"
	"strings"

	"github.com/sandpiper-mcp/sandpiper/internal/rawjson"
)

// Form selects how Result.Value interprets a result.
type Form string

const (
	// AsDefault takes the structured content, or else the text. A text is decoded if
	// it is a JSON object or array, or any JSON with a JSON media type.
	AsDefault Form = ""
	AsJSON    Form = "json" // AsDefault, but any JSON text is decoded: the tool declares its result
	AsText    Form = "text" // a single text stays text
	// AsWrapped takes "result" of the structured content: see IsWrapped.
	AsWrapped Form = "inner"
)

// Value returns the result as JSON for code: according to its Form, a list if there
// are several texts, null if it is empty. It returns false for a result with bytes or
// links, for which code receives the parts.
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

// value decodes a text part.
func (p Part) value(as Form) json.RawMessage {
	if excludesJSON(p.MIME) {
		return encode(p.Text)
	}
	v := decoded(p.Text)
	if v[0] == '{' || v[0] == '[' || as == AsJSON || strings.Contains(p.MIME, "json") {
		return v
	}
	return encode(p.Text)
}

// IsWrapped reports whether the structured content of a result without a declared
// type is {"result": value}, in which FastMCP wraps values that are not objects. The
// text of such a result is the value without the wrapper.
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
	return equalJSON(value, []byte(r.Parts[0].Text))
}

// inner returns the value of "result" if the object has no other key.
func inner(structured json.RawMessage) (value json.RawMessage, ok bool) {
	if len(structured) == 0 || structured[0] != '{' || !bytes.HasPrefix(structured[rawjson.Space(structured, 1):], []byte(`"result"`)) {
		return nil, false
	}
	_ = rawjson.EachMember(structured, func(key, v []byte) bool {
		ok = value == nil && string(key) == `"result"`
		value = v
		return ok
	})
	return value, ok
}

// equalJSON reports whether two JSON texts are equal except for whitespace.
func equalJSON(a, b []byte) bool {
	var x, y bytes.Buffer
	return json.Compact(&x, a) == nil && json.Compact(&y, b) == nil && bytes.Equal(x.Bytes(), y.Bytes())
}

// Returns returns the schema of the value that code receives, and whether that value
// is "result" of the structured content. FastMCP generates such schemas for functions
// that do not return an object: it marks them, and the Python SDK sets titles.
func (d Definition) Returns() (schema json.RawMessage, wrapped bool) {
	var root map[string]json.RawMessage
	var properties, result map[string]json.RawMessage
	if !bytes.Contains(d.Output, []byte(`"result"`)) || json.Unmarshal(d.Output, &root) != nil ||
		json.Unmarshal(root["properties"], &properties) != nil || len(properties) != 1 || properties["result"] == nil {
		return d.Output, false
	}
	whole := json.Unmarshal(properties["result"], &result) != nil // a boolean
	marked := string(root["x-fastmcp-wrap-result"]) == "true"
	titled := string(root["title"]) == string(encode(d.Tool+"Output")) && string(result["title"]) == `"Result"` &&
		string(root["required"]) == `["result"]`
	switch {
	case !marked && !titled:
		return d.Output, false
	case whole:
		return properties["result"], true
	}
	for _, shared := range []string{"$defs", "definitions"} { // the result may refer to them
		if defs := root[shared]; defs != nil && result[shared] == nil {
			result[shared] = defs
		}
	}
	return encode(result), true
}

// Text joins the texts of the parts, for a message.
func (r Result) Text() string {
	var texts []string
	for _, p := range r.Parts {
		if p.Kind == Text && p.Text != "" {
			texts = append(texts, p.Text)
		}
	}
	return strings.Join(texts, "\n")
}

// decoded returns the text if it is JSON, else the text as a JSON string. JSON nested
// deeper than maxDepth stays text.
func decoded(text string) json.RawMessage {
	t := []byte(strings.TrimSpace(text))
	if depth, ok := rawjson.Scan(t); !ok || depth > maxDepth || number(t) && len(t) > maxDigits {
		return encode(text)
	}
	return t
}

// excludesJSON reports whether the media type excludes JSON: a CSV of the line 42 is not
// a number.
func excludesJSON(mime string) bool { return mime != "" && !strings.Contains(mime, "json") }

// maxDigits is the maximum length of a text that is decoded as a number: Python does
// not parse integers of more than 4,300 digits.
const maxDigits = 4000

func number(valid []byte) bool { return valid[0] == '-' || valid[0] >= '0' && valid[0] <= '9' }

// maxDepth is the maximum nesting depth that Python's JSON parser is given.
const maxDepth = 200

func encode(v any) json.RawMessage {
	b, err := json.Marshal(v)
	if err != nil { // strings always can be
		panic(err)
	}
	return b
}
