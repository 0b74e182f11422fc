package config

import (
	"encoding/json"
	"maps"
	"slices"
	"strings"

	"github.com/sandpiper-mcp/sandpiper/internal/fault"
)

// schemaNode is a part of a JSON Schema.
type schemaNode struct {
	Schema      string                 `json:"$schema,omitempty"`
	Title       string                 `json:"title,omitempty"`
	Type        any                    `json:"type,omitempty"`
	Enum        []string               `json:"enum,omitempty"`
	Properties  map[string]*schemaNode `json:"properties,omitempty"`
	Additional  any                    `json:"additionalProperties,omitempty"`
	Description string                 `json:"description,omitempty"`
}

// SchemaFile is the name of the JSON Schema that is written next to a generated configuration file, so
// that editors need no network. SchemaLine is the first line of that file, which the YAML language
// server reads.
const (
	SchemaFile = "sandpiper.schema.json"
	SchemaLine = "# yaml-language-server: $schema=./" + SchemaFile + "\n"
)

// JSONSchema returns the JSON Schema of a configuration file of a program with features. It is made from the table of keys; the
// type of a value is found by letting its parser read examples.
func JSONSchema(features []Section) ([]byte, error) {
	t := newTable(features)
	root := &schemaNode{Schema: "https://json-schema.org/draft/2020-12/schema", Title: "sandpiper.yaml", Type: "object", Additional: false,
		Properties: map[string]*schemaNode{}}
	for _, key := range slices.Sorted(maps.Keys(t.keys)) {
		at := root
		parts := strings.Split(key, ".")
		for _, part := range parts[:len(parts)-1] {
			at = at.section(part)
		}
		at.Properties[parts[len(parts)-1]] = t.valueSchema(key)
	}
	for family := range families {
		at := root
		for _, part := range strings.Split(family, ".") {
			at = at.section(part)
		}
		at.Additional = true
	}
	servers := &schemaNode{Type: "object", Additional: false, Properties: map[string]*schemaNode{"disabled": {Type: "boolean"}}}
	for key := range t.serverKeys() {
		servers.Properties[key] = &schemaNode{}
	}
	root.Properties["servers"] = &schemaNode{Type: "object", Additional: servers}
	return json.MarshalIndent(root, "", "  ")
}

// section returns the node of a section, which it adds.
func (n *schemaNode) section(name string) *schemaNode {
	if n.Properties == nil {
		n.Properties = map[string]*schemaNode{}
	}
	next := n.Properties[name]
	if next == nil {
		next = &schemaNode{}
		n.Properties[name] = next
	}
	if next.Properties == nil {
		next.Type, next.Additional, next.Properties = "object", false, map[string]*schemaNode{}
	}
	return next
}

// valueSchema returns the schema of a key's value.
func (t *table) valueSchema(key string) *schemaNode {
	if t.keys[key].structured {
		return &schemaNode{}
	}
	accepts := func(text string) error {
		d := draft{Config: Config{Features: newFeatures(t)}, given: map[string]setting{}, env: map[string]string{}}
		return t.keys[key].read(&d, setting{key: key, text: text, dir: "/"})
	}
	const impossible, anyWord = "\x01", "word"
	_, list, found := strings.Cut(fault.Message(accepts(impossible)), "; it must be ")
	if accepts(anyWord) == nil { // a text: the message of its parser lists no values
		return &schemaNode{Type: "string"}
	}
	if words := strings.FieldsFunc(strings.ReplaceAll(list, " or ", ", "),
		func(r rune) bool { return r == ',' || r == ' ' }); found && len(words) > 1 &&
		!slices.ContainsFunc(words, func(w string) bool { return accepts(w) != nil }) {
		if slices.Equal(words, []string{"true", "false"}) {
			return &schemaNode{Type: "boolean"}
		}
		return &schemaNode{Enum: words}
	}
	switch {
	case accepts("30s") == nil:
		return &schemaNode{Type: []string{"string", "number"}, Description: "a time such as 30s"}
	case accepts("100") == nil:
		types := []string{"integer", "string"}
		if accepts("0.5") == nil {
			types[0] = "number"
		}
		if accepts("true") == nil {
			types = append(types, "boolean")
		}
		return &schemaNode{Type: types}
	}
	return &schemaNode{Type: []string{"string", "number", "boolean"}}
}
