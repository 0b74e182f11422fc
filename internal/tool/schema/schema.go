// Package schema validates the arguments of a tool against its JSON schema and
// describes errors in the terms of Python.
//
// Schemas come from servers. The parts of a schema that are invalid or have references to
// elsewhere are dropped; one that is too large accepts everything and leaves validation to the
// server. A Schema is safe for concurrent use.
package schema

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/sandpiper-mcp/sandpiper/internal/fault"
	"github.com/santhosh-tekuri/jsonschema/v6"
	"github.com/santhosh-tekuri/jsonschema/v6/kind"
)

// Schema validates arguments. The zero value accepts everything.
type Schema struct {
	s     *jsonschema.Schema
	names []string // top-level properties, for suggestions
	fills bool     // it has defaults
	// conditional is the result of Conditional.
	conditional bool
}

// Problem is one validation error.
type Problem struct {
	Argument string // "labels", "filter.since", "ids[2]"; "" for the arguments as a whole
	Message  string // "expected an integer, got a string"
}

func (p Problem) String() string {
	if p.Argument == "" {
		return p.Message
	}
	return "argument " + p.Argument + ": " + p.Message
}

// maxBytes is the largest schema that is compiled.
const maxBytes = 1 << 20

// Compile compiles a schema without the parts that are not usable.
func Compile(raw json.RawMessage) *Schema {
	s, err := compileUsable(raw)
	if err != nil {
		return &Schema{}
	}
	x := &Schema{s: s, fills: bytes.Contains(raw, []byte(`"default"`))}
	known := map[string]bool{}
	eachPart(s, map[*jsonschema.Schema]bool{}, func(part *jsonschema.Schema) {
		for name := range part.Properties {
			known[name] = true
		}
		x.conditional = x.conditional || part.If != nil || part.UnevaluatedProperties != nil
	})
	x.names = slices.Sorted(maps.Keys(known))
	return x
}

// Conditional reports whether an omitted argument can make others wrong, so that arguments cannot be
// checked while some are not known.
func (x *Schema) Conditional() bool { return x.conditional }

// eachPart calls do with s and all schemas that are evaluated for the same value.
func eachPart(s *jsonschema.Schema, seen map[*jsonschema.Schema]bool, do func(*jsonschema.Schema)) {
	if s == nil || seen[s] {
		return
	}
	seen[s] = true
	do(s)
	for _, part := range inPlace(s) {
		eachPart(part, seen, do)
	}
}

// Limits of the problems of one check. The names that a hint suggests are compared with all others.
const (
	maxProblems = 100
	maxHints    = 20
)

// Check returns the problems of decoded arguments, sorted by argument. Messages contain
// types, never values of the arguments. Problems at the open paths, whose values are not
// known yet, and those that such a value may cause, are omitted. There are at most some hundred; if the
// check takes too much work, that is the only one.
func (x *Schema) Check(args map[string]any, open ...[]string) []Problem {
	if x.s == nil {
		return nil
	}
	if !affordable(x.s, args) {
		return []Problem{{Message: "it takes too much work to check the arguments against the schema; pass smaller ones"}}
	}
	err := x.s.Validate(args)
	var wrong *jsonschema.ValidationError
	if !errors.As(err, &wrong) {
		return nil
	}
	var all []Problem
	for _, leaf := range leaves(wrong) {
		if len(all) >= maxProblems {
			break
		}
		if !affects(leaf, open) {
			all = append(all, x.problems(leaf)...)
		}
	}
	all = append(all, x.misspelled(args, all)...)
	slices.SortFunc(all, func(a, b Problem) int {
		return strings.Compare(a.Argument+"\x00"+a.Message, b.Argument+"\x00"+b.Message)
	})
	return slices.Compact(all)
}

// misspelled returns the arguments that the schema allows and does not name, with a name like that of
// a missing one.
func (x *Schema) misspelled(args map[string]any, wrong []Problem) (all []Problem) {
	var missing []string
	known := map[string]bool{}
	for _, name := range x.names {
		known[name] = true
	}
	for _, p := range wrong {
		if known[p.Argument] = true; p.Message == isMissing {
			missing = append(missing, p.Argument)
		}
	}
	hints := 0
	for name := range args {
		if known[name] || len(missing) == 0 || hints == maxHints {
			continue
		}
		hints++
		if near := fault.Nearest(name, missing, 1); near != nil {
			all = append(all, Problem{name, fmt.Sprintf("there is no such argument; did you mean %s?", near[0])})
		}
	}
	return all
}

// affects reports whether an error is at or below an open path or, for alternatives,
// above one.
func affects(e *jsonschema.ValidationError, open [][]string) bool {
	at := e.InstanceLocation
	return slices.ContainsFunc(open, func(o []string) bool {
		if n := len(o); n <= len(at) {
			return slices.Equal(at[:n], o)
		}
		switch e.ErrorKind.(type) {
		case *kind.AnyOf, *kind.OneOf, *kind.UniqueItems:
			return slices.Equal(o[:len(at)], at)
		}
		return false
	})
}

// leaves returns the errors without causes. Failed alternatives count as one error.
// They are in the order of their locations: the validator visits the members of an object in any order.
func leaves(e *jsonschema.ValidationError) (all []*jsonschema.ValidationError) {
	var add func(*jsonschema.ValidationError)
	add = func(e *jsonschema.ValidationError) {
		switch e.ErrorKind.(type) {
		case *kind.AnyOf, *kind.OneOf:
			all = append(all, e)
			return
		}
		if len(e.Causes) == 0 {
			all = append(all, e)
		}
		for _, c := range e.Causes {
			add(c)
		}
	}
	add(e)
	slices.SortStableFunc(all, func(a, b *jsonschema.ValidationError) int {
		return slices.CompareFunc(a.InstanceLocation, b.InstanceLocation, compareSteps)
	})
	return all
}

// compareSteps compares two keys, or two positions in a list.
func compareSteps(a, b string) int {
	i, aErr := strconv.Atoi(a)
	j, bErr := strconv.Atoi(b)
	switch {
	case aErr == nil && bErr == nil:
		return cmp.Compare(i, j)
	case aErr == nil:
		return -1
	case bErr == nil:
		return 1
	}
	return strings.Compare(a, b)
}

// isMissing is the message about a missing argument.
const isMissing = "is missing"

func (x *Schema) problems(e *jsonschema.ValidationError) []Problem {
	at := formatPath(e.InstanceLocation)
	switch k := e.ErrorKind.(type) {
	case *kind.Required:
		var all []Problem
		for _, name := range k.Missing[:min(len(k.Missing), maxProblems)] {
			all = append(all, Problem{join(at, name), isMissing})
		}
		return all
	case *kind.AdditionalProperties:
		var all []Problem
		for i, name := range k.Properties[:min(len(k.Properties), maxProblems)] {
			all = append(all, x.unknown(at, name, i < maxHints))
		}
		return all
	}
	return []Problem{{at, describe(e)}}
}

func (x *Schema) unknown(at, name string, hint bool) Problem {
	text := "there is no such argument"
	if at == "" && hint {
		if near := fault.Nearest(name, x.names, 1); near != nil {
			text += fmt.Sprintf("; did you mean %s?", near[0])
		} else if len(x.names) > 0 && len(x.names) <= 20 {
			text += "; there are " + strings.Join(x.names, ", ")
		}
	}
	return Problem{join(at, name), text}
}

// describe returns a message for one error.
func describe(e *jsonschema.ValidationError) string {
	switch k := e.ErrorKind.(type) {
	case *kind.Type:
		return "expected " + anyOf(k.Want) + ", got " + withArticle(k.Got)
	case *kind.Enum:
		return "expected one of " + values(k.Want)
	case *kind.Const:
		return "expected " + value(k.Want)
	case *kind.AnyOf, *kind.OneOf:
		return alternatives(e)
	case *kind.MinLength:
		return fmt.Sprintf("expected at least %d characters, got %d", k.Want, k.Got)
	case *kind.MaxLength:
		return fmt.Sprintf("expected at most %d characters, got %d", k.Want, k.Got)
	case *kind.MinItems:
		return fmt.Sprintf("expected at least %d items, got %d", k.Want, k.Got)
	case *kind.MaxItems:
		return fmt.Sprintf("expected at most %d items, got %d", k.Want, k.Got)
	case *kind.Minimum:
		return "expected at least " + k.Want.RatString()
	case *kind.Maximum:
		return "expected at most " + k.Want.RatString()
	case *kind.ExclusiveMinimum:
		return "expected more than " + k.Want.RatString()
	case *kind.ExclusiveMaximum:
		return "expected less than " + k.Want.RatString()
	case *kind.MultipleOf:
		return "expected a multiple of " + k.Want.RatString()
	case *kind.Pattern:
		return fmt.Sprintf("expected text that matches %.200q", k.Want)
	case *kind.Format:
		return "expected text of the format " + k.Want
	case *kind.UniqueItems:
		return fmt.Sprintf("items %d and %d are the same", k.Duplicates[0], k.Duplicates[1])
	case *kind.FalseSchema:
		return "is not allowed"
	}
	path := e.ErrorKind.KeywordPath()
	if len(path) == 0 {
		return "does not fit the schema"
	}
	return "does not fit the schema's " + strings.Join(path, "/")
}

func typeOf(v any) string {
	switch v.(type) {
	case nil:
		return "null"
	case bool:
		return "boolean"
	case json.Number:
		return "number"
	case string:
		return "string"
	case []any:
		return "array"
	}
	return "object"
}

// withArticle returns a type with its article. It uses the Python name of the type.
func withArticle(t string) string {
	switch t {
	case "null":
		return "None"
	case "array":
		return "a list"
	case "object":
		return "a dict"
	case "integer":
		return "an integer"
	}
	return "a " + t
}

func anyOf(types []string) string {
	var all []string
	for _, t := range types {
		all = append(all, withArticle(t))
	}
	return strings.Join(all, " or ")
}

func values(all []any) string {
	var texts []string
	for i, v := range all {
		if i == 20 {
			texts = append(texts, fmt.Sprintf("… (%d in all)", len(all)))
			break
		}
		texts = append(texts, value(v))
	}
	return strings.Join(texts, ", ")
}

func value(v any) string {
	b, err := json.Marshal(v)
	if err != nil {
		return "?"
	}
	return clip(string(b), 80)
}

func clip(s string, n int) string {
	if len(s) <= n {
		return s
	}
	return strings.ToValidUTF8(s[:n], "") + "…"
}

// formatPath formats a path as a Python expression.
func formatPath(path []string) string {
	at := ""
	for _, p := range path {
		at = join(at, p)
	}
	return clip(at, 200)
}

func join(at, name string) string {
	if _, err := strconv.Atoi(name); err == nil && at != "" {
		return at + "[" + name + "]"
	}
	if at == "" {
		return clip(name, 100)
	}
	return at + "." + clip(name, 100)
}

// Valid reports why raw is not a JSON schema.
func Valid(raw json.RawMessage) error {
	_, err := CompileStrict(raw)
	return err
}

// CompileStrict is Compile, but returns an error for a value that is not a schema.
func CompileStrict(raw json.RawMessage) (*Schema, error) {
	s, err := compile(raw)
	if e, ok := errors.AsType[*jsonschema.SchemaValidationError](err); ok {
		if v, ok := errors.AsType[*jsonschema.ValidationError](e.Err); ok {
			if all := leaves(v); len(all) > 0 {
				return nil, fmt.Errorf("%s: %s", formatPath(all[0].InstanceLocation), describe(all[0]))
			}
		}
	}
	return &Schema{s: s}, err
}

// CompileWhole is CompileStrict, and asserts formats, which otherwise only describe a value.
func CompileWhole(raw json.RawMessage) (*Schema, error) {
	s, err := compile(raw, (*jsonschema.Compiler).AssertFormat)
	return &Schema{s: s}, err
}

// Validate returns an error for a value that the schema does not allow, or that takes too much
// work to validate.
func (x *Schema) Validate(v any) error {
	if !affordable(x.s, v) {
		return errors.New("it takes too much work to validate the value against the schema")
	}
	return x.s.Validate(v)
}
