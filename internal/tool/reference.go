package tool

import (
	"encoding/json"
	"fmt"
)

// Path is a path in a JSON value: a string is a key of an object, an integer an index
// of an array, where a negative one counts from the end.
type Path []any

// Reference is an argument that comes from the result of an earlier call of the same
// plan. The arguments contain null at its path, so it cannot be confused with a value.
type Reference struct {
	Argument Path `json:"argument"` // path in the arguments
	Call     int  `json:"call"`     // number of the call, from 1
	Result   Path `json:"result"`   // path in its result; empty means all of it
}

const (
	maxPath = 64
	maxKey  = 1000 // bytes
)

// UnmarshalJSON implements json.Unmarshaler.
func (p *Path) UnmarshalJSON(b []byte) error {
	var all []any
	if err := json.Unmarshal(b, &all); err != nil {
		return err
	}
	if len(all) > maxPath {
		return fmt.Errorf("the path has %d elements; at most %d are allowed", len(all), maxPath)
	}
	for i, step := range all {
		switch s := step.(type) {
		case string:
			if len(s) > maxKey {
				return fmt.Errorf("the path has a key of %d bytes; at most %d are allowed", len(s), maxKey)
			}
		case float64:
			if s != float64(int32(s)) {
				return fmt.Errorf("%v is not a valid list index", s)
			}
			all[i] = int(s)
		default:
			return fmt.Errorf("a path element must be a string or an integer, not %T", step)
		}
	}
	*p = append(Path{}, all...)
	return nil
}

// String formats a path as Python does: ["lines"][0].
func (p Path) String() (s string) {
	for _, step := range p {
		s += fmt.Sprintf("[%#v]", step)
	}
	return s
}

// Find returns the value at the path in decoded JSON, and whether it exists.
func (p Path) Find(v any) (any, bool) {
	for _, step := range p {
		switch in := v.(type) {
		case map[string]any:
			key, ok := step.(string)
			if !ok {
				return nil, false
			}
			if v, ok = in[key]; !ok {
				return nil, false
			}
		case []any:
			i, ok := step.(int)
			if i < 0 {
				i += len(in)
			}
			if !ok || i < 0 || i >= len(in) {
				return nil, false
			}
			v = in[i]
		default:
			return nil, false
		}
	}
	return v, true
}

// Put replaces the value at the path, and reports whether it existed.
func (p Path) Put(in, value any) bool {
	if len(p) == 0 {
		return false
	}
	last := len(p) - 1
	holder, ok := p[:last].Find(in)
	if _, there := p[last:].Find(holder); !ok || !there {
		return false
	}
	switch h := holder.(type) {
	case map[string]any:
		h[p[last].(string)] = value
	case []any:
		i := p[last].(int)
		if i < 0 {
			i += len(h)
		}
		h[i] = value
	}
	return true
}
