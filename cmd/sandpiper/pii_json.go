package main

import (
	"bufio"
	"strings"
	"unicode"

	"github.com/sandpiper-mcp/sandpiper/internal/privacy/detect/encoded"
)

// escapedLetters decodes the letters of a JSON text that are written as escapes, such as \u00eb. It leaves
// the escapes of control characters, quotation marks and backslashes, so that the JSON means the same.
type escapedLetters struct {
	rest    string // an incomplete escape
	written int    // bytes of decoded text
	decoded []decodedEscape
}

// decodedEscape is an escape that was decoded to text at a position of the decoded text. The escape is longer
// by a number of bytes.
type decodedEscape struct{ at, more int }

// maxEscape is the length of the longest escape, a surrogate pair.
const maxEscape = len(`\ud83d\ude00`)

// decode returns the next piece of the decoded text. An escape that may be incomplete waits for the next
// piece, unless this is the last one.
func (e *escapedLetters) decode(piece string, last bool) string {
	piece, e.rest = e.rest+piece, ""
	var b strings.Builder
	for {
		i := strings.IndexByte(piece, '\\')
		if i < 0 {
			break
		}
		b.WriteString(piece[:i])
		if piece = piece[i:]; len(piece) < maxEscape && !last {
			e.rest, piece = piece, ""
			break
		}
		is, size := e.escape(piece)
		if len(is) < size {
			e.decoded = append(e.decoded, decodedEscape{e.written + b.Len(), size - len(is)})
		}
		b.WriteString(is)
		piece = piece[size:]
	}
	b.WriteString(piece)
	e.written += b.Len()
	return b.String()
}

// escape returns the decoded form of the escape at the start of text, and its size.
func (e *escapedLetters) escape(text string) (is string, size int) {
	if is, size = encoded.UnicodeEscape(text); size > 0 && strings.IndexFunc(is, isLeftEscaped) < 0 {
		return is, size
	}
	size = min(2, len(text))
	return text[:size], size
}

func isLeftEscaped(r rune) bool { return unicode.IsControl(r) || r == '"' || r == '\\' }

// longer returns by how many bytes the source is longer than the decoded text from start to end. It must be
// called with increasing positions.
func (e *escapedLetters) longer(start, end int) (n int) {
	for len(e.decoded) > 0 && e.decoded[0].at < start {
		e.decoded = e.decoded[1:]
	}
	for _, d := range e.decoded {
		if d.at >= end {
			break
		}
		n += d.more
	}
	return n
}

// beginsAsJSON reports whether a text begins with an object or an array.
func beginsAsJSON(in *bufio.Reader) bool {
	begin, _ := in.Peek(64)
	text := strings.TrimLeft(strings.TrimPrefix(string(begin), "\ufeff"), " \t\r\n")
	return strings.HasPrefix(text, "{") || strings.HasPrefix(text, "[")
}
