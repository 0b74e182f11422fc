package rules

import (
	"bytes"
	"encoding/json"
	"slices"
	"strings"

	"github.com/sandpiper-mcp/sandpiper/internal/feature/task/task"
)

// parameter is an argument of a tool, or a member of one.
type parameter struct {
	name     string
	about    string
	kind     string // JSON type
	enum     []string
	required bool
	members  []parameter // of an object, or of the elements of an array
	items    string      // type of the elements of an array
}

// schemaNode is the part of a JSON schema that matters here.
type schemaNode struct {
	Type        json.RawMessage   `json:"type"`
	Description string            `json:"description"`
	Enum        []any             `json:"enum"`
	Properties  json.RawMessage   `json:"properties"`
	Required    []string          `json:"required"`
	Items       json.RawMessage   `json:"items"`
	AnyOf       []json.RawMessage `json:"anyOf"`
}

// parameters returns the parameters of a tool, in the order of its signature.
func parameters(t task.Described) []parameter {
	all := members(t.Input)
	at := func(p parameter) int {
		if i := strings.Index(t.Signature, p.name); i >= 0 {
			return i
		}
		return len(t.Signature)
	}
	slices.SortStableFunc(all, func(a, b parameter) int { return at(a) - at(b) })
	return all
}

func members(schema json.RawMessage) (all []parameter) {
	var n schemaNode
	if json.Unmarshal(schema, &n) != nil {
		return nil
	}
	dec := json.NewDecoder(bytes.NewReader(n.Properties)) // a map would lose the order
	if t, err := dec.Token(); err != nil || t != json.Delim('{') {
		return nil
	}
	for dec.More() {
		name, _ := dec.Token()
		var raw json.RawMessage
		if dec.Decode(&raw) != nil {
			return all
		}
		p := newParameter(name.(string), raw)
		p.required = slices.Contains(n.Required, p.name)
		all = append(all, p)
	}
	return all
}

func newParameter(name string, raw json.RawMessage) parameter {
	var n schemaNode
	_ = json.Unmarshal(raw, &n)
	for _, other := range n.AnyOf {
		var m schemaNode
		if json.Unmarshal(other, &m) == nil && m.kind() != "null" {
			m.Description = n.Description
			n = m
			raw = other
			break
		}
	}
	p := parameter{name: name, about: n.Description, kind: n.kind()}
	for _, e := range n.Enum {
		if s, ok := e.(string); ok {
			p.enum = append(p.enum, s)
		}
	}
	switch p.kind {
	case "object":
		p.members = members(raw)
	case "array":
		var of schemaNode
		_ = json.Unmarshal(n.Items, &of)
		if p.items = of.kind(); p.items == "object" {
			p.members = members(n.Items)
		}
	}
	return p
}

// kind returns the JSON type, of several the first that is not null.
func (n schemaNode) kind() string {
	var one string
	if json.Unmarshal(n.Type, &one) == nil {
		return one
	}
	var several []string
	_ = json.Unmarshal(n.Type, &several)
	for _, t := range several {
		if t != "null" {
			return t
		}
	}
	return ""
}
