package encoded

import (
	"html"
	"strings"
	"unicode/utf16"
	"unicode/utf8"

	"github.com/sandpiper-mcp/sandpiper/internal/privacy/detect"
)

// An escape decodes the escape at the start of text. It returns the decoded text and
// the size of the escape, or 0.
type escape func(text string) (is string, size int)

// escapeReach is the maximum distance in bytes of the end of a value from an escape in it.
const escapeReach = 1 << 10

// escaped searches text with escapes, separately for each kind.
func (f Finder) escaped(text string) []detect.Finding {
	var found []detect.Finding
	for _, kind := range []struct {
		mark byte
		read escape
	}{{'\\', backslash}, {'%', percent}, {'&', entity}, {0, zero}} {
		if strings.IndexByte(text, kind.mark) >= 0 {
			found = append(found, f.unescaped(text, kind.mark, kind.read)...)
		}
	}
	if strings.IndexByte(text, '+') >= 0 {
		found = append(found, f.form(text)...)
	}
	return found
}

// unescaped searches the text around each escape, within escapeReach.
func (f Finder) unescaped(text string, mark byte, read escape) []detect.Finding {
	s := sheet{Finder: f, source: text}
	at, until := 0, 0 // at is the end of the text in the sheet; text[at:until] follows it
	for i := 0; ; {
		next := strings.IndexByte(text[i:], mark)
		if next < 0 {
			break
		}
		i += next
		is, size := read(text[i:])
		if size == 0 {
			i++
			continue
		}
		if from := max(0, i-escapeReach); from > until {
			s.plain(at, until)
			s.gap()
			at = border(text, from, -1)
		}
		s.plain(at, i)
		switch {
		case detect.Gap(is) > 1: // another kind of space
			is = " "
		case is == "\x00" && isWide(text, i, size): // beside each character of text in UTF-16 or UTF-32
			is = ""
		}
		for k := range len(is) {
			s.put(is[k], i, i+size)
		}
		i += size
		at, until = i, border(text, min(len(text), i+escapeReach), 1)
	}
	s.plain(at, until)
	return s.done()
}

// isWide reports whether the escape text[i:i+size] is the only one, or one of three, next to a
// character or another escape, on whose other side are the same ones.
func isWide(text string, i, size int) bool {
	escape := text[i : i+size]
	from, to, n := i, i+size, 1
	for ; n < 4 && from >= size && text[from-size:from] == escape; n++ {
		from -= size
	}
	for ; n < 4 && strings.HasPrefix(text[to:], escape); n++ {
		to += size
	}
	if n != 1 && n != 3 {
		return false
	}
	zeros := text[from:to]
	for _, char := range []int{1, size} {
		if from >= char && strings.HasSuffix(text[:from-char], zeros) || to+char <= len(text) && strings.HasPrefix(text[to+char:], zeros) {
			return true
		}
	}
	return false
}

// singleEscapes maps the one-letter escapes of JSON, Python and C.
var singleEscapes = map[byte]string{'n': "\n", 't': "\t", 'r': "\r", 'b': "\b", 'f': "\f", 'v': "\v", 'a': "\a", '"': `"`, '\'': "'",
	'\\': `\`, '/': "/"}

// quotableChars lists the characters that patterns and Markdown escape with a backslash.
const quotableChars = "-.@_+*() #&~"

func backslash(text string) (string, int) {
	if len(text) < 2 {
		return "", 0
	}
	switch c := text[1]; c {
	case 'x':
		return bytesOf(text, `\x`)
	case 'u':
		return UnicodeEscape(text)
	case 'U':
		if r, ok := digits(text, 2, 8); ok && utf8.ValidRune(rune(r)) {
			return string(rune(r)), 10
		}
		return "", 0
	case '0', '1', '2', '3':
		if r, ok := octal(text); ok {
			return string(rune(r)), 4
		}
		return "", 0
	default:
		if is, ok := singleEscapes[c]; ok {
			return is, 2
		}
		if strings.IndexByte(quotableChars, c) >= 0 {
			return text[1:2], 2
		}
		return "", 0
	}
}

// UnicodeEscape decodes the \u escape at the start of text, including a surrogate pair. It returns
// the decoded text and the size of the escape, or 0.
func UnicodeEscape(text string) (string, int) {
	r, ok := digits(text, 2, 4)
	if !ok || !strings.HasPrefix(text, `\u`) {
		return "", 0
	}
	if !utf16.IsSurrogate(rune(r)) {
		return string(rune(r)), 6
	}
	if strings.HasPrefix(text[6:], `\u`) {
		if low, ok := digits(text, 8, 4); ok {
			if both := utf16.DecodeRune(rune(r), rune(low)); both != utf8.RuneError {
				return string(both), 12
			}
		}
	}
	return "", 0
}

// zero reads the zeros of text in UTF-16 or UTF-32 that was decoded byte by byte, as in Latin-1.
func zero(string) (string, int) { return "\x00", 1 }

func percent(text string) (string, int) { return bytesOf(text, "%") }

// bytesOf decodes hexadecimal bytes, each after the prefix before, up to one
// character. A byte that is not UTF-8 is decoded as its code point.
func bytesOf(text, before string) (string, int) {
	var b []byte
	one := len(before) + 2
	for i := 0; i < utf8.UTFMax && strings.HasPrefix(text[i*one:], before); i++ {
		r, ok := digits(text, i*one+len(before), 2)
		if !ok {
			break
		}
		b = append(b, byte(r))
		if utf8.FullRune(b) {
			break
		}
	}
	if len(b) == 0 {
		return "", 0
	}
	if utf8.Valid(b) {
		return string(b), len(b) * one
	}
	return string(rune(b[0])), one
}

// digits reads n hexadecimal digits at i.
func digits(text string, i, n int) (v uint32, ok bool) {
	if i+n > len(text) {
		return 0, false
	}
	for _, c := range []byte(text[i : i+n]) {
		if hexDigit[c] == notDigit {
			return 0, false
		}
		v = v<<4 | uint32(hexDigit[c])
	}
	return v, true
}

func octal(text string) (v uint32, ok bool) {
	if len(text) < 4 {
		return 0, false
	}
	for _, c := range []byte(text[1:4]) {
		if c < '0' || c > '7' {
			return 0, false
		}
		v = v<<3 | uint32(c-'0')
	}
	return v, true
}

// maxEntity is the length of the longest name of an HTML entity.
const maxEntity = 33

func entity(text string) (string, int) {
	end := strings.IndexByte(text[:min(len(text), maxEntity+2)], ';')
	if end < 2 || strings.IndexByte(text[1:end], '&') >= 0 {
		return "", 0
	}
	whole := text[:end+1]
	is := html.UnescapeString(whole)
	if is == whole || strings.HasSuffix(is, ";") && is != ";" {
		return "", 0
	}
	return is, len(whole)
}

// maxForm is the maximum length of a form value that is decoded: longer runs with '+'
// are usually base64.
const maxForm = 4 << 10

// inForm has the bytes that form values consist of.
var inForm = func() (t [256]bool) {
	for b := range t {
		t[b] = base64Digit[b] != notDigit
	}
	for _, b := range []byte("%.~*@:,!'()") {
		t[b] = true
	}
	return t
}()

// form searches form-encoded values, in which '+' is a space.
func (f Finder) form(text string) []detect.Finding {
	s := sheet{Finder: f, source: text}
	for i := 0; i < len(text); i++ {
		start, plus := i, false
		for i < len(text) && inForm[text[i]] {
			plus = plus || text[i] == '+' && i > start
			i++
		}
		if plus && i-start <= maxForm {
			s.form(start, i)
		}
	}
	return s.done()
}

func (s *sheet) form(i, end int) {
	s.gap()
	for i < end {
		is, size := s.source[i:i+1], 1
		switch s.source[i] {
		case '+':
			is = " "
		case '%':
			if b, n := percent(s.source[i:end]); n > 0 {
				is, size = b, n
			}
		}
		for k := range len(is) {
			s.put(is[k], i, i+size)
		}
		i += size
	}
	s.gap()
}
