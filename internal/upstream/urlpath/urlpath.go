// Package urlpath reads the paths of URLs as servers and proxies do, which decode them again, end
// segments early or convert characters. It decides nothing about a path.
package urlpath

import (
	"net/url"
	"strings"
)

// maxDecodings limits how often a path is decoded. One that is still encoded may have dots.
const maxDecodings = 4

// DotSegment returns the segment . or .. that some server or proxy reads in a path and resolves:
// after decoding it again, without parameters (;x) or control characters, and with characters
// that are converted to a dot or a slash. It returns "" if there is none.
func DotSegment(path string) string {
	for range maxDecodings {
		for segment := range strings.FieldsFuncSeq(lookalikes.Replace(path), func(r rune) bool { return r == '/' || r == '\\' }) {
			segment = strings.TrimLeftFunc(segment, endsSegment)
			if i := strings.IndexFunc(segment, endsSegment); i >= 0 {
				segment = segment[:i]
			}
			if segment == "." || segment == ".." {
				return segment
			}
		}
		again := Decode(path)
		if again == path {
			return ""
		}
		path = again
	}
	return "."
}

// Readings returns the paths that servers and proxies may read in a path, in a fixed order, of which
// the first is the path itself: after decoding it again, with other slashes, with segments that end
// before a parameter, and up to a character that ends a path.
func Readings(path string) (all []string) {
	for range maxDecodings + 1 {
		for _, p := range []string{path, withSlashes(path)} {
			end := strings.IndexAny(p, "?#;\x00\r\n")
			if end < 0 {
				end = len(p)
			}
			all = append(all, p, cutSegments(p), p[:end])
		}
		path = Decode(path)
	}
	return all
}

// withSlashes replaces what is read as a slash, and several slashes by one.
func withSlashes(path string) string {
	path = strings.ReplaceAll(lookalikes.Replace(path), "\\", "/")
	var b strings.Builder
	for i := range len(path) {
		if path[i] != '/' || i == 0 || path[i-1] != '/' {
			b.WriteByte(path[i])
		}
	}
	return b.String()
}

// cutSegments returns a path whose segments end before the first character that ends one.
func cutSegments(path string) string {
	segments := strings.Split(path, "/")
	for i, s := range segments {
		if end := strings.IndexFunc(s, endsSegment); end >= 0 {
			segments[i] = s[:end]
		}
	}
	return strings.Join(segments, "/")
}

// endsSegment reports whether some program ends a segment before r or ignores r.
func endsSegment(r rune) bool { return r <= ' ' || r == 0x7f || r == ';' || r == '?' || r == '#' }

// lookalikes replaces other forms of dots and slashes: overlong UTF-8, as single bytes and as
// Latin-1, and characters that normalization converts.
var lookalikes = strings.NewReplacer(
	"\xc0\xae", ".", "\xe0\x80\xae", ".", "\xf0\x80\x80\xae", ".", "\xc0\xaf", "/", "\xe0\x80\xaf", "/", "\xf0\x80\x80\xaf", "/",
	"\xc1\x9c", "\\",
	"\uff0e", ".", "\u2024", ".", "\u2025", "..", "\ufe52", ".", "\u3002", ".", "\uff61", ".",
	"\uff0f", "/", "\u2044", "/", "\u2215", "/", "\uff3c", "\\", "\ufe68", "\\",
)

// Decode decodes the escapes of a path that are valid, also those of code units (%u002e).
func Decode(path string) string {
	var b strings.Builder
	for i := 0; i < len(path); {
		if path[i] == '%' && i+6 <= len(path) && (path[i+1] == 'u' || path[i+1] == 'U') && path[i+2:i+4] == "00" {
			if c, err := url.PathUnescape("%" + path[i+4:i+6]); err == nil {
				b.WriteString(c)
				i += 6
				continue
			}
		}
		if path[i] == '%' && i+3 <= len(path) {
			if c, err := url.PathUnescape(path[i : i+3]); err == nil {
				b.WriteString(c)
				i += 3
				continue
			}
		}
		b.WriteByte(path[i])
		i++
	}
	return b.String()
}
