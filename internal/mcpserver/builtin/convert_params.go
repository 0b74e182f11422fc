package builtin

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
)

// convertAll converts strings of given whose text is a value of the parameter's kind, such as
// "5" for a number or JSON text for an object: models send arguments like that. It returns a note
// for the model that names the converted arguments, and "" if there are none.
func convertAll(params []Param, given []member) (note string) {
	var notes []string
	for i, g := range given {
		p := FindParam(params, g.name)
		if value, ok := p.convert(g.value); ok {
			given[i].value = value
			notes = append(notes, fmt.Sprintf("%s was a string; send %s", p.Name, p.allowed()))
		}
	}
	return strings.Join(notes, "; ")
}

// convert returns the value in a string, if p needs another kind and the text of the string is of
// that kind.
func (p Param) convert(value json.RawMessage) (json.RawMessage, bool) {
	switch p.Kind {
	case Number, Integer, Boolean, Object, Texts:
	default:
		return nil, false
	}
	var s string
	if p.fits(value) || json.Unmarshal(value, &s) != nil || string(value) == "null" {
		return nil, false
	}
	inner := json.RawMessage(strings.TrimSpace(s))
	if p.Kind == Boolean { // Python's True too
		inner = bytes.ToLower(inner)
	}
	if !json.Valid(inner) || string(inner) == "null" || !p.fits(inner) {
		return nil, false
	}
	return inner, true
}
