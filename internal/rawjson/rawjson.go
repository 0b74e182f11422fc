// Package rawjson validates JSON and finds the values in it without decoding them.
//
// encoding/json calls a function for each byte, and a large answer passes several checks:
// this package is about five times as fast and allocates nothing. Its functions do no I/O,
// have no state and are safe for concurrent use. Only Scan and Valid accept any input; the
// others return an error or an incomplete result for invalid JSON, and never panic.
package rawjson

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/bits"
	"unicode/utf8"
	"unsafe"
)

// maxDepth is the nesting depth up to which encoding/json accepts JSON.
const maxDepth = 10_000

// Valid reports whether b is JSON, as json.Valid does.
func Valid(b []byte) bool {
	_, ok := Scan(b)
	return ok
}

// ValidString is Valid for a string.
func ValidString(s string) bool { return Valid(unsafe.Slice(unsafe.StringData(s), len(s))) }

// Scan returns the nesting depth of b, and whether it is JSON.
func Scan(b []byte) (depth int, ok bool) { return scan(b, nil) }

// scan is Scan. It calls member, unless that is nil, with each key, including its quotes, and value of b if
// that is an object, before it is known whether all of b is valid.
func scan(b []byte, member func(key, value []byte)) (depth int, ok bool) {
	var key, value int                  // where the last member of b begins
	var objects [maxDepth/64 + 1]uint64 // a bit for each open container: whether it is an object
	i, open := Space(b, 0), 0
	for {
		// A value begins at i.
		if i >= len(b) {
			return 0, false
		}
		switch c := b[i]; c {
		case '{', '[':
			if open++; open > maxDepth {
				return 0, false
			}
			depth = max(depth, open)
			bit := uint64(1) << (open % 64)
			objects[open/64] &^= bit
			if i = Space(b, i+1); i >= len(b) {
				return 0, false
			}
			if b[i] == c+2 { // the closing bracket
				i++
				open--
				break
			}
			if c == '[' {
				continue
			}
			objects[open/64] |= bit
			at := i
			if i = validKey(b, i); i < 0 {
				return 0, false
			}
			if open == 1 {
				key, value = at, i
			}
			continue
		default:
			if i = validScalar(b, i); i < 0 {
				return 0, false
			}
		}
		// A value ended before i.
		for {
			if open == 1 && member != nil && objects[0]&2 != 0 {
				end, _ := stringEnd(b, key)
				member(b[key:end], b[value:i])
			}
			i = Space(b, i)
			if open == 0 {
				return depth, i == len(b)
			}
			if i >= len(b) {
				return 0, false
			}
			object := objects[open/64]&(1<<(open%64)) != 0
			if c := b[i]; c == ',' {
				break
			} else if c != '}' && c != ']' || object != (c == '}') {
				return 0, false
			}
			open--
			i++
		}
		i = Space(b, i+1)
		if objects[open/64]&(1<<(open%64)) != 0 {
			at := i
			if i = validKey(b, i); i < 0 {
				return 0, false
			}
			if open == 1 {
				key, value = at, i
			}
		}
	}
}

// validKey returns the index of the value after the key that begins at b[i], or -1.
func validKey(b []byte, i int) int {
	if i >= len(b) || b[i] != '"' {
		return -1
	}
	if i = validString(b, i+1); i < 0 {
		return -1
	}
	if i = Space(b, i); i >= len(b) || b[i] != ':' {
		return -1
	}
	return Space(b, i+1)
}

// validScalar returns the index after the string, number or literal that begins at b[i],
// or -1.
func validScalar(b []byte, i int) int {
	switch b[i] {
	case '"':
		return validString(b, i+1)
	case 't':
		return validWord(b, i, "true")
	case 'f':
		return validWord(b, i, "false")
	case 'n':
		return validWord(b, i, "null")
	}
	return validNumber(b, i)
}

func validWord(b []byte, i int, word string) int {
	if len(b)-i < len(word) || string(b[i:i+len(word)]) != word {
		return -1
	}
	return i + len(word)
}

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

func validNumber(b []byte, i int) int {
	if b[i] == '-' {
		i++
	}
	switch {
	case i < len(b) && b[i] == '0':
		i++
	default:
		if i = validDigits(b, i); i < 0 {
			return -1
		}
	}
	if i < len(b) && b[i] == '.' {
		if i = validDigits(b, i+1); i < 0 {
			return -1
		}
	}
	if i < len(b) && b[i]|0x20 == 'e' {
		if i++; i < len(b) && (b[i] == '+' || b[i] == '-') {
			i++
		}
		return validDigits(b, i)
	}
	return i
}

// validDigits returns the index after the digits that begin at b[i], or -1 if there are
// none.
func validDigits(b []byte, i int) int {
	start := i
	for i < len(b) && b[i]-'0' <= 9 {
		i++
	}
	if i == start {
		return -1
	}
	return i
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

var errShort = errors.New("the JSON ends in the middle of a value")

// Space returns the index of the first byte of b from i that is not white space.
func Space(b []byte, i int) int {
	for i < len(b) && (b[i] == ' ' || b[i] == '\n' || b[i] == '\t' || b[i] == '\r') {
		i++
	}
	return i
}

// stringEnd returns the index after the string that starts at b[i].
func stringEnd(b []byte, i int) (int, error) {
	for i++; ; {
		switch i = plainEnd(b, min(i, len(b))); {
		case i == len(b):
			return 0, errShort
		case b[i] == '"':
			return i + 1, nil
		case b[i] == '\\':
			i += 2
		default:
			i++
		}
	}
}

// ValueEnd returns the index after the value that starts at b[i].
func ValueEnd(b []byte, i int) (end int, err error) {
	depth := 0
	for i < len(b) {
		switch c := b[i]; c {
		case '"':
			if i, err = stringEnd(b, i); err != nil {
				return 0, err
			}
		case '{', '[':
			depth++
			i++
		case '}', ']':
			depth--
			i++
		case ',', ':', ' ', '\n', '\t', '\r':
			if depth == 0 {
				return 0, fmt.Errorf("no value at byte %d", i)
			}
			i++
			continue // no value ends here
		default:
			i = scalarEnd(b, i)
		}
		if depth < 0 {
			return 0, fmt.Errorf("no value at byte %d", i-1)
		}
		if depth == 0 {
			return i, nil
		}
	}
	return 0, errShort
}

// scalarEnd returns the index after the number or literal that starts at b[i].
func scalarEnd(b []byte, i int) int {
	for i++; i < len(b); i++ {
		switch b[i] {
		case ',', ':', '}', ']', '{', '[', '"', ' ', '\n', '\t', '\r':
			return i
		}
	}
	return i
}

// EachItem calls f with each item of the array b until f returns false.
func EachItem(b []byte, f func(v []byte) bool) error {
	for i := Space(b, 1); i < len(b) && b[i] != ']'; i = separator(b, i) {
		end, err := ValueEnd(b, i)
		if err != nil {
			return err
		}
		if !f(b[i:end]) {
			return nil
		}
		i = end
	}
	return nil
}

// EachMember calls f with each key, including its quotes, and value of the object b
// until f returns false.
func EachMember(b []byte, f func(key, v []byte) bool) error {
	for i := Space(b, 1); i < len(b) && b[i] != '}'; i = separator(b, i) {
		if b[i] != '"' {
			return fmt.Errorf("no key at byte %d of an object", i)
		}
		keyEnd, err := stringEnd(b, i)
		if err != nil {
			return err
		}
		start := separator(b, keyEnd)
		end, err := ValueEnd(b, start)
		if err != nil {
			return err
		}
		if !f(b[i:keyEnd], b[start:end]) {
			return nil
		}
		i = end
	}
	return nil
}

// Members returns the values of the named members of the object b, nil for a missing one.
// Of members with the same name it returns the last. null has no members; for any other
// value that is no object it returns false.
func Members(b []byte, names ...string) (values [][]byte, ok bool) {
	values = make([][]byte, len(names))
	i := Space(b, 0)
	if i == len(b) || b[i] != '{' {
		return values, string(bytes.TrimSpace(b)) == "null"
	}
	err := EachMember(b[i:], func(key, v []byte) bool {
		setMember(values, names, key, v)
		return true
	})
	return values, err == nil
}

// ValidMembers is Members for any input. It returns false if b is no JSON.
func ValidMembers(b []byte, names ...string) (values [][]byte, ok bool) {
	values = make([][]byte, len(names))
	if i := Space(b, 0); i == len(b) || b[i] != '{' {
		return values, string(bytes.TrimSpace(b)) == "null"
	}
	_, ok = scan(b, func(key, v []byte) { setMember(values, names, key, v) })
	return values, ok
}

// setMember sets the value of the name that is equal to a key, if there is one.
func setMember(values [][]byte, names []string, quoted, v []byte) {
	key := quoted[1 : len(quoted)-1]
	if bytes.IndexByte(key, '\\') >= 0 {
		text, _ := Unquote(quoted)
		key = []byte(text)
	}
	for n, name := range names {
		if string(key) == name {
			values[n] = v
			break
		}
	}
}

// separator returns the index after spaces and a comma or colon at b[i].
func separator(b []byte, i int) int {
	i = Space(b, i)
	if i < len(b) && (b[i] == ',' || b[i] == ':') {
		i = Space(b, i+1)
	}
	return i
}
