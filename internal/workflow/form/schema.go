package form

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/santhosh-tekuri/jsonschema/v6"
)

// schemaForm is an open JSON Schema, whose filled form is a document that conforms to it.
type schemaForm struct {
	raw  any // decoded
	form *Form
	seen int
}

// schemaURL is the address of a schema. A relative one would be joined to the working directory,
// which the confined process cannot ask for.
const schemaURL = "mem:///form.json"

// maxSchemas limits the schemas that are visited: references may repeat them.
const maxSchemas = 20_000

func openSchema(raw []byte) (*document, error) {
	value, err := jsonschema.UnmarshalJSON(bytes.NewReader(raw))
	root, ok := value.(map[string]any)
	if err != nil || !ok {
		return nil, wrong(broken, "the file begins like JSON and is none: %.200s", err)
	}
	if root["properties"] == nil && root["$ref"] == nil {
		return nil, wrong(unknown, "the JSON document is not a JSON Schema of an object: it has no properties")
	}
	s := &schemaForm{raw: value, form: &Form{Kind: JSONSchema}}
	s.form.Title, _ = root["title"].(string)
	order := keyOrder(raw)
	if err := s.walk(root, nil, "", true, order, 0); err != nil {
		return nil, err
	}
	return &document{form: s.form, write: s.write, expand: s.expand}, nil
}

// walk adds the fields of the properties of an object. Group is the path of the list that it is in.
func (s *schemaForm) walk(o map[string]any, path []string, group string, required bool, order map[string]int, depth int) error {
	o = s.resolve(o)
	if s.seen++; s.seen > maxSchemas || depth > maxDepth {
		return wrong(tooLarge, "the JSON Schema is nested too deeply, or refers to itself")
	}
	properties, _ := o["properties"].(map[string]any)
	needed := textsOf(o["required"])
	names := slices.SortedStableFunc(mapsKeys(properties), func(a, b string) int {
		if order[a] != order[b] {
			return order[a] - order[b]
		}
		return strings.Compare(a, b)
	})
	for _, name := range names {
		p, ok := properties[name].(map[string]any)
		if !ok {
			continue
		}
		p = s.resolve(p)
		if err := s.property(p, append(slices.Clone(path), name), group, required && slices.Contains(needed, name), order, depth); err != nil {
			return err
		}
	}
	return nil
}

func (s *schemaForm) property(p map[string]any, path []string, group string, required bool, order map[string]int, depth int) error {
	kind, _ := p["type"].(string)
	if list, ok := p["type"].([]any); ok { // such as ["string", "null"]
		for _, x := range list {
			if x != "null" {
				kind, _ = x.(string)
			}
		}
	}
	items, _ := p["items"].(map[string]any)
	items = s.resolve(items)
	switch {
	case p["properties"] != nil:
		return s.walk(p, path, group, required, order, depth+1)
	case kind == "array" && items["properties"] != nil:
		if group != "" {
			return wrong(tooLarge, "the JSON Schema has a list within a list at %s, which is not supported", strings.Join(path, "."))
		}
		list := strings.Join(path, ".")
		return s.walk(items, append(slices.Clone(path), ""), list, true, order, depth+1)
	}
	f := &Field{Name: schemaName(path, -1), Required: required, Group: group, Repeats: group != "", target: path}
	f.Label, _ = p["title"].(string)
	if about, _ := p["description"].(string); f.Label == "" && len(about) <= 60 {
		f.Label = clean(about)
	}
	f.Pattern, _ = p["pattern"].(string)
	f.MaxLength = int(numberOf(p["maxLength"], 0))
	f.Minimum, f.Maximum = pointerTo(p["minimum"]), pointerTo(p["maximum"])
	f.Value = p["default"]
	if c, ok := p["const"]; ok {
		f.Value, f.ReadOnly = c, true
	}
	format, _ := p["format"].(string)
	s.describe(f, kind, format, p, items)
	s.form.Fields = append(s.form.Fields, f)
	if len(s.form.Fields) > MaxFields {
		return wrong(tooMany, "the JSON Schema has more than %d fields", MaxFields)
	}
	return nil
}

func (s *schemaForm) describe(f *Field, kind, format string, p, items map[string]any) {
	switch {
	case p["enum"] != nil:
		f.Type, f.Options = choice, optionsOf(p["enum"])
	case kind == "array":
		f.Type, f.Options = choices, optionsOf(items["enum"])
	case kind == "number", kind == "integer", kind == "boolean":
		f.Type = kind
	case format == "date":
		f.Type = date
	case format == "email":
		f.Type = email
	default:
		f.Type, f.Multiline = text, true
	}
}

func optionsOf(v any) (options []Option) {
	for _, s := range textsOf(v) {
		options = append(options, Option{Value: s})
	}
	return options
}

// resolve follows references within the document.
func (s *schemaForm) resolve(o map[string]any) map[string]any {
	for range maxDepth {
		ref, ok := o["$ref"].(string)
		if !ok || !strings.HasPrefix(ref, "#") {
			return o
		}
		var at any = s.raw
		for part := range strings.SplitSeq(strings.TrimPrefix(ref[1:], "/"), "/") {
			if ref == "#" {
				break
			}
			m, _ := at.(map[string]any)
			at = m[strings.NewReplacer("~1", "/", "~0", "~").Replace(part)]
		}
		next, ok := at.(map[string]any)
		if !ok {
			return map[string]any{}
		}
		o = next
	}
	return o
}

// schemaName is the name of a field: an empty element of its path is a row, counted from 0.
func schemaName(path []string, row int) string {
	var b strings.Builder
	for i, part := range path {
		switch {
		case part == "" && row < 0:
			b.WriteString("[]")
		case part == "":
			fmt.Fprintf(&b, "[%d]", row)
		case i > 0:
			b.WriteString("." + part)
		default:
			b.WriteString(part)
		}
	}
	return b.String()
}

// expand repeats the fields of lists for the rows of the data.
func (s *schemaForm) expand(rows map[string]int) []*Field {
	var fields []*Field
	for _, f := range s.form.Fields {
		if !f.Repeats {
			fields = append(fields, f)
			continue
		}
		list := strings.Join(singular(words(f.Group)), "_")
		for row := range min(rows[list], MaxFields+1) {
			path := f.target.([]string)
			one := *f
			one.Name, one.Row, one.Group, one.Repeats = schemaName(path, row), row+1, list, false
			one.Column = canonical(words(strings.Join(path[slices.Index(path, "")+1:], " ")))
			one.Value, one.target = nil, withRow(path, row)
			fields = append(fields, &one)
			if len(fields) > MaxFields {
				return fields
			}
		}
	}
	return fields
}

func withRow(path []string, row int) []string {
	out := slices.Clone(path)
	out[slices.Index(out, "")] = "\x00" + strconv.Itoa(row)
	return out
}

// write returns the document, after it was checked against the whole schema.
func (s *schemaForm) write(values map[*Field]any) ([]byte, error) {
	out := map[string]any{}
	for _, f := range s.form.Fields {
		if _, ok := values[f]; !ok && f.Value != nil && !f.Repeats {
			place(out, f.target.([]string), f.Value)
		}
	}
	for f, v := range values {
		place(out, f.target.([]string), v)
	}
	whole := withLists(out)
	b, err := json.MarshalIndent(whole, "", "  ")
	if err != nil {
		return nil, err
	}
	c := jsonschema.NewCompiler()
	c.UseLoader(noLoader{})
	c.AssertFormat()
	if err := c.AddResource(schemaURL, s.raw); err != nil {
		return nil, wrong(broken, "the JSON Schema is not valid: %.300s", err)
	}
	compiled, err := c.Compile(schemaURL)
	if err != nil {
		return nil, wrong(broken, "the JSON Schema is not valid: %.300s", err)
	}
	value, err := jsonschema.UnmarshalJSON(bytes.NewReader(b))
	if err != nil {
		return nil, err
	}
	if err := compiled.Validate(value); err != nil {
		return nil, wrong(mismatch, "the filled document does not conform to the JSON Schema in: %s", placesOf(err))
	}
	return append(b, '\n'), nil
}

// placesOf lists the places that do not conform, without values.
func placesOf(err error) string {
	invalid, ok := errors.AsType[*jsonschema.ValidationError](err)
	if !ok {
		return "the whole"
	}
	var places []string
	var walk func(e *jsonschema.ValidationError)
	walk = func(e *jsonschema.ValidationError) {
		if len(e.Causes) == 0 {
			places = append(places, "/"+strings.Join(e.InstanceLocation, "/")+" ("+strings.Join(e.ErrorKind.KeywordPath(), "/")+")")
		}
		for _, c := range e.Causes {
			walk(c)
		}
	}
	walk(invalid)
	return someNames(places)
}

// noLoader refuses references to other documents.
type noLoader struct{}

func (noLoader) Load(url string) (any, error) {
	return nil, fmt.Errorf("references to other documents are not followed: %s", url)
}

// place puts a value at a path of objects; rows are objects under keys that no property has.
func place(o map[string]any, path []string, v any) {
	for _, part := range path[:len(path)-1] {
		next, ok := o[part].(map[string]any)
		if !ok {
			next = map[string]any{}
			o[part] = next
		}
		o = next
	}
	o[path[len(path)-1]] = v
}

// withLists converts the rows that place made to lists.
func withLists(v any) any {
	o, ok := v.(map[string]any)
	if !ok {
		return v
	}
	rows := map[int]any{}
	for key, x := range o {
		o[key] = withLists(x)
		if n, err := strconv.Atoi(strings.TrimPrefix(key, "\x00")); err == nil && strings.HasPrefix(key, "\x00") {
			rows[n] = o[key]
		}
	}
	if len(rows) == 0 {
		return o
	}
	list := []any{}
	for n := range len(rows) {
		if row, ok := rows[n]; ok {
			list = append(list, row)
		}
	}
	return list
}

// keyOrder returns the position of the first occurrence of each key in a document.
func keyOrder(raw []byte) map[string]int {
	order := map[string]int{}
	dec := json.NewDecoder(bytes.NewReader(raw))
	for {
		t, err := dec.Token()
		if err != nil {
			return order
		}
		if s, ok := t.(string); ok {
			if _, seen := order[s]; !seen {
				order[s] = len(order)
			}
		}
	}
}

func numberOf(v any, otherwise float64) float64 {
	if n, ok := numeric(v); ok {
		return n
	}
	return otherwise
}

func pointerTo(v any) *float64 {
	if n, ok := numeric(v); ok {
		return &n
	}
	return nil
}
