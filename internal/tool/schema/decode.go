package schema

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
)

// Object is a JSON object that keeps the order of its members. The values are
// Object, []any, string, json.Number, bool or nil.
type Object []Member

// Member is one member of an Object.
type Member struct {
	Name  string
	Value any
}

// Get returns the value of a member, nil if there is none.
func (o Object) Get(name string) any {
	for _, m := range o {
		if m.Name == name {
			return m.Value
		}
	}
	return nil
}

// Map returns the object without its order, and objects in it likewise.
func (o Object) Map() map[string]any {
	m := make(map[string]any, len(o))
	for _, one := range o {
		m[one.Name] = unordered(one.Value)
	}
	return m
}

func unordered(v any) any {
	switch v := v.(type) {
	case Object:
		return v.Map()
	case []any:
		list := make([]any, len(v))
		for i, item := range v {
			list[i] = unordered(item)
		}
		return list
	}
	return v
}

// MarshalJSON implements json.Marshaler.
func (o Object) MarshalJSON() ([]byte, error) {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false) // left to the caller
	err := write(&b, enc, o)
	return b.Bytes(), err
}

func write(b *bytes.Buffer, enc *json.Encoder, v any) error {
	switch v := v.(type) {
	case Object:
		b.WriteByte('{')
		for i, m := range v {
			if i > 0 {
				b.WriteByte(',')
			}
			if err := enc.Encode(m.Name); err != nil {
				return err
			}
			b.WriteByte(':')
			if err := write(b, enc, m.Value); err != nil {
				return err
			}
		}
		b.WriteByte('}')
		return nil
	case []any:
		b.WriteByte('[')
		for i, item := range v {
			if i > 0 {
				b.WriteByte(',')
			}
			if err := write(b, enc, item); err != nil {
				return err
			}
		}
		b.WriteByte(']')
		return nil
	}
	return enc.Encode(v)
}

// Decode decodes the JSON of arguments strictly: one object without duplicate keys.
// Numbers are json.Number.
func Decode(raw json.RawMessage) (map[string]any, error) {
	o, err := DecodeObject(raw)
	if err != nil {
		return nil, err
	}
	return o.Map(), nil
}

// DecodeObject is Decode with the order of members.
func DecodeObject(raw json.RawMessage) (Object, error) {
	if len(bytes.TrimSpace(raw)) == 0 {
		return Object{}, nil
	}
	dec := json.NewDecoder(bytes.NewReader(raw))
	dec.UseNumber()
	v, err := decode(dec, 0)
	if err != nil {
		return nil, err
	}
	if _, err := dec.Token(); !errors.Is(err, io.EOF) {
		return nil, errors.New("more than one JSON value")
	}
	args, ok := v.(Object)
	if !ok {
		return nil, fmt.Errorf("expected an object, got %s", withArticle(typeOf(v)))
	}
	return args, nil
}

const maxDepth = 200

func decode(dec *json.Decoder, depth int) (any, error) {
	t, err := dec.Token()
	if err != nil {
		return nil, errors.New("not valid JSON")
	}
	if depth > maxDepth {
		return nil, fmt.Errorf("nested deeper than %d levels", maxDepth)
	}
	switch t {
	case json.Delim('{'):
		return object(dec, depth)
	case json.Delim('['):
		list := []any{}
		for dec.More() {
			v, err := decode(dec, depth+1)
			if err != nil {
				return nil, err
			}
			list = append(list, v)
		}
		_, err := dec.Token()
		return list, err
	}
	return t, nil
}

func object(dec *json.Decoder, depth int) (any, error) {
	o, seen := Object{}, map[string]bool{}
	for dec.More() {
		k, err := dec.Token()
		if err != nil {
			return nil, errors.New("not valid JSON")
		}
		key := k.(string)
		if seen[key] {
			return nil, fmt.Errorf("duplicate key %.60q", key)
		}
		seen[key] = true
		v, err := decode(dec, depth+1)
		if err != nil {
			return nil, err
		}
		o = append(o, Member{key, v})
	}
	_, err := dec.Token()
	return o, err
}
