package builtin

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/sandpiper-mcp/sandpiper/internal/fault"
	"github.com/sandpiper-mcp/sandpiper/internal/home"
	"github.com/sandpiper-mcp/sandpiper/internal/toolcall/lookup"
)

// Kind is the JSON type of a parameter.
type kind string

const (
	Text     kind = "string"
	Number   kind = "number"
	Integer  kind = "integer"
	Object   kind = "object"
	Texts    kind = "array" // of strings
	Boolean  kind = "boolean"
	Anything kind = "" // JSON
	// TextOrTexts is a string or an array of strings.
	TextOrTexts kind = "string or array"
)

// Source returns the values that exist for an argument, the most useful first. Home and
// finder are those of the caller.
type Source func(context.Context, *home.Home, *lookup.Finder) ([]string, error)

// FileNames are the files in the workspace.
var FileNames Source = func(ctx context.Context, home *home.Home, _ *lookup.Finder) ([]string, error) {
	all, err := home.Workspace.List(ctx, ".")
	return all.Files, err
}

// SessionIDs are the sessions.
var SessionIDs Source = func(ctx context.Context, home *home.Home, _ *lookup.Finder) (ids []string, err error) {
	all, err := home.Sessions.List(ctx)
	for _, s := range all {
		ids = append(ids, s.ID)
	}
	return ids, err
}

// Param is one parameter of a tool. The listed schema and the argument check are made
// from the same params.
type Param struct {
	Name        string
	Kind        kind
	Description string   // for the model; empty if the name is sufficient
	Required    bool     //
	Default     any      // shown as the default; nil means none
	MaxBytes    int      // bytes of a text or JSON value; 0 means that the tool itself limits it
	Values      []string // allowed strings; nil means any
	Source      Source   // Values that exist, for completion; nil means values
	Rare        bool     // accepted, but not listed in the profile lean
}

// Schema converts params to a JSON Schema, in the same order. It is short: other arguments are
// not allowed, but only their error states that.
func Schema(params []Param) json.RawMessage {
	if len(params) == 0 {
		return json.RawMessage(`{"type":"object"}`)
	}
	var b, required bytes.Buffer
	b.WriteString(`{"type":"object","properties":{`)
	for i, p := range params {
		if i > 0 {
			b.WriteByte(',')
		}
		fmt.Fprintf(&b, "%s:%s", compact(p.Name), p.schema())
		if p.Required {
			fmt.Fprintf(&required, ",%s", compact(p.Name))
		}
	}
	b.WriteByte('}')
	if required.Len() > 0 {
		fmt.Fprintf(&b, `,"required":[%s]`, required.Bytes()[1:])
	}
	b.WriteByte('}')
	return b.Bytes()
}

// LeanSchema is the schema for the profile lean: without rare parameters and without defaults.
func LeanSchema(params []Param) json.RawMessage {
	listed := slices.DeleteFunc(slices.Clone(params), func(p Param) bool { return p.Rare })
	for i := range listed {
		listed[i].Default = nil
	}
	return Schema(listed)
}

func (p Param) schema() []byte {
	var s struct {
		Type        any             `json:"type,omitempty"`
		Description string          `json:"description,omitempty"`
		Items       json.RawMessage `json:"items,omitempty"`
		Enum        []string        `json:"enum,omitempty"`
		Default     any             `json:"default,omitempty"`
	}
	s.Description, s.Enum, s.Default = p.Description, p.Values, p.Default
	switch p.Kind {
	case Anything:
	case TextOrTexts:
		s.Type = []kind{Text, Texts}
	default:
		s.Type = p.Kind
	}
	if p.Kind == Texts || p.Kind == TextOrTexts {
		s.Items = json.RawMessage(`{"type":"string"}`)
	}
	return compact(s)
}

// compact marshals v without HTML escapes, which would cost a model tokens. v is always
// marshalable.
func compact(v any) []byte {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		panic(err)
	}
	return bytes.TrimRight(b.Bytes(), "\n")
}

// Decode checks the arguments of a call to tool against params and reads them into out,
// whose fields have the defaults. Null means an absent argument. The note names the arguments
// that had to be converted; it is empty if there were none.
func Decode(tool string, params []Param, raw json.RawMessage, out any) (note string, err error) {
	if len(raw) == 0 {
		raw = json.RawMessage("{}")
	}
	given, err := members(tool, raw)
	if err != nil {
		return "", err
	}
	for _, g := range given {
		if FindParam(params, g.name) == nil {
			return "", UnknownParam(tool, params, g.name)
		}
	}
	present := slices.DeleteFunc(slices.Clone(given), func(g member) bool {
		return string(g.value) == "null" && !FindParam(params, g.name).
			Required
	})
	if note = convertAll(params, present); note != "" || len(present) < len(given) {
		given, raw = present, joined(present)
	}
	for _, p := range params {
		if err := p.check(tool, given); err != nil {
			return "", err
		}
	}
	if err := json.Unmarshal(raw, out); err != nil {
		return "", fault.Wrap(fault.Invalid, err, "the arguments of %s cannot be read", tool)
	}
	return note, nil
}

// member is a name and value of a JSON object.
type member struct {
	name  string
	value json.RawMessage
}

// members splits a JSON object. It rejects duplicate names, which parsers interpret
// differently.
func members(tool string, raw json.RawMessage) ([]member, error) {
	dec := json.NewDecoder(bytes.NewReader(raw))
	open, err := dec.Token()
	if err != nil || open != json.Delim('{') {
		return nil, fault.New(fault.Invalid, "the arguments of %s must be an object, not %s", tool, describe(raw))
	}
	var all []member
	for dec.More() {
		name, err := dec.Token()
		if err != nil {
			return nil, broken(tool, err)
		}
		m := member{name: name.(string)}
		if err := dec.Decode(&m.value); err != nil {
			return nil, broken(tool, err)
		}
		if memberValue(all, m.name) != nil {
			return nil, fault.New(fault.Invalid, "%s was given %s twice", tool, quote(m.name))
		}
		all = append(all, m)
	}
	if _, err := dec.Token(); err != nil && !errors.Is(err, io.EOF) {
		return nil, broken(tool, err)
	}
	return all, nil
}

func broken(tool string, cause error) error {
	return fault.Wrap(fault.Invalid, cause, "the arguments of %s are not valid JSON", tool)
}

func memberValue(all []member, name string) json.RawMessage {
	for _, m := range all {
		if m.name == name {
			return m.value
		}
	}
	return nil
}

func FindParam(params []Param, name string) *Param {
	for i := range params {
		if params[i].Name == name {
			return &params[i]
		}
	}
	return nil
}

// joined is the inverse of members.
func joined(all []member) json.RawMessage {
	var b bytes.Buffer
	for _, m := range all {
		fmt.Fprintf(&b, ",%s:%s", compact(m.name), m.value)
	}
	return append(append(json.RawMessage("{"), bytes.TrimPrefix(b.Bytes(), []byte(","))...), '}')
}

func (p Param) check(tool string, given []member) error {
	value := memberValue(given, p.Name)
	if value == nil || string(value) == "null" && p.Kind != Anything { // whose value may be null
		if p.Required {
			return fault.New(fault.Invalid, "%s needs %s, %s", tool, p.Name, p.allowed())
		}
		return nil
	}
	if !p.fits(value) {
		return fault.New(fault.Invalid, "%s: %s must be %s, not %s", tool, p.Name, p.allowed(), describe(value))
	}
	return nil
}

// allowed describes the allowed values of p.
func (p Param) allowed() string {
	switch {
	case p.Values != nil:
		return "one of " + strings.Join(p.Values, ", ")
	case p.Kind == Texts:
		return "an array of strings"
	case p.Kind == TextOrTexts:
		return "a string or an array of strings"
	case p.Kind == Anything:
		return "a JSON value"
	case p.Kind == Integer || p.Kind == Object:
		return "an " + string(p.Kind)
	default:
		return "a " + string(p.Kind)
	}
}

func (p Param) fits(value json.RawMessage) bool {
	switch p.Kind {
	case Text:
		var s string
		return json.Unmarshal(value, &s) == nil && (p.Values == nil || slices.Contains(p.Values, s))
	case Number:
		var f float64
		return json.Unmarshal(value, &f) == nil
	case Integer:
		var f float64 // accept 30.0 as an integer
		return json.Unmarshal(value, &f) == nil && f == math.Trunc(f)
	case Boolean:
		return value[0] == 't' || value[0] == 'f'
	case Object:
		return value[0] == '{'
	case TextOrTexts:
		return Param{Kind: Text}.fits(value) || Param{Kind: Texts}.fits(value)
	case Anything:
		return true
	default:
		var list []*string
		return json.Unmarshal(value, &list) == nil && !slices.Contains(list, nil)
	}
}

// describe quotes an invalid value for an error, truncated.
func describe(value json.RawMessage) string {
	const most = 60
	s := strings.ToValidUTF8(string(bytes.TrimSpace(value)), "\uFFFD")
	if utf8.RuneCountInString(s) > most {
		s = string([]rune(s)[:most]) + "…"
	}
	switch s[:1] {
	case `"`:
		return "the string " + s
	case "{":
		return "the object " + s
	case "[":
		return "the array " + s
	default:
		return s
	}
}

func quote(name string) string { return fmt.Sprintf("%.60q", name) }

// UnknownParam returns the error of an unknown parameter, with the nearest name or all names.
func UnknownParam(tool string, params []Param, name string) error {
	e := fault.New(fault.Invalid, "%s has no parameter %s", tool, quote(name))
	names := make([]string, len(params))
	for i, p := range params {
		names[i] = p.Name
	}
	if near := fault.Nearest(name, names, 1); near != nil {
		return e.WithHint("did you mean %s?", near[0])
	}
	if len(names) == 0 {
		return e.WithHint("it takes none")
	}
	return e.WithHint("it takes %s", strings.Join(names, ", "))
}

// Int64 converts f, which has no fraction, to the nearest int64: JSON numbers can be
// larger.
func Int64(f float64) int64 {
	const exact = 1 << 53
	return int64(math.Max(-exact, math.Min(f, exact)))
}
