package shape

import (
	"encoding/json"
	"maps"
	"slices"

	"github.com/sandpiper-mcp/sandpiper/internal/rawjson"
)

// Type is the type inferred from JSON values: kinds and names of fields, never a value.
// Of strings it has the format, such as that of a date. It can be stored as JSON. The zero value describes no values.
type Type struct {
	Kinds  []string         `json:"k,omitempty"` // as JSON schema names them, sorted
	Fields map[string]Field `json:"f,omitempty"` // of objects
	Seen   int              `json:"n,omitempty"` // number of objects merged into Fields, up to manySeen
	Dict   *Type            `json:"d,omitempty"` // of objects whose keys are data: the type of their values
	Items  *Type            `json:"i,omitempty"` // of arrays
	Format string           `json:"s,omitempty"` // of all strings, as JSON schema names it
}

// Field is one field of an object.
type Field struct {
	Type
	Optional bool `json:"o,omitempty"` // some objects did not have it
}

// Limits of inference.
const (
	maxFields  = 32  // of an object; more are data
	maxNesting = 8   // levels
	maxItems   = 200 // examined items of an array
	maxKey     = 40  // bytes of a field's name; a longer one is data
	manySeen   = 1000
)

// Learn infers the type of b, one JSON value.
func Learn(b []byte) Type { return learn(b, 0) }

func learn(b []byte, depth int) Type {
	i := rawjson.Space(b, 0)
	if i >= len(b) || depth > maxNesting {
		return Type{}
	}
	b = b[i:]
	switch k := kindOf(b); k {
	case array:
		return learnArray(b, depth)
	case object:
		return learnObject(b, depth)
	default:
		return Type{Kinds: []string{k.String()}, Format: format(b)}
	}
}

func learnArray(b []byte, depth int) Type {
	t, n := Type{Kinds: []string{"array"}, Items: &Type{}}, 0
	_ = rawjson.EachItem(b, func(v []byte) bool {
		items := t.Items.Merge(learn(v, depth+1))
		t.Items = &items
		n++
		return n < maxItems
	})
	return t
}

func learnObject(b []byte, depth int) Type {
	t := Type{Kinds: []string{"object"}, Fields: map[string]Field{}, Seen: 1}
	_ = rawjson.EachMember(b, func(key, v []byte) bool {
		var name string
		if json.Unmarshal(key, &name) != nil {
			return true
		}
		of := learn(v, depth+1)
		if t.Dict == nil && (len(t.Fields) == maxFields || isData(name)) {
			t = t.dict()
		}
		if t.Dict != nil {
			of = t.Dict.Merge(of)
			t.Dict = &of
			return true
		}
		t.Fields[name] = Field{Type: of}
		return true
	})
	if t.Dict == nil && keyedByData(t.Fields) {
		return t.dict()
	}
	return t
}

// dict converts the type of an object with fields to one whose keys are data.
func (t Type) dict() Type {
	of := Type{}
	for _, name := range slices.Sorted(maps.Keys(t.Fields)) {
		of = of.Merge(t.Fields[name].Type)
	}
	if t.Dict != nil {
		of = of.Merge(*t.Dict)
	}
	t.Fields, t.Seen, t.Dict = nil, 0, &of
	return t
}

// Merge returns the type of the values of t and o.
func (t Type) Merge(o Type) Type {
	m := Type{Kinds: union(t.Kinds, o.Kinds), Items: mergeOf(t.Items, o.Items), Format: mergeFormat(t, o),
		Seen: min(t.Seen+o.Seen, manySeen)}
	if t.Dict != nil || o.Dict != nil {
		t, o = t.dict(), o.dict()
		m.Seen, m.Dict = 0, mergeOf(t.Dict, o.Dict)
		return m
	}
	m.Fields = mergeFields(t, o)
	if len(m.Fields) > maxFields || varies(m.Fields, m.Seen) {
		return m.dict()
	}
	return m
}

// varies reports whether many objects share no field.
func varies(fields map[string]Field, seen int) bool {
	if seen < 4 || len(fields) < 8 {
		return false
	}
	for _, f := range fields {
		if !f.Optional {
			return false
		}
	}
	return len(fields) >= 2*seen
}

func mergeFields(t, o Type) map[string]Field {
	if len(t.Fields)+len(o.Fields) == 0 {
		return nil
	}
	m := make(map[string]Field, len(t.Fields))
	for name, f := range t.Fields {
		g, both := o.Fields[name]
		m[name] = Field{f.Type.Merge(g.Type), f.Optional || g.Optional || !both && o.Seen > 0}
	}
	for name, g := range o.Fields {
		if _, both := t.Fields[name]; !both {
			m[name] = Field{g.Type, g.Optional || t.Seen > 0}
		}
	}
	return m
}

func mergeOf(a, b *Type) *Type {
	switch {
	case a == nil:
		return b
	case b == nil:
		return a
	}
	m := a.Merge(*b)
	return &m
}

func union(a, b []string) []string {
	all := slices.Concat(a, b)
	slices.Sort(all)
	all = slices.Compact(all)
	if i := slices.Index(all, "integer"); i >= 0 && slices.Contains(all, "number") {
		all = slices.Delete(all, i, i+1)
	}
	return all
}

// Schema returns t as a JSON schema.
func (t Type) Schema() json.RawMessage {
	b, err := json.Marshal(t.schema())
	if err != nil { // encoding maps of strings and lists never fails
		panic(err)
	}
	return b
}

func (t Type) schema() map[string]any {
	s := map[string]any{}
	switch len(t.Kinds) {
	case 0:
	case 1:
		s["type"] = t.Kinds[0]
	default:
		s["type"] = t.Kinds
	}
	if t.Format != "" {
		s["format"] = t.Format
	}
	if t.Items != nil && len(t.Items.Kinds) > 0 {
		s["items"] = t.Items.schema()
	}
	if t.Dict != nil {
		s["additionalProperties"] = t.Dict.schema()
	}
	if len(t.Fields) == 0 {
		return s
	}
	properties, required := map[string]any{}, []string{}
	for name, f := range t.Fields {
		properties[name] = f.schema()
		if !f.Optional {
			required = append(required, name)
		}
	}
	slices.Sort(required)
	s["properties"] = properties
	if len(required) > 0 {
		s["required"] = required
	}
	return s
}
