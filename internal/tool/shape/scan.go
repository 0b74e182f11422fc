package shape

import (
	"bytes"
	"encoding/json"
	"unicode/utf8"
)

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
