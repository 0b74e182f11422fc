package schema

import (
	"slices"

	"github.com/santhosh-tekuri/jsonschema/v6"
)

// Limits of the values that Fill reads.
const (
	maxFillSteps = 200_000
	maxFillDepth = 64
)

// Fill returns the arguments with the defaults of properties that the schema requires and that are
// omitted, at any depth. Generators such as zod list a property with a default as required: the
// server fills it in itself, after the check.
func (x *Schema) Fill(args Object) Object {
	if x.s == nil || !x.fills {
		return args
	}
	f := filler{left: maxFillSteps}
	filled, _ := f.fill(x.s, args, 0).(Object)
	return filled
}

type filler struct{ left int }

func (f *filler) fill(s *jsonschema.Schema, v any, depth int) any {
	if s == nil || f.left <= 0 || depth > maxFillDepth {
		return v
	}
	f.left--
	for _, part := range certain(s, v) {
		v = f.fill(part, v, depth+1)
	}
	switch v := v.(type) {
	case Object:
		return f.object(s, v, depth)
	case []any:
		items := s.Items2020
		if items == nil {
			items, _ = s.Items.(*jsonschema.Schema)
		}
		for i, item := range v {
			v[i] = f.fill(items, item, depth+1)
		}
	}
	return v
}

func (f *filler) object(s *jsonschema.Schema, o Object, depth int) Object {
	additional, _ := s.AdditionalProperties.(*jsonschema.Schema)
	for i, m := range o {
		if p := s.Properties[m.Name]; p != nil {
			o[i].Value = f.fill(p, m.Value, depth+1)
		} else {
			o[i].Value = f.fill(additional, m.Value, depth+1)
		}
	}
	for _, name := range s.Required {
		if f.left--; o.has(name) {
			continue
		}
		if value := defaultOf(property(s, name, 0), 0); value != nil {
			o = append(slices.Clip(o), Member{name, *value})
		}
	}
	return o
}

func (o Object) has(name string) bool {
	return slices.ContainsFunc(o, func(m Member) bool { return m.Name == name })
}

// certain returns the parts of s that certainly apply to v: all alternatives are parts if only one
// of them allows an object.
func certain(s *jsonschema.Schema, v any) []*jsonschema.Schema {
	parts := append([]*jsonschema.Schema{s.Ref}, s.AllOf...)
	if _, ok := v.(Object); !ok {
		return parts
	}
	for _, alternatives := range [][]*jsonschema.Schema{s.AnyOf, s.OneOf} {
		var fit []*jsonschema.Schema
		for _, a := range alternatives {
			if allowsObject(a) {
				fit = append(fit, a)
			}
		}
		if len(fit) == 1 {
			parts = append(parts, fit[0])
		}
	}
	return parts
}

func allowsObject(s *jsonschema.Schema) bool {
	for range maxFillDepth {
		if s.Ref == nil {
			break
		}
		s = s.Ref
	}
	return s.Types == nil || slices.Contains(s.Types.ToStrings(), "object")
}

// property returns the schema of a property, also if another part of s has it.
func property(s *jsonschema.Schema, name string, depth int) *jsonschema.Schema {
	if s == nil || depth > 8 {
		return nil
	}
	if p := s.Properties[name]; p != nil {
		return p
	}
	for _, part := range append([]*jsonschema.Schema{s.Ref}, s.AllOf...) {
		if p := property(part, name, depth+1); p != nil {
			return p
		}
	}
	return nil
}

// defaultOf returns the default of a property if the property allows it.
func defaultOf(s *jsonschema.Schema, depth int) *any {
	if s == nil || depth > 8 {
		return nil
	}
	if s.Default == nil {
		return defaultOf(s.Ref, depth+1)
	}
	if !affordable(s, *s.Default) || s.Validate(*s.Default) != nil {
		return nil
	}
	return s.Default
}
