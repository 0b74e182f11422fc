package codegen

import (
	"encoding/json"
	"errors"
	"strings"
	"unicode/utf8"

	"github.com/sandpiper-mcp/sandpiper/internal/rawjson"
)

// object is a JSON object that keeps the order of its keys, which determines the
// order of a function's parameters.
type object struct {
	keys      []string
	values    []any
	positions map[string]int // index of each key, built once there are more than 16
}

// at returns the value of a key, or nil if the object is nil or has no such key.
func (o *object) at(key string) any {
	v, _ := o.find(key)
	return v
}

func (o *object) find(key string) (v any, ok bool) {
	if i := o.index(key); i >= 0 {
		return o.values[i], true
	}
	return nil, false
}

func (o *object) len() int {
	if o == nil {
		return 0
	}
	return len(o.keys)
}

func (o *object) index(key string) int {
	if o == nil {
		return -1
	}
	if o.positions != nil {
		if i, ok := o.positions[key]; ok {
			return i
		}
		return -1
	}
	for i, k := range o.keys {
		if k == key {
			return i
		}
	}
	return -1
}

// put sets a key. A duplicate replaces the value and keeps the position.
func (o *object) put(key string, v any) {
	if i := o.index(key); i >= 0 {
		o.values[i] = v
		return
	}
	if o.positions == nil && len(o.keys) == 16 {
		o.positions = map[string]int{}
		for i, k := range o.keys {
			o.positions[k] = i
		}
	}
	if o.positions != nil {
		o.positions[key] = len(o.keys)
	}
	o.keys, o.values = append(o.keys, key), append(o.values, v)
}

// maxJSONDepth is the nesting depth below which values are ignored.
const maxJSONDepth = 100

var errJSON = errors.New("not valid JSON")

// parse reads one JSON value: *object, []any, string, json.Number, bool or nil.
// The standard library validates the text, but its decoder either loses the order
// of keys or takes three times as long.
func parse(raw []byte) (any, error) {
	if !rawjson.Valid(raw) {
		return nil, errJSON
	}
	s := scanner{text: string(raw)}
	return s.value(0), nil
}

// scanner reads text that is known to be valid JSON.
type scanner struct {
	text string
	at   int
}

// next skips spaces, commas and colons, and returns the next character.
func (s *scanner) next() byte {
	for {
		switch c := s.text[s.at]; c {
		case ' ', '\t', '\n', '\r', ',', ':':
			s.at++
		default:
			return c
		}
	}
}

func (s *scanner) value(depth int) (v any) {
	switch s.next() {
	case '{':
		v = s.members(depth)
	case '[':
		v = s.items(depth)
	case '"':
		return s.string()
	default:
		return s.scalar()
	}
	if depth > maxJSONDepth {
		return true
	}
	return v
}

func (s *scanner) members(depth int) *object {
	o := &object{}
	for s.at++; s.next() != '}'; {
		key := s.string()
		o.put(key, s.value(depth+1))
	}
	s.at++
	return o
}

func (s *scanner) items(depth int) []any {
	list := []any{}
	for s.at++; s.next() != ']'; {
		list = append(list, s.value(depth+1))
	}
	s.at++
	return list
}

// scalar reads a number, true, false or null.
func (s *scanner) scalar() any {
	rest := s.text[s.at:]
	if i := strings.IndexAny(rest, " \t\r\n,]}"); i >= 0 {
		rest = rest[:i]
	}
	s.at += len(rest)
	switch rest {
	case "true":
		return true
	case "false":
		return false
	case "null":
		return nil
	}
	return json.Number(rest)
}

func (s *scanner) string() string {
	start := s.at
	plain := true
	for s.at++; s.text[s.at] != '"'; s.at++ {
		if s.text[s.at] == '\\' {
			s.at++
			plain = false
		}
	}
	s.at++
	if inner := s.text[start+1 : s.at-1]; plain && utf8.ValidString(inner) {
		return inner
	}
	var decoded string
	if err := json.Unmarshal([]byte(s.text[start:s.at]), &decoded); err != nil {
		return ""
	}
	return decoded
}
