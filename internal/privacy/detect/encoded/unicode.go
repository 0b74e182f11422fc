package encoded

import (
	"strings"

	"golang.org/x/text/encoding"
	"golang.org/x/text/encoding/unicode"
	"golang.org/x/text/encoding/unicode/utf32"
)

// Unicode is an encoding of files in units of two or four bytes.
type Unicode struct {
	Name string // as in Python
	Unit int    // bytes
	mark string // byte order mark
	as   encoding.Encoding
}

// MaxMark is the number of bytes of the longest byte order mark.
const MaxMark = 4

// unicodes lists the encodings. The mark of UTF-32 begins with that of UTF-16.
var unicodes = []Unicode{
	{"utf-32-le", 4, "\xff\xfe\x00\x00", utf32.UTF32(utf32.LittleEndian, utf32.IgnoreBOM)},
	{"utf-32-be", 4, "\x00\x00\xfe\xff", utf32.UTF32(utf32.BigEndian, utf32.IgnoreBOM)},
	{"utf-16-le", 2, "\xff\xfe", unicode.UTF16(unicode.LittleEndian, unicode.IgnoreBOM)},
	{"utf-16-be", 2, "\xfe\xff", unicode.UTF16(unicode.BigEndian, unicode.IgnoreBOM)},
}

// UnicodeOf returns the encoding that the byte order mark at the beginning of a file names.
func UnicodeOf(head []byte) (u Unicode, ok bool) {
	for _, u := range unicodes {
		if strings.HasPrefix(string(head[:min(len(head), MaxMark)]), u.mark) {
			return u, true
		}
	}
	return Unicode{}, false
}

// UnicodeNamed returns the encoding with a name.
func UnicodeNamed(name string) (u Unicode, ok bool) {
	for _, u := range unicodes {
		if u.Name == name {
			return u, true
		}
	}
	return Unicode{}, false
}

// NewDecoder returns a decoder to UTF-8. What is invalid becomes U+FFFD.
func (u Unicode) NewDecoder() *encoding.Decoder { return u.as.NewDecoder() }

// Decode returns text in UTF-8, with its byte order mark.
func (u Unicode) Decode(b []byte) string {
	text, err := u.NewDecoder().Bytes(b)
	if err != nil { // it replaces what is invalid
		return ""
	}
	return string(text)
}

// Encode is the reverse of Decode.
func (u Unicode) Encode(text string) ([]byte, error) { return u.as.NewEncoder().Bytes([]byte(text)) }
