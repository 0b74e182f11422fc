package rawjson

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"io"
	"math/bits"
	"unicode/utf8"
	"unsafe"
)

// validString returns the index after the string whose content begins at b[i], or -1.
func validString(b []byte, i int) int {
	for {
		switch i = plainEnd(b, i); {
		case i == len(b):
			return -1
		case b[i] == '"':
			return i + 1
		}
		size := validEscape(b, i)
		if size == 0 {
			return -1
		}
		i += size
	}
}

// plainEnd returns the index of the first byte from i that a string must escape, or that ends or escapes
// it; len(b) if there is none.
func plainEnd(b []byte, i int) int {
	for i+8 <= len(b) {
		if m := specials(binary.LittleEndian.Uint64(b[i:])); m != 0 {
			return i + bits.TrailingZeros64(m)/8
		}
		i += 8
	}
	for i < len(b) && special[b[i]] == 0 {
		i++
	}
	return i
}

// validEscape returns the length of the escape at b[i], 0 if there is none.
func validEscape(b []byte, i int) int {
	switch {
	case b[i] != '\\' || i+1 >= len(b):
		return 0
	case simple[b[i+1]] != 0:
		return 2
	case b[i+1] == 'u' && i+6 <= len(b) && hex4(b[i+2:]) >= 0:
		return 6
	}
	return 0
}

// simple holds the characters of escapes of two bytes.
var simple = [256]byte{'"': '"', '\\': '\\', '/': '/', 'b': '\b', 'f': '\f', 'n': '\n', 'r': '\r', 't': '\t'}

// special marks the bytes that a string must escape, and those that end or escape it.
var special = func() (t [256]byte) {
	for c := range 0x20 {
		t[c] = 1
	}
	t['"'], t['\\'] = 1, 1
	return t
}()

const (
	lows  = 0x0101010101010101 // the lowest bit of each byte
	highs = 0x80 * lows
)

// specials marks, by the high bit of its byte, the first of eight bytes that a string must escape or
// that ends or escapes it. Bytes after it may be marked too.
func specials(w uint64) uint64 {
	quote, backslash := w^('"'*lows), w^('\\'*lows)
	return ((w - 0x20*lows) | (quote - lows) | (backslash - lows)) &^ w & highs
}

// hex4 returns the number of four hexadecimal digits, or -1.
func hex4(b []byte) rune {
	var r rune
	for _, c := range b[:4] {
		switch {
		case c-'0' <= 9:
			c -= '0'
		case c|0x20 >= 'a' && c|0x20 <= 'f':
			c = c | 0x20 - 'a' + 10
		default:
			return -1
		}
		r = r<<4 | rune(c)
	}
	return r
}

// Unquote returns the text of a JSON string, which includes its quotes. It returns false
// for anything else. Like encoding/json, it replaces invalid UTF-8 and halves of surrogate
// pairs by U+FFFD.
func Unquote(v []byte) (text string, ok bool) {
	if len(v) < 2 || v[0] != '"' || v[len(v)-1] != '"' {
		return "", false
	}
	s := v[1 : len(v)-1]
	if !utf8.Valid(s) {
		return text, json.Unmarshal(v, &text) == nil
	}
	if i := plainEnd(s, 0); i == len(s) {
		return string(s), true
	}
	out, n := make([]byte, len(s)), 0 // no escape is shorter than its character
	for i := 0; ; {
		for i+8 <= len(s) {
			w := binary.LittleEndian.Uint64(s[i:])
			binary.LittleEndian.PutUint64(out[n:], w)
			m := specials(w)
			k := bits.TrailingZeros64(m) / 8 // 8 if there is none
			i, n = i+k, n+k
			if m != 0 {
				break
			}
		}
		for i < len(s) && special[s[i]] == 0 { // in the last bytes
			out[n] = s[i]
			i, n = i+1, n+1
		}
		if i == len(s) {
			return unsafe.String(unsafe.SliceData(out), n), true
		}
		size := validEscape(s, i)
		if size == 0 {
			return "", false
		}
		c := s[i+1]
		if size == 2 {
			out[n] = simple[c]
			i, n = i+2, n+1
			continue
		}
		r, size := unescape(s[i:])
		n += utf8.EncodeRune(out[n:], r)
		i += size
	}
}

// UnquoteTo writes the text of a valid JSON string, which includes its quotes, in small
// parts.
func UnquoteTo(w io.Writer, v []byte) error {
	const part = 64 << 10
	buf := make([]byte, 0, part+utf8.UTFMax)
	for s, i := v[1:len(v)-1], 0; i < len(s); {
		if len(buf) >= part {
			if _, err := w.Write(buf); err != nil {
				return err
			}
			buf = buf[:0]
		}
		if s[i] != '\\' {
			buf = append(buf, s[i])
			i++
			continue
		}
		r, n := unescape(s[i:])
		buf = utf8.AppendRune(buf, r)
		i += n
	}
	_, err := w.Write(buf)
	return err
}

// Unescape returns a part of JSON in which the escapes of all characters but quotes and
// backslashes are replaced by the characters. The part may begin and end anywhere.
func Unescape(part []byte) []byte {
	out := make([]byte, 0, len(part))
	for {
		i := bytes.IndexByte(part, '\\')
		if i < 0 || i+1 == len(part) {
			return append(out, part...)
		}
		out, part = append(out, part[:i]...), part[i:]
		n := 2
		switch c := part[1]; {
		case c == 'u' && (len(part) < 6 || hex4(part[2:]) < 0), bytes.IndexByte([]byte("bfnrtu/"), c) < 0:
			out = append(out, part[:n]...)
		default:
			var r rune
			if r, n = unescape(part); r == '"' || r == '\\' {
				out = append(out, '\\')
			}
			out = utf8.AppendRune(out, r)
		}
		part = part[n:]
	}
}

// unescape returns the character of the valid escape that s begins with, and the length
// of the escape.
func unescape(s []byte) (rune, int) {
	if s[1] != 'u' {
		return rune(simple[s[1]]), 2
	}
	r := hex4(s[2:])
	switch {
	case r < 0xD800 || r > 0xDFFF:
		return r, 6
	case r < 0xDC00 && len(s) >= 12 && s[6] == '\\' && s[7] == 'u':
		if low := hex4(s[8:]); low >= 0xDC00 && low <= 0xDFFF {
			return (r-0xD800)<<10 | (low - 0xDC00) + 0x10000, 12
		}
	}
	return utf8.RuneError, 6
}
