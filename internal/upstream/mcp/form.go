package mcp

import (
	"encoding/json"
	"maps"
	"slices"

	"github.com/sandpiper-mcp/sandpiper/internal/fault"
	"github.com/sandpiper-mcp/sandpiper/internal/tool"
	"github.com/sandpiper-mcp/sandpiper/internal/upstream/sanitize"
)

// Bounds of an elicitation.
const (
	maxMessage = 4 << 10  // bytes of the text
	maxForm    = 16 << 10 // bytes of the schema
	maxFields  = 64
	maxLabel   = 512 // bytes of a title or a description
)

// form is the parameters of an elicitation.
type form struct {
	Mode    string          `json:"mode"`
	Message string          `json:"message"`
	Schema  json.RawMessage `json:"requestedSchema"`
}

// fields is the subset of the schema that clients can display. Everything else, such as
// references and nested schemas, is dropped.
type fields struct {
	Type       string           `json:"type"`
	Properties map[string]field `json:"properties"`
	Required   []string         `json:"required,omitempty"`
}

type field struct {
	Type        string            `json:"type,omitempty"`
	Title       string            `json:"title,omitempty"`
	Description string            `json:"description,omitempty"`
	Enum        []json.RawMessage `json:"enum,omitempty"`
	EnumNames   []string          `json:"enumNames,omitempty"`
	OneOf       []choice          `json:"oneOf,omitempty"`
	Items       *items            `json:"items,omitempty"`
	Default     json.RawMessage   `json:"default,omitempty"`
	Format      string            `json:"format,omitempty"`
	Minimum     json.RawMessage   `json:"minimum,omitempty"`
	Maximum     json.RawMessage   `json:"maximum,omitempty"`
	MinLength   json.RawMessage   `json:"minLength,omitempty"`
	MaxLength   json.RawMessage   `json:"maxLength,omitempty"`
	MinItems    json.RawMessage   `json:"minItems,omitempty"`
	MaxItems    json.RawMessage   `json:"maxItems,omitempty"`
}

// items describes the choices of a multiple-choice field.
type items struct {
	Type  string            `json:"type,omitempty"`
	Enum  []json.RawMessage `json:"enum,omitempty"`
	AnyOf []choice          `json:"anyOf,omitempty"`
}

type choice struct {
	Const json.RawMessage `json:"const"`
	Title string          `json:"title,omitempty"`
}

// toQuestion returns the question with sanitized texts and a displayable schema, and the
// defaults of its fields. It does not check whether a client supports it.
func (f form) toQuestion() (q tool.Question, defaults map[string]json.RawMessage, err error) {
	switch {
	case f.Mode != "" && f.Mode != "form":
		return q, nil, fault.New(fault.Invalid, "only elicitation mode form is supported")
	case len(f.Schema) > maxForm:
		return q, nil, fault.New(fault.Invalid, "its schema has %d bytes; the limit is %d", len(f.Schema), maxForm)
	}
	var s fields
	if err := json.Unmarshal(f.Schema, &s); err != nil {
		return q, nil, fault.Wrap(fault.Invalid, err, "its schema is not a form schema")
	}
	if len(s.Properties) > maxFields || s.Type != "object" {
		return q, nil, fault.New(fault.Invalid, "its schema is not an object or has %d fields; the limit is %d", len(s.Properties),
			maxFields)
	}
	defaults, err = s.sanitize()
	if err != nil {
		return q, nil, err
	}
	q.Text = sanitize.Text(f.Message, maxMessage)
	q.Schema, err = json.Marshal(s)
	return q, defaults, err
}

// sanitize sanitizes all texts and makes fields with a default optional. It returns an
// error for names and choices that sanitizing would change.
func (s *fields) sanitize() (defaults map[string]json.RawMessage, err error) {
	defaults = map[string]json.RawMessage{}
	for _, name := range slices.Sorted(maps.Keys(s.Properties)) {
		f := s.Properties[name]
		if name == "" || sanitize.Line(name, maxLabel) != name || !f.isDisplayable() {
			return nil, fault.New(fault.Invalid, "a field name or choice contains characters that cannot be displayed")
		}
		f.sanitize()
		s.Properties[name] = f
		if f.Default != nil && string(f.Default) != "null" {
			defaults[name] = f.Default
		}
	}
	s.Required = slices.DeleteFunc(s.Required, func(name string) bool { return defaults[name] != nil })
	return defaults, nil
}

// isDisplayable reports whether sanitizing keeps all choices unchanged.
func (f field) isDisplayable() bool {
	values := append(slices.Clone(f.Enum), f.Default)
	choices := f.OneOf
	if f.Items != nil {
		values, choices = append(values, f.Items.Enum...), append(slices.Clone(choices), f.Items.AnyOf...)
	}
	for _, c := range choices {
		values = append(values, c.Const)
	}
	return !slices.ContainsFunc(values, func(v json.RawMessage) bool {
		var text string
		return json.Unmarshal(v, &text) == nil && sanitize.Text(text, maxForm) != text
	})
}

func (f *field) sanitize() {
	f.Format = sanitize.Line(f.Format, maxLabel)
	f.Title, f.Description = sanitize.Line(f.Title, maxLabel), sanitize.Text(f.Description, maxLabel)
	for i, name := range f.EnumNames {
		f.EnumNames[i] = sanitize.Line(name, maxLabel)
	}
	sanitizeTitles(f.OneOf)
	if f.Items != nil {
		sanitizeTitles(f.Items.AnyOf)
	}
}

func sanitizeTitles(choices []choice) {
	for i, c := range choices {
		choices[i].Title = sanitize.Line(c.Title, maxLabel)
	}
}
