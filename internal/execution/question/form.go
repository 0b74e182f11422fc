package question

import (
	"encoding/json"
	"slices"
	"strings"

	"github.com/google/jsonschema-go/jsonschema"

	"github.com/sandpiper-mcp/sandpiper/internal/fault"
	"github.com/sandpiper-mcp/sandpiper/internal/tool"
	"github.com/sandpiper-mcp/sandpiper/internal/tool/schema"
)

// Form is a schema that clients can display as a form.
type Form struct {
	Schema json.RawMessage // of type object
	// Wrapped means that the only property is the schema that was given, which had
	// another type than object.
	Wrapped bool
	answers *schema.Schema
}

// fieldTypes are the types of form fields that clients can display.
var fieldTypes = []string{"string", "number", "integer", "boolean"}

// ParseForm returns the form of a schema; without a schema, one with a string.
func ParseForm(raw json.RawMessage) (f Form, err error) {
	if len(raw) == 0 || string(raw) == "null" {
		raw = json.RawMessage(`{"type":"string"}`)
	}
	if len(raw) > maxSchema {
		return f, fault.New(fault.Invalid, "the schema has %d bytes; at most %d are allowed", len(raw), maxSchema)
	}
	s := &jsonschema.Schema{}
	if err := json.Unmarshal(raw, s); err != nil {
		return f, notASchema(err, raw)
	}
	if f.Wrapped = s.Type != "object"; f.Wrapped {
		if s.Type == "" && len(s.Enum) > 0 {
			s.Type = "string" // clients need the type to display a choice
		}
		s = &jsonschema.Schema{Type: "object", Properties: map[string]*jsonschema.Schema{"answer": s}, Required: []string{"answer"}}
		if raw, err = json.Marshal(s); err != nil {
			return f, err
		}
	}
	if err := checkFields(s); err != nil {
		return f, err
	}
	f.Schema = raw
	if f.answers, err = schema.CompileStrict(raw); err != nil {
		return f, notASchema(err, raw)
	}
	return f, nil
}

func notASchema(err error, raw json.RawMessage) error {
	return fault.Wrap(fault.Invalid, err, "the schema is not a JSON schema: %.100q", raw)
}

// checkFields rejects schemas that no client can display: a form has only plain fields.
func checkFields(s *jsonschema.Schema) error {
	if len(s.Properties) == 0 {
		return fault.New(fault.Invalid, "the schema has no properties to fill in")
	}
	for name, p := range s.Properties {
		items := p.Type == "array" && p.Items != nil && (len(p.Items.Enum) > 0 || len(p.Items.AnyOf) > 0)
		if !slices.Contains(fieldTypes, p.Type) && len(p.Enum) == 0 && !items {
			return fault.New(fault.Invalid, "property %.60q of the schema has type %q; it must be %s, or a choice from an enum",
				name, p.Type, strings.Join(fieldTypes, ", "))
		}
	}
	return nil
}

// Value returns the value of a reply that the given schema describes; nil if the user
// did not accept.
func (f Form) Value(r tool.Reply) (json.RawMessage, error) {
	if r.Action != tool.Accept {
		return nil, nil
	}
	if !f.Wrapped {
		return r.Content, nil
	}
	var content struct{ Answer json.RawMessage }
	err := json.Unmarshal(r.Content, &content)
	return content.Answer, err
}
