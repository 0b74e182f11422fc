package shape

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"unicode/utf8"
)

// encoding/json is not used because its tokens allocate for every value and a
// result may be 64 MiB. The scanner keeps a depth counter instead of a stack.

var errShort = errors.New("shape: the JSON ends in the middle of a value")

// space returns the index of the first byte of b from i that is not a space.
func space(b []byte, i int) int {
	for i < len(b) && (b[i] == ' ' || b[i] == '\n' || b[i] == '\t' || b[i] == '\r') {
		i++
	}
	return i
}

// stringEnd returns the index after the string that starts at b[i].
func stringEnd(b []byte, i int) (int, error) {
	for i++; ; {
		q := bytes.IndexByte(b[i:], '"')
		if q < 0 {
			return 0, errShort
		}
		q += i
		back := q
		for back > i && b[back-1] == '\\' {
			back--
		}
		if (q-back)%2 == 0 {
			return q + 1, nil
		}
		i = q + 1 // skip an escaped quote
	}
}

// valueEnd returns the index after the value that starts at b[i].
func valueEnd(b []byte, i int) (end int, err error) {
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
				return 0, fmt.Errorf("shape: no value at byte %d", i)
			}
			i++
			continue // no value ends here
		default:
			i = scalarEnd(b, i)
		}
		if depth < 0 {
			return 0, fmt.Errorf("shape: no value at byte %d", i-1)
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

// eachItem calls f with each item of the array b until f returns false.
func eachItem(b []byte, f func(v []byte) bool) error {
	for i := space(b, 1); i < len(b) && b[i] != ']'; i = separator(b, i) {
		end, err := valueEnd(b, i)
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

// eachMember calls f with each key, including its quotes, and value of the object b
// until f returns false.
func eachMember(b []byte, f func(key, v []byte) bool) error {
	for i := space(b, 1); i < len(b) && b[i] != '}'; i = separator(b, i) {
		if b[i] != '"' {
			return fmt.Errorf("shape: no key at byte %d of an object", i)
		}
		keyEnd, err := stringEnd(b, i)
		if err != nil {
			return err
		}
		start := separator(b, keyEnd)
		end, err := valueEnd(b, start)
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

// separator returns the index after spaces and a comma or colon at b[i].
func separator(b []byte, i int) int {
	i = space(b, i)
	if i < len(b) && (b[i] == ',' || b[i] == ':') {
		i = space(b, i+1)
	}
	return i
}

// kind is the type of a value. Lists of types use this order.
type kind int

const (
	array kind = iota
	boolean
	integer
	null
	number
	object
	text
	kinds // number of kinds
)

func (k kind) String() string {
	return [...]string{"array", "boolean", "integer", "null", "number", "object", "string"}[k]
}

// kindOf returns the type of the value v.
func kindOf(v []byte) kind {
	switch v[0] {
	case '{':
		return object
	case '[':
		return array
	case '"':
		return text
	case 't', 'f':
		return boolean
	case 'n':
		return null
	}
	for _, c := range v {
		if c == '.' || c|0x20 == 'e' {
			return number
		}
	}
	return integer
}

// unit returns the length of the character that the inside of a string starts
// with: an escape, a pair of surrogate escapes, or a rune.
func unit(s []byte) int {
	if s[0] != '\\' || len(s) < 2 {
		_, n := utf8.DecodeRune(s)
		return n
	}
	if s[1] != 'u' || len(s) < 6 {
		return 2
	}
	high := (s[2] == 'd' || s[2] == 'D') && (s[3] == '8' || s[3] == '9' || s[3]|0x20 == 'a' || s[3]|0x20 == 'b')
	if high && len(s) >= 12 && s[6] == '\\' && s[7] == 'u' {
		return 12
	}
	return 6
}

// chars counts the characters of the string v, which includes its quotes.
func chars(v []byte) int {
	n := 0
	for s := v[1 : len(v)-1]; len(s) > 0; n++ {
		s = s[unit(s):]
	}
	return n
}

// head returns the first n characters of the string v, which includes its quotes,
// and whether there are more.
func head(v []byte, n int) (text string, more bool) {
	s := v[1 : len(v)-1]
	end := 0
	for ; n > 0 && end < len(s); n-- {
		end += unit(s[end:])
	}
	quoted := append(append([]byte{'"'}, s[:end]...), '"')
	if json.Unmarshal(quoted, &text) != nil {
		text = string(bytes.ToValidUTF8(s[:end], []byte("\ufffd"))) // invalid escapes stay unchanged
	}
	return text, end < len(s)
}
