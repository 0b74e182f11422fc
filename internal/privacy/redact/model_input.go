package redact

import (
	"encoding/json"
	"slices"
	"strings"
	"unicode/utf8"
)

// Written is what a model wrote in a call, word for word. The zero Written is
// nothing.
type ModelInput struct{ text string }

// mostWritten bounds what is kept of a call; what is written behind it is replaced.
const maxModelInput = 256 << 10

// Wrote returns what is written in the arguments of a call, except in some of them.
// Tokens are tokens there, not their values.
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

// has reports whether a value stands somewhere by itself.
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

// joins reports whether a word goes on from the end of before into after.
func isSameWord(before, after string) bool {
	last, _ := utf8.DecodeLastRuneInString(before)
	first, _ := utf8.DecodeRuneInString(after)
	return before != "" && after != "" && isWord(last) && isWord(first)
}
