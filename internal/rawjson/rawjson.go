// Package rawjson validates JSON and finds the values in it without decoding them.
//
// encoding/json calls a function for each byte, and a large answer passes several checks:
// this package is about five times as fast and allocates nothing. Its functions do no I/O,
// have no state and are safe for concurrent use. Only Scan and Valid accept any input; the
// others return an error or an incomplete result for invalid JSON, and never panic.
package rawjson

import (
	"bytes"
	"errors"
	"fmt"
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
