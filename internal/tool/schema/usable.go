package schema

import (
	"encoding/json"
	"errors"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/santhosh-tekuri/jsonschema/v6"
)

// maxDropped limits the rounds in which invalid parts of a schema are dropped: each costs a compilation.
const maxDropped = 20

// compileUsable is compile without the parts that are not usable: references to nothing or to other
// documents, keywords with invalid values, and patterns that Go does not have. What is left allows
// everything that the whole schema allows.
func compileUsable(raw json.RawMessage) (*jsonschema.Schema, error) {
	doc, err := parse(raw)
	if err != nil {
		return nil, err
	}
	s, err := compileDoc(doc)
	if err == nil {
		return s, nil
	}
	for _, path := range unusable(doc) {
		drop(doc, path)
	}
	for range maxDropped {
		if s, err = compileDoc(doc); err == nil {
			return s, nil
		}
		invalid := invalidParts(err)
		if len(invalid) == 0 {
			return nil, err
		}
		for _, path := range invalid {
			drop(doc, path)
		}
	}
	return nil, err
}

// Keywords whose value is an object of schemas, and those whose value is data.
var (
	holdSchemas = []string{"properties", "patternProperties", "$defs", "definitions", "dependentSchemas", "dependencies"}
	holdData    = []string{"const", "enum", "default", "examples", "example"}
)

// visit calls do with each schema in v, and its path. isSchema reports whether v itself is one.
func visit(v any, path []string, isSchema bool, do func(s map[string]any, path []string)) {
	switch v := v.(type) {
	case map[string]any:
		if isSchema {
			do(v, path)
		}
		for key, inner := range v {
			if !isSchema || !slices.Contains(holdData, key) {
				visit(inner, append(slices.Clip(path), key), !isSchema || !slices.Contains(holdSchemas, key), do)
			}
		}
	case []any:
		for i, inner := range v {
			visit(inner, append(slices.Clip(path), strconv.Itoa(i)), isSchema, do)
		}
	}
}

// unusable returns the paths of references to nothing and of patterns that Go does not have.
func unusable(doc any) (paths [][]string) {
	known := map[string]bool{}
	visit(doc, nil, true, func(s map[string]any, _ []string) {
		for key, prefix := range map[string]string{"$id": "", "id": "", "$anchor": "#", "$dynamicAnchor": "#"} {
			if name, ok := s[key].(string); ok {
				known[prefix+name] = true
			}
		}
	})
	visit(doc, nil, true, func(s map[string]any, path []string) {
		add := func(key string) { paths = append(paths, append(slices.Clip(path), key)) }
		for _, key := range []string{"$ref", "$dynamicRef", "$recursiveRef"} {
			if ref, ok := s[key].(string); ok && !known[ref] && find(doc, ref) == nil {
				add(key)
			}
		}
		if dialect, ok := s["$schema"].(string); ok && !strings.Contains(dialect, "://json-schema.org/") {
			add("$schema")
		}
		if expr, ok := s["pattern"].(string); ok && !understood(expr) {
			add("pattern")
		}
		all, _ := s["patternProperties"].(map[string]any)
		for expr := range all {
			if !understood(expr) {
				add("patternProperties")
				add("additionalProperties") // concerns the others
				break
			}
		}
	})
	return paths
}

func understood(expr string) bool {
	left := maxInstructions
	_, err := newPattern(expr, &left)
	return err == nil
}

// find returns the part of a schema to which a reference points, nil if there is none.
func find(doc any, ref string) any {
	path, ok := strings.CutPrefix(ref, "#")
	if !ok || path != "" && path[0] != '/' {
		return nil
	}
	if path == "" {
		return doc
	}
	var steps []string
	for step := range strings.SplitSeq(path[1:], "/") {
		if plain, err := url.PathUnescape(step); err == nil {
			step = plain
		}
		steps = append(steps, strings.NewReplacer("~1", "/", "~0", "~").Replace(step))
	}
	return walk(doc, steps)
}

func walk(at any, steps []string) any {
	for _, step := range steps {
		switch v := at.(type) {
		case map[string]any:
			at = v[step]
		case []any:
			i, err := strconv.Atoi(step)
			if err != nil || i < 0 || i >= len(v) {
				return nil
			}
			at = v[i]
		default:
			return nil
		}
	}
	return at
}

// invalidParts returns the paths of the values about which the error of a compilation complains.
func invalidParts(err error) (paths [][]string) {
	e, _ := errors.AsType[*jsonschema.SchemaValidationError](err)
	if e == nil {
		return nil
	}
	v, _ := errors.AsType[*jsonschema.ValidationError](e.Err)
	if v == nil {
		return nil
	}
	for _, leaf := range leaves(v) {
		if len(leaf.InstanceLocation) > 0 {
			paths = append(paths, leaf.InstanceLocation)
		}
	}
	return paths
}

// drop removes the value at a path: a keyword, or an item of one with all others. The schema of a
// property becomes true. A schema around it that could refuse more without it is dropped too.
func drop(doc any, path []string) {
	last := len(path) - 1
	holder, isObject := walk(doc, path[:last]).(map[string]any)
	for !isObject && last > 0 {
		last--
		holder, isObject = walk(doc, path[:last]).(map[string]any)
	}
	if !isObject {
		return
	}
	if last > 0 && slices.Contains(holdSchemas, path[last-1]) {
		holder[path[last]] = true
	} else {
		delete(holder, path[last])
	}
	weaken(doc, path[:last])
}

// weaken removes the keywords on a path that refuse more when a schema below them refuses less.
func weaken(doc any, path []string) {
	at, isSchema := doc, true
	for i, key := range path {
		s, ok := at.(map[string]any)
		if ok && isSchema {
			delete(s, "unevaluatedProperties")
			delete(s, "unevaluatedItems")
			switch key {
			case "not", "contains":
				delete(s, key)
				return
			case "if":
				delete(s, "then")
				delete(s, "else")
			case "oneOf":
				alternatives := s[key]
				delete(s, key)
				if s["anyOf"] != nil {
					return
				}
				s["anyOf"] = alternatives
				path = slices.Clone(path)
				path[i], key = "anyOf", "anyOf"
			}
		}
		at = walk(at, []string{key})
		isSchema = !ok || !isSchema || !slices.Contains(holdSchemas, key)
	}
	if s, ok := at.(map[string]any); ok {
		delete(s, "unevaluatedProperties")
		delete(s, "unevaluatedItems")
	}
}
