package schema

import (
	"encoding/json"
	"slices"
	"strings"
)

// Enum returns the values that a schema lists for a top-level property, or for the elements
// of an array: strings as they are, other values as JSON. It returns nil without a list.
func Enum(raw json.RawMessage, property string) []string { return enumOf(raw, property, maxEnumDepth) }

func enumOf(raw json.RawMessage, property string, depth int) (all []string) {
	var s struct {
		Properties          map[string]json.RawMessage
		AllOf, AnyOf, OneOf []json.RawMessage
	}
	if depth == 0 || json.Unmarshal(raw, &s) != nil {
		return nil
	}
	if of, ok := s.Properties[property]; ok {
		all = enum(of, maxEnumDepth)
	}
	for _, part := range slices.Concat(s.AllOf, s.AnyOf, s.OneOf) {
		for _, v := range enumOf(part, property, depth-1) {
			if !slices.Contains(all, v) {
				all = append(all, v)
			}
		}
	}
	return all
}

// maxEnumDepth limits nested alternatives.
const maxEnumDepth = 4

func enum(raw json.RawMessage, depth int) (all []string) {
	var s struct {
		Enum         []json.RawMessage
		Const        json.RawMessage
		AnyOf, OneOf []json.RawMessage
		Items        json.RawMessage
	}
	if depth == 0 || json.Unmarshal(raw, &s) != nil {
		return nil
	}
	if s.Const != nil {
		s.Enum = append(s.Enum, s.Const)
	}
	for _, v := range s.Enum {
		var text string
		if json.Unmarshal(v, &text) != nil {
			text = strings.TrimSpace(string(v))
		}
		if string(v) != "null" {
			all = append(all, text)
		}
	}
	for _, alternative := range append(s.AnyOf, s.OneOf...) {
		all = append(all, enum(alternative, depth-1)...)
	}
	if len(all) == 0 && s.Items != nil {
		return enum(s.Items, depth-1)
	}
	return all
}
