package redact

import (
	"bytes"
	"encoding/json"
	"strings"
	"unsafe"

	"github.com/sandpiper-mcp/sandpiper/internal/privacy/vault"
	"github.com/sandpiper-mcp/sandpiper/internal/rawjson"
)

// maxDepth limits decoding of JSON in strings of JSON.
const maxDepth = 3

// document is a text with edits. Everything between the edits is kept byte for byte.
type document struct {
	src    string
	edits  []edit // in order, without overlaps
	tokens *[]vault.Token
}

// edit replaces src[start:end]. A large text has hundreds of thousands: those that insert a
// token need no function.
type edit struct {
	start, end int32
	token      int32         // number in document.tokens, or noToken
	quoted     bool          // the token is written as a JSON string
	text       func() string // called when the document is written; nil: token
}

// noToken is for an edit that only removes text.
const noToken = -1

func (d *document) replace(start, end int, by func() string) {
	d.edits = append(d.edits, edit{start: int32(start), end: int32(end), text: by})
}

// replacement returns the text of an edit.
func (d *document) replacement(e edit) string {
	if e.text != nil {
		return e.text()
	}
	text := ""
	if e.token != noToken {
		text = string((*d.tokens)[e.token])
	}
	if e.quoted {
		return `"` + text + `"`
	}
	return text
}

// String returns the text with all edits applied.
func (d *document) String() string {
	if len(d.edits) == 0 {
		return d.src
	}
	var b strings.Builder
	b.Grow(len(d.src) + 16*len(d.edits))
	at := int32(0)
	for _, e := range d.edits {
		b.WriteString(d.src[at:e.start])
		b.WriteString(d.replacement(e))
		at = e.end
	}
	b.WriteString(d.src[at:])
	return b.String()
}

// between returns the edited text of src[start:end]. An edit that begins before start is
// omitted; one that begins before end is complete.
func (d *document) between(start, end int) string {
	var b strings.Builder
	at := start
	for _, e := range d.edits {
		from, to := int(e.start), int(e.end)
		switch {
		case to <= start && from < start, from >= end:
			continue
		case from < start:
			at = min(to, end)
			continue
		}
		b.WriteString(d.src[at:from])
		b.WriteString(d.replacement(e))
		at = min(to, end)
	}
	b.WriteString(d.src[at:end])
	return b.String()
}

// isJSON reports whether a text is a JSON object or array.
func isJSON(text string) bool {
	t := strings.TrimLeft(text, " \t\r\n")
	return t != "" && (t[0] == '{' || t[0] == '[') && rawjson.ValidString(text)
}

// quote encodes a JSON string in its shortest form.
func quote(s string) string {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	_ = enc.Encode(s) // a string always encodes
	return strings.TrimSuffix(b.String(), "\n")
}

// unquote decodes a JSON string.
func unquote(lit string) string {
	if strings.IndexByte(lit, '\\') < 0 {
		return lit[1 : len(lit)-1]
	}
	s, _ := rawjson.Unquote(unsafe.Slice(unsafe.StringData(lit), len(lit))) // lit comes from valid JSON
	return s
}
