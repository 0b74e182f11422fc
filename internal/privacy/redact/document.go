package redact

import (
	"bytes"
	"encoding/json"
	"strings"
)

// deepest is how deep JSON in strings of JSON is looked into.
const maxDepth = 3

// document is a text, or a JSON text, with the places where something else is to
// stand. Everything between them stays byte for byte as it is.
type document struct {
	src   string
	edits []edit // in order, without overlaps
}

// edit replaces src[start:end].
type edit struct {
	start, end int
	text       func() string // asked when the document is written
}

func (d *document) replace(start, end int, by func() string) {
	d.edits = append(d.edits, edit{start, end, by})
}

// String writes the document.
func (d *document) String() string {
	if len(d.edits) == 0 {
		return d.src
	}
	var b strings.Builder
	b.Grow(len(d.src) + 16*len(d.edits))
	at := 0
	for _, e := range d.edits {
		b.WriteString(d.src[at:e.start])
		b.WriteString(e.text())
		at = e.end
	}
	b.WriteString(d.src[at:])
	return b.String()
}

// part writes what begins in src[start:end].
func (d *document) part(start, end int) string {
	var b strings.Builder
	at := start
	for _, e := range d.edits {
		switch {
		case e.end <= start && e.start < start, e.start >= end:
			continue
		case e.start < start:
			at = min(e.end, end)
			continue
		}
		b.WriteString(d.src[at:e.start])
		b.WriteString(e.text())
		at = min(e.end, end)
	}
	b.WriteString(d.src[at:end])
	return b.String()
}

// isJSON reports whether a text is an object or a list.
func isJSON(text string) bool {
	t := strings.TrimLeft(text, " \t\r\n")
	return t != "" && (t[0] == '{' || t[0] == '[') && json.Valid([]byte(text))
}

// quote writes a JSON string as short as it can be.
func quote(s string) string {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	_ = enc.Encode(s) // a string always encodes
	return strings.TrimSuffix(b.String(), "\n")
}

// unquote reads a JSON string.
func unquote(lit string) string {
	if strings.IndexByte(lit, '\\') < 0 {
		return lit[1 : len(lit)-1]
	}
	var s string
	_ = json.Unmarshal([]byte(lit), &s) // it was found in valid JSON
	return s
}
