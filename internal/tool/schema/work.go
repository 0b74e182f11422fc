package schema

import (
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"regexp/syntax"
	"strconv"
	"strings"

	"github.com/santhosh-tekuri/jsonschema/v6"
)

// Limits of a schema. Its patterns are compiled at once, each level lengthens the pointers to those
// below it, and the compiler compares each of its schemas with all others.
const (
	maxSchemas      = 10_000
	maxSchemaDepth  = 200
	maxInstructions = 100_000 // of all patterns, see package regexp/syntax
	maxNumber       = 400     // characters of a number, and its exponent
)

// compile compiles a schema without references to other documents.
func compile(raw json.RawMessage, configure ...func(*jsonschema.Compiler)) (*jsonschema.Schema, error) {
	doc, err := parse(raw)
	if err != nil {
		return nil, err
	}
	return compileDoc(doc, configure...)
}

// parse decodes a schema that is not too large to compile.
func parse(raw json.RawMessage) (any, error) {
	if len(raw) > maxBytes {
		return nil, fmt.Errorf("it has more than %d bytes", maxBytes)
	}
	doc, err := jsonschema.UnmarshalJSON(strings.NewReader(string(raw)))
	if err != nil {
		return nil, errors.New("it is not JSON")
	}
	schemas := 0
	return doc, plain(doc, 1, &schemas)
}

func compileDoc(doc any, configure ...func(*jsonschema.Compiler)) (*jsonschema.Schema, error) {
	c := jsonschema.NewCompiler()
	for _, set := range configure {
		set(c)
	}
	c.UseLoader(noLoader{})
	left, compiled := maxInstructions, false
	c.UseRegexpEngine(func(expr string) (jsonschema.Regexp, error) {
		if compiled { // expr is a value of the format regex
			own := maxInstructions
			return newPattern(expr, &own)
		}
		return newPattern(expr, &left)
	})
	if err := c.AddResource("mem:///schema", doc); err != nil {
		return nil, err
	}
	s, err := c.Compile("mem:///schema")
	compiled = true
	return s, err
}

// noLoader rejects external references.
type noLoader struct{}

func (noLoader) Load(string) (any, error) {
	return nil, errors.New("external references are not supported")
}

// plain returns an error for a schema that is nested too deep, has too many schemas or huge
// numbers. It counts each object and boolean as a schema.
func plain(v any, depth int, schemas *int) (err error) {
	if depth > maxSchemaDepth {
		return fmt.Errorf("it is nested deeper than %d levels", maxSchemaDepth)
	}
	switch v := v.(type) {
	case map[string]any:
		*schemas++
		for _, inner := range v {
			if err = plain(inner, depth+1, schemas); err != nil {
				return err
			}
		}
	case []any:
		for _, inner := range v {
			if err = plain(inner, depth+1, schemas); err != nil {
				return err
			}
		}
	case bool:
		*schemas++
	case json.Number:
		if digits(v) > maxNumber {
			return fmt.Errorf("a number has more than %d digits", maxNumber)
		}
	}
	if *schemas > maxSchemas {
		return fmt.Errorf("it has more than %d schemas", maxSchemas)
	}
	return nil
}

// digits returns about how many digits a number has as an integer.
func digits(n json.Number) int {
	at := strings.IndexAny(string(n), "eE")
	if at < 0 {
		return len(n)
	}
	exponent, err := strconv.Atoi(string(n[at+1:]))
	if err != nil {
		exponent = 1 << 30
	}
	return at + max(exponent, -exponent)
}

// pattern is a regular expression with the size of its program.
type pattern struct {
	*regexp.Regexp
	size int
}

func newPattern(expr string, left *int) (*pattern, error) {
	parsed, err := syntax.Parse(expr, syntax.Perl)
	if err != nil {
		return nil, err
	}
	prog, err := syntax.Compile(parsed.Simplify())
	if err != nil {
		return nil, err
	}
	if *left -= len(prog.Inst); *left < 0 {
		return nil, errors.New("the patterns are too large")
	}
	re, err := regexp.Compile(expr)
	return &pattern{re, len(prog.Inst)}, err
}

// maxWork limits the work of one validation. A unit is about 100 ns.
const maxWork = 2 << 20

// affordable reports whether the validation of a value takes an acceptable amount of work. The
// number of evaluations can grow exponentially, with the references of a schema and with the depth
// of the value. They are counted as if each of them succeeded.
func affordable(s *jsonschema.Schema, v any) bool {
	m := meter{left: maxWork}
	m.evaluate(s, v, 0)
	return m.left >= 0
}

// meter counts the work of a validation.
type meter struct{ left int }

// maxEvaluations limits evaluations inside each other.
const maxEvaluations = 5000

func (m *meter) evaluate(s *jsonschema.Schema, v any, depth int) {
	if s == nil || m.left < 0 {
		return
	}
	if m.left--; depth > maxEvaluations {
		m.left = -1
	}
	m.left -= len(s.Required)
	if s.Enum != nil {
		m.left -= len(s.Enum.Values) * (1 + size(v))
	}
	if s.Const != nil {
		m.left -= size(v)
	}
	switch v := v.(type) {
	case json.Number:
		m.left -= digits(v) / 4
	case string:
		m.left -= len(v) / 500 // it is copied
		if s.Format != nil && s.Format.Name == "regex" {
			m.left -= 600 * len(v)
		} else if s.Format != nil {
			m.left -= len(v) / 10
		}
		m.match(s.Pattern, v)
	case map[string]any:
		m.object(s, v, depth+1)
	case []any:
		m.array(s, v, depth+1)
	}
	for _, in := range inPlace(s) {
		m.evaluate(in, v, depth+1)
	}
}

// inPlace returns the schemas that are evaluated for the same value.
func inPlace(s *jsonschema.Schema) []*jsonschema.Schema {
	all := []*jsonschema.Schema{s.Ref, s.RecursiveRef, s.Not, s.If, s.Then, s.Else}
	if s.DynamicRef != nil {
		all = append(all, s.DynamicRef.Ref)
	}
	all = append(append(append(all, s.AllOf...), s.AnyOf...), s.OneOf...)
	for _, in := range s.DependentSchemas {
		all = append(all, in)
	}
	for _, in := range s.Dependencies {
		if in, ok := in.(*jsonschema.Schema); ok {
			all = append(all, in)
		}
	}
	return all
}

func (m *meter) match(re jsonschema.Regexp, text string) {
	if p, ok := re.(*pattern); ok && p != nil {
		m.left -= 1 + p.size*len(text)/30
	}
}

func (m *meter) object(s *jsonschema.Schema, v map[string]any, depth int) {
	m.left -= len(v) + len(s.DependentRequired) + len(s.Dependencies)
	for name, names := range s.DependentRequired {
		if _, ok := v[name]; ok {
			m.left -= len(names)
		}
	}
	for name, of := range s.Dependencies {
		if _, ok := v[name]; ok {
			names, _ := of.([]string)
			m.left -= len(names)
		}
	}
	additional, _ := s.AdditionalProperties.(*jsonschema.Schema)
	for name, value := range v {
		if m.left < 0 {
			return
		}
		m.evaluate(s.PropertyNames, name, depth)
		m.evaluate(s.UnevaluatedProperties, value, depth)
		for re, of := range s.PatternProperties {
			m.match(re, name)
			m.evaluate(of, value, depth)
		}
		if of, ok := s.Properties[name]; ok {
			m.evaluate(of, value, depth)
		} else {
			m.evaluate(additional, value, depth)
		}
	}
}

func (m *meter) array(s *jsonschema.Schema, v []any, depth int) {
	m.left -= len(v)
	if s.UniqueItems {
		m.left -= size(v)
	}
	first, _ := s.Items.([]*jsonschema.Schema)
	first = append(first, s.PrefixItems...)
	rest, _ := s.Items.(*jsonschema.Schema)
	additional, _ := s.AdditionalItems.(*jsonschema.Schema)
	for i, value := range v {
		if m.left < 0 {
			return
		}
		m.evaluate(s.Contains, value, depth)
		m.evaluate(s.UnevaluatedItems, value, depth)
		if i < len(first) {
			m.evaluate(first[i], value, depth)
			continue
		}
		for _, of := range []*jsonschema.Schema{rest, additional, s.Items2020} {
			m.evaluate(of, value, depth)
		}
	}
}

// size returns the number of values in v.
func size(v any) int {
	n := 1
	switch v := v.(type) {
	case map[string]any:
		for _, inner := range v {
			n += size(inner)
		}
	case []any:
		for _, inner := range v {
			n += size(inner)
		}
	case json.Number:
		n += digits(v) / 4
	}
	return n
}
