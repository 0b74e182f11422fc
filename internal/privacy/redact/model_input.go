package redact

import (
	"encoding/json"
	"slices"
	"strings"
)

// ModelInput is the text that a model wrote in a call, verbatim. The zero ModelInput
// is empty.
type ModelInput struct{ text string }

// maxModelInput limits the bytes kept of a call. Values after the limit are replaced
// as usual.
const maxModelInput = 256 << 10

// NewModelInput collects the text in the arguments of a call, except in those named.
// Tokens are not restored.
func NewModelInput(args json.RawMessage, except ...string) ModelInput {
	if !json.Valid(args) {
		return ModelInput{}
	}
	src := string(args)
	var b strings.Builder
	literals(src, func(l literal) {
		if l.isKey || slices.Contains(except, l.arg) || b.Len() > maxModelInput {
			return
		}
		text := src[l.start:l.end]
		if !l.number {
			text = unquote(text)
		}
		b.WriteString(text)
		b.WriteByte('\n')
	})
	return ModelInput{b.String()}
}

// contains reports whether value occurs in the text as separate words.
func (w ModelInput) contains(value string) bool {
	for at := 0; value != ""; {
		i := strings.Index(w.text[at:], value)
		if i < 0 {
			return false
		}
		at += i
		if !isSameWord(w.text[:at], value) && !isSameWord(value, w.text[at+len(value):]) {
			return true
		}
		at++
	}
	return false
}
