package schema

import (
	"bytes"
	"encoding/json"
)

// Param is a top-level property of a schema.
type Param struct {
	Name     string
	Required bool
	Schema   json.RawMessage
}

// Params returns the top-level properties of a schema in the order of the parameters of
// the generated function: required ones first, each group in the order of the schema.
func Params(raw json.RawMessage) []Param {
	var s struct {
		Properties json.RawMessage `json:"properties"`
		Required   []string        `json:"required"`
	}
	if json.Unmarshal(raw, &s) != nil {
		return nil
	}
	required := map[string]bool{}
	for _, name := range s.Required {
		required[name] = true
	}
	var first, rest []Param
	for _, p := range properties(s.Properties) {
		if p.Required = required[p.Name]; p.Required {
			first = append(first, p)
		} else {
			rest = append(rest, p)
		}
	}
	return append(first, rest...)
}

// openKeywords lists the keywords that may allow arguments besides the properties.
var openKeywords = []string{"additionalProperties", "patternProperties", "allOf", "anyOf", "oneOf", "if", "then", "else", "$ref", "dependentSchemas"}

// Open reports whether a schema may allow arguments that Params does not return.
func Open(raw json.RawMessage) bool {
	var s map[string]json.RawMessage
	if json.Unmarshal(raw, &s) != nil {
		return true // true, false, or no schema
	}
	for _, k := range openKeywords {
		if v, ok := s[k]; ok && string(v) != "false" && string(v) != "null" {
			return true
		}
	}
	return false
}

// properties returns the members of an object in their order.
func properties(raw json.RawMessage) (all []Param) {
	dec := json.NewDecoder(bytes.NewReader(raw))
	if t, err := dec.Token(); err != nil || t != json.Delim('{') {
		return nil
	}
	seen := map[string]bool{}
	for dec.More() {
		k, err := dec.Token()
		name, ok := k.(string)
		if err != nil || !ok {
			return all
		}
		var of json.RawMessage
		if dec.Decode(&of) != nil {
			return all
		}
		if !seen[name] {
			seen[name] = true
			all = append(all, Param{Name: name, Schema: of})
		}
	}
	return all
}
