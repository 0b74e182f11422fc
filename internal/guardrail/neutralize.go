package guardrail

import (
	"strconv"
	"strings"
)

// neutralize breaks what a client would load by itself, and thereby send data to the
// named address: images in Markdown, and tags of HTML and SVG with remote addresses.
// Escape sequences of terminals are made visible.
func (e *edits) neutralize(text string, js bool) {
	if strings.Contains(text, "![") {
		e.images(text, js)
	}
	if strings.IndexByte(text, '<') >= 0 {
		e.tags(text, js)
	}
	if js {
		e.escapes(text)
	}
	e.controls(text, js)
}

// images separates the '!' of an image from its '['. Bracket matching in Markdown is
// complex, so it breaks all images opened in the paragraph.
func (e *edits) images(text string, js bool) {
	refs := remoteReferences(text, js)
	var opened []int
	last := 0 // '['
	for i := 0; i < len(text); i++ {
		switch c := text[i]; {
		case c == '[':
			last = i
			if i > 0 && text[i-1] == '!' {
				opened = append(opened, i)
			}
		case len(opened) == 0:
		case c == ']':
			inline := i+1 < len(text) && text[i+1] == '('
			if inline && !isLocal(text[i+2:], js) || refs[normalizeLabel(text[last+1:i])] {
				for _, at := range opened {
					e.put(at, at, " ")
				}
				opened = opened[:0]
			}
		case endsParagraph(text[i:], js):
			opened = opened[:0]
		}
	}
}

// remoteReferences returns the labels of link definitions with remote addresses.
func remoteReferences(text string, js bool) (all map[string]bool) {
	last := 0
	for i := 0; i+1 < len(text); i++ {
		switch {
		case text[i] == '[':
			last = i
		case text[i] == ']' && text[i+1] == ':' && !isLocal(text[i+2:], js):
			if all == nil {
				all = map[string]bool{}
			}
			all[normalizeLabel(text[last+1:i])] = true
		}
	}
	return all
}

// normalizeLabel normalizes a label approximately as Markdown does.
func normalizeLabel(s string) string {
	if len(s) > 1000 {
		return ""
	}
	return strings.ToLower(strings.Join(strings.Fields(strings.ReplaceAll(s, `\n`, " ")), " "))
}

// endsParagraph reports whether rest begins with the end of a paragraph.
func endsParagraph(rest string, js bool) bool {
	if js {
		return rest[0] == '\\' && (strings.HasPrefix(rest, `\n\n`) || strings.HasPrefix(rest, `\r\n\r\n`))
	}
	return strings.HasPrefix(rest, "\n\n") || strings.HasPrefix(rest, "\r\n\r\n")
}

// isLocal reports whether the address at the beginning of rest is certainly not
// remote: a path, or image data.
func isLocal(rest string, js bool) bool {
	rest = skipSpace(rest, js)
	if len(rest) > 11 && strings.EqualFold(rest[:11], "data:image/") {
		return true
	}
	if strings.HasPrefix(rest, "//") {
		return false
	}
	end := 0
	for end < len(rest) && isPath[rest[end]] {
		end++
	}
	if end == len(rest) || strings.IndexByte(" )>\"'\n\t\r?#", rest[end]) >= 0 {
		return true
	}
	return js && rest[end] == '\\' && strings.IndexByte(`nrt"`, rest[end+1]) >= 0 // in JSON something follows
}

// skipSpace skips white space and the '<' before an address.
func skipSpace(rest string, js bool) string {
	for rest != "" {
		switch {
		case strings.IndexByte(" \n\t\r<", rest[0]) >= 0:
			rest = rest[1:]
		case js && rest[0] == '\\' && strings.IndexByte("nrt", rest[1]) >= 0:
			rest = rest[2:]
		default:
			return rest
		}
	}
	return rest
}

var isPath = func() (is [256]bool) {
	for c := range 128 {
		is[c] = c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || strings.IndexByte("_./~-", byte(c)) >= 0
	}
	return is
}()

// loadingTags load the address that they name; activeTags may load or run without one.
var (
	loadingTags = tagNames("img image video audio source track iframe frame object embed link input use feimage base body table td th")
	activeTags  = tagNames("svg style script")
)

func tagNames(s string) map[string]bool {
	all := map[string]bool{}
	for n := range strings.FieldsSeq(s) {
		all[n] = true
	}
	return all
}

// maxTag limits the bytes of a tag that are inspected; a longer tag counts as remote.
const maxTag = 1 << 10

// tags separates the '<' of a tag from its name, which turns it into text.
func (e *edits) tags(text string, js bool) {
	for i := 0; i < len(text); i++ {
		next := strings.IndexByte(text[i:], '<')
		if next < 0 {
			return
		}
		i += next
		name := tagName(text[i+1:])
		if name == "" {
			continue
		}
		tag := text[i+1+len(name) : min(len(text), i+maxTag)]
		end := strings.IndexByte(tag, '>')
		if end >= 0 {
			tag = tag[:end]
		}
		name = strings.ToLower(name)
		long := end < 0 && len(tag) > maxTag/2
		switch {
		case activeTags[name], loadingTags[name] && (long || strings.Contains(tag, "//") || strings.ContainsAny(tag, "&:") ||
			!js && strings.Contains(tag, `\`)), strings.Contains(tag, "url("):
			e.put(i+1, i+1, " ")
		}
	}
}

func tagName(rest string) string {
	const longest = 16
	n := 0
	for n < min(len(rest), longest) && (rest[n]|0x20 >= 'a' && rest[n]|0x20 <= 'z' || n > 0 && rest[n] >= '0' && rest[n] <= '9') {
		n++
	}
	return rest[:n]
}

// escapes makes control characters visible that are escaped in JSON.
func (e *edits) escapes(text string) {
	for i := 0; ; i += 2 {
		next := strings.IndexByte(text[i:], '\\')
		if next < 0 {
			return
		}
		i += next
		switch text[i+1] { // in JSON something follows
		case 'b':
			e.put(i, i+2, visibleForm('\b'))
		case 'f':
			e.put(i, i+2, visibleForm('\f'))
		case 'u':
			if c, err := strconv.ParseUint(text[i+2:i+6], 16, 16); err == nil && c < ' ' {
				e.put(i, i+6, visibleForm(byte(c)))
			}
		}
	}
}

// controls makes literal control characters visible.
func (e *edits) controls(text string, js bool) {
	for i := range len(text) {
		switch c := text[i]; {
		case c >= ' ' && c < 0x7f, c > 0xc2, c == '\n', c == '\t', c == '\r':
		case c == 0xc2 && i+1 < len(text) && text[i+1] >= 0x80 && text[i+1] < 0xa0: // C1 control: equals ESC and a letter
			letter := string(rune(text[i+1] - 0x40))
			if js && letter == `\` {
				letter = `\\`
			}
			e.put(i, i+2, visibleForm(0x1b)+letter)
		case c == 0x7f:
			e.put(i, i+1, "\u2421")
		case c < ' ':
			e.put(i, i+1, visibleForm(c))
		}
	}
}

// visibleForm returns the visible symbol of a control character.
func visibleForm(c byte) string { return string(rune(0x2400 + int(c))) }
