package tool

import (
	"encoding/json"
	"fmt"
)

// Path leads into JSON: texts are keys of objects, whole numbers places in lists,
// of which one below 0 counts from the end.
type Path []any

// Reference is an argument that is known only when an earlier call of the same plan
// has been answered. It stands beside the arguments, where it cannot be mistaken
// for a value: in them there is null in its place.
type Reference struct {
	Argument Path `json:"argument"` // where in the arguments
	Call     int  `json:"call"`     // whose result, from 1
	Result   Path `json:"result"`   // which part of it; empty means all
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
		return fmt.Errorf("a path of %d steps; at most %d are allowed", len(all), maxPath)
	}
	for i, step := range all {
		switch s := step.(type) {
		case string:
			if len(s) > maxKey {
				return fmt.Errorf("a key of %d bytes; at most %d are allowed", len(s), maxKey)
			}
		case float64:
			if s != float64(int32(s)) {
				return fmt.Errorf("%v is no place in a list", s)
			}
			all[i] = int(s)
		default:
			return fmt.Errorf("a path has texts and whole numbers, not %T", step)
		}
	}
	*p = append(Path{}, all...)
	return nil
}

// String writes a path as code would: ["lines"][0].
func (p Path) String() (s string) {
	for _, step := range p {
		s += fmt.Sprintf("[%#v]", step)
	}
	return s
}

// Find returns what is there in decoded JSON; false if nothing is.
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

// Put replaces what is there by value, and reports whether something was.
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
