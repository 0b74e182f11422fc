package section

import (
	"encoding/json"
	"fmt"
	"math"
	"reflect"
	"slices"
	"strings"

	"github.com/goccy/go-yaml"
	"github.com/goccy/go-yaml/ast"

	"github.com/sandpiper-mcp/sandpiper/internal/fault"
)

var jsonType = reflect.TypeFor[json.RawMessage]()

// SetNode reads a list or a mapping into the struct that to points to, replacing what it has. The error continues
// a sentence that begins with the key, unless it is a fault with a place.
func (f Field) SetNode(to any, key string, n ast.Node, from Source) error {
	return set(f.of(to), f.tag, key, n, from)
}

// Set reads a list or a mapping into what to points to, as SetNode does.
func Set(to any, key string, n ast.Node, from Source) error {
	return set(reflect.ValueOf(to).Elem(), "", key, n, from)
}

func set(v reflect.Value, tag reflect.StructTag, key string, n ast.Node, from Source) error {
	next := reflect.New(v.Type()).Elem()
	if err := setNode(next, tag, key, n, from); err != nil {
		return err
	}
	v.Set(next)
	return nil
}

func setNode(v reflect.Value, tag reflect.StructTag, key string, n ast.Node, from Source) error {
	if own, ok := v.Addr().Interface().(yaml.NodeUnmarshaler); ok {
		if err := own.UnmarshalYAML(n); err != nil {
			return invalid("%s", err)
		}
		return nil
	}
	if own, ok := v.Addr().Interface().(NodeSetter); ok {
		return own.SetNode(key, n, from)
	}
	switch {
	case v.Type() == jsonType:
		return setJSON(v, n)
	case isText(v.Type()):
	case v.Kind() == reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		return setNode(v.Elem(), tag, key, n, from)
	case v.Kind() == reflect.Slice:
		return setList(v, tag, key, n, from)
	case v.Kind() == reflect.Map:
		return setMap(v, key, n, from)
	case v.Kind() == reflect.Struct:
		return setStruct(v, key, n, from)
	case v.Kind() == reflect.Float64:
		if _, scalar := n.(ast.ScalarNode); !scalar || yaml.NodeToValue(n, v.Addr().Interface()) != nil || !(v.Float() >= 0) ||
			math.IsInf(v.Float(), 0) {
			return invalid("must be a number of at least 0, such as 0.15")
		}
		return nil
	case v.Kind() == reflect.Bool:
		if _, ok := n.(*ast.BoolNode); !ok {
			return invalid("is %s; it must be true or false", n)
		}
	case v.CanInt() && v.Type() != durationType:
		if _, ok := n.(*ast.IntegerNode); !ok {
			return invalid("must be a whole number")
		}
	}
	text, err := textOf(n)
	if err != nil {
		return err
	}
	if v.Kind() == reflect.String && tag.Get("allow") == "" && tag.Get("form") == "" && !isText(v.Type()) {
		return setString(v, tag, text)
	}
	return setText(v, tag, text, from)
}

// setString sets a text of an entry, which what uses the entry checks.
func setString(v reflect.Value, tag reflect.StructTag, text string) error {
	if strings.Contains(tag.Get("key"), ",nonempty") && strings.TrimSpace(text) == "" {
		return invalid("is empty; leave it out if all calls are meant")
	}
	v.SetString(text)
	return nil
}

func textOf(n ast.Node) (text string, err error) {
	if _, ok := n.(ast.ScalarNode); !ok || yaml.NodeToValue(n, &text) != nil {
		return "", invalid("must be a text")
	}
	return text, nil
}

// setList reads a list; one text is a list of it if the tag form is "one or more".
func setList(v reflect.Value, tag reflect.StructTag, key string, n ast.Node, from Source) error {
	of := v.Type().Elem()
	seq, ok := n.(*ast.SequenceNode)
	some := tag.Get("form") == "one or more"
	switch {
	case ok && (len(seq.Values) > 0 || !some):
	case some && !ok:
		seq = &ast.SequenceNode{Values: []ast.Node{n}}
	case some:
		return invalid("must be a text or a list of texts")
	case of.Kind() == reflect.String:
		return invalid("must be a list of texts")
	default:
		return invalid("must be a list")
	}
	for i, n := range seq.Values {
		one := reflect.New(of).Elem()
		if of.Kind() == reflect.Struct {
			if err := setEntry(one, fmt.Sprintf("entry %d of %s", i+1, key), n, from); err != nil {
				return err
			}
		} else if err := setNode(one, "", key, n, from); err != nil && some {
			return invalid("must be a text or a list of texts")
		} else if err != nil {
			return invalid("must be a list of texts")
		}
		v.Set(reflect.Append(v, one))
	}
	return nil
}

// setEntry reads an entry of a list. Its errors have its line, and its name if it has one.
func setEntry(v reflect.Value, what string, n ast.Node, from Source) error {
	line := n.GetToken().Position.Line
	for _, m := range Members(n) {
		line = min(line, m.Key.GetToken().Position.Line)
		if name, err := textOf(m.Value); err == nil && m.Key.GetToken().Value == "name" {
			what += fmt.Sprintf(" (%.60q)", name)
		}
	}
	at := fmt.Sprintf("%s line %d", from.File, line)
	for _, f := range reflect.VisibleFields(v.Type()) {
		if f.Tag.Get("key") == "@" {
			v.FieldByIndex(f.Index).SetString(at)
		}
	}
	if err := setStruct(v, what, n, from); err != nil {
		return named(at+": "+what, err)
	}
	return nil
}

// Members returns the members of a mapping.
func Members(n ast.Node) []*ast.MappingValueNode {
	switch n := n.(type) {
	case *ast.MappingNode:
		return n.Values
	case *ast.MappingValueNode:
		return []*ast.MappingValueNode{n}
	}
	return nil
}

func setStruct(v reflect.Value, key string, n ast.Node, from Source) error {
	known := map[string]reflect.StructField{}
	for _, f := range reflect.VisibleFields(v.Type()) {
		if name, _, _ := strings.Cut(f.Tag.Get("key"), ","); name != "" && name != "@" {
			known[name] = f
		}
	}
	var names []string
	for name := range known {
		names = append(names, name)
	}
	slices.Sort(names)
	if len(Members(n)) == 0 {
		return invalid("must contain keys such as %s", strings.Join(names, ", "))
	}
	for _, m := range Members(n) {
		name := m.Key.GetToken().Value
		f, ok := known[name]
		if !ok {
			return invalid("has no key %q%s", name, meant(name, names))
		}
		if err := setNode(v.FieldByIndex(f.Index), f.Tag, key+"."+name, m.Value, from); err != nil {
			return named(name, err)
		}
	}
	if c, ok := v.Addr().Interface().(Checker); ok {
		return c.Check()
	}
	return nil
}

// named adds the name of a value to an error about it.
func named(name string, err error) error {
	e := fault.New(fault.Invalid, "%s %s", name, fault.Message(err))
	if hint := fault.Hint(err); hint != "" {
		return e.WithHint("%s", hint)
	}
	return e
}

// Checker is a struct that knows what its fields must be together. The error continues a sentence.
type Checker interface{ Check() error }

func meant(name string, names []string) string {
	if near := fault.Nearest(name, names, 1); near != nil {
		return fmt.Sprintf("; did you mean %q?", near[0])
	}
	return "; its keys are " + strings.Join(names, ", ")
}

func setMap(v reflect.Value, key string, n ast.Node, from Source) error {
	values, texts := "values", v.Type().Elem().Kind() == reflect.String
	if texts {
		values = "texts"
	}
	if _, empty := n.(*ast.NullNode); !empty && n.Type() != ast.MappingType && n.Type() != ast.MappingValueType {
		return invalid("must be a mapping of names to %s, such as {NAME: value}", values)
	}
	v.Set(reflect.MakeMap(v.Type()))
	for _, m := range Members(n) {
		name := m.Key.GetToken().Value
		one := reflect.New(v.Type().Elem()).Elem()
		if err := setNode(one, "", key+"."+name, m.Value, from); err != nil && texts {
			return invalid("must hold a text for each name")
		} else if err != nil {
			return named(name, err)
		}
		v.SetMapIndex(reflect.ValueOf(name), one)
	}
	return nil
}

// setJSON reads a mapping as JSON.
func setJSON(v reflect.Value, n ast.Node) error {
	values := map[string]any{}
	if n.Type() != ast.MappingType && n.Type() != ast.MappingValueType || yaml.NodeToValue(n, &values) != nil {
		return invalid("must be a mapping of argument names to values")
	}
	text, err := json.Marshal(values)
	if err != nil {
		return invalid("must be a mapping of argument names to values that JSON can represent")
	}
	v.SetBytes(text)
	return nil
}
