package tool

import (
	"bytes"
	"encoding/json"
	"strings"
)

// Value is the result as code gets it, if it can be said in JSON: the structured
// content; else one text, which, if it is JSON and does not say that it is
// something else, is decoded once; else a list of the texts; null if there is nothing. A result that holds bytes or links has
// no such value, and its parts are what code gets.
func (r Result) Value() (v json.RawMessage, ok bool) {
	for _, p := range r.Parts {
		if p.Kind != Text {
			return nil, false
		}
	}
	switch {
	case r.Structured != nil:
		return r.Structured, true
	case len(r.Parts) == 0:
		return json.RawMessage("null"), true
	case len(r.Parts) == 1 && saysNoJSON(r.Parts[0].MIME):
		return encode(r.Parts[0].Text), true
	case len(r.Parts) == 1:
		return decoded(r.Parts[0].Text), true
	}
	texts := make([]string, len(r.Parts))
	for i, p := range r.Parts {
		texts[i] = p.Text
	}
	return encode(texts), true
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
