package openapi

import (
	"context"
	"encoding/json"
	"maps"
	"regexp"
	"slices"
	"strings"

	"github.com/sandpiper-mcp/sandpiper/internal/upstream/sanitize"
)

// object is a JSON schema, or a part of one.
type object = map[string]any

// converter converts a schema of a document to a self-contained JSON schema (2020-12).
// References are inlined up to maxDepth; below that, and where a schema contains itself,
// only the type and description are kept. The result may accept more than the original,
// never less: the API rejects whatever it rejects.
type converter struct {
	ctx          context.Context // of this one conversion; the recursion only passes it on to follow references
	doc          *document
	omit         string // omit properties with this keyword: readOnly or writeOnly
	descriptions bool   // keep descriptions
	files        bool   // binary strings are files, as in a form

	maxDepth  int // of nested schemas
	remaining int // number of schemas
	bytes     int // of enums, constants, defaults and required names
	truncated bool
	active    map[string]bool // references being inlined
}

// types are the type names of JSON schema.
var types = []string{"null", "boolean", "object", "array", "number", "integer", "string"}

// keywords contains the copied keywords and their checks. Invalid values are omitted.
var keywords = map[string]func(any) (any, bool){
	"type":             typeNames,
	"format":           stringValue,
	"contentEncoding":  stringValue,
	"contentMediaType": stringValue,
	"pattern":          pattern,
	"const":            func(v any) (any, bool) { return v, true },
	"default":          func(v any) (any, bool) { return v, true },
	"enum":             uniqueValues,
	"minimum":          number,
	"maximum":          number,
	"exclusiveMinimum": number,
	"exclusiveMaximum": number,
	"multipleOf":       positiveNumber,
	"minLength":        nonNegativeInt,
	"maxLength":        nonNegativeInt,
	"minItems":         nonNegativeInt,
	"maxItems":         nonNegativeInt,
	"minProperties":    nonNegativeInt,
	"maxProperties":    nonNegativeInt,
	"uniqueItems":      func(v any) (any, bool) { yes, ok := v.(bool); return yes, ok },
	"required":         uniqueStrings,
}

// convertKeyword converts a keyword of a schema, if it is known and valid.
func (c *converter) convertKeyword(word string, of node, depth int) (any, bool) {
	switch word {
	case "description":
		return c.description(of)
	case "properties":
		return c.properties(of.get(word), depth)
	case "items", "additionalProperties":
		return c.convert(of.get(word), depth+1), true
	case "allOf":
		return c.convertAllOf(of.get(word), depth)
	case "anyOf", "oneOf", "prefixItems":
		return c.convertEach(of.get(word), depth)
	}
	if take, known := keywords[word]; known && c.affords(of.v.(object)[word]) {
		return take(of.v.(object)[word])
	}
	return nil, false
}

// words are all keywords that are converted, in order.
var words = slices.Sorted(slices.Values(slices.Concat(slices.Collect(maps.Keys(keywords)),
	[]string{"description", "properties", "items", "additionalProperties", "allOf", "anyOf", "oneOf", "prefixItems"})))

// affords reports whether a value is small enough to be copied.
func (c *converter) affords(v any) bool {
	if c.bytes = left(v, c.bytes); c.bytes < 0 {
		c.truncated = true
	}
	return !c.truncated
}

// left returns what remains of n bytes without those of a value; it stops below 0.
func left(v any, n int) int {
	switch v := v.(type) {
	case string:
		n -= len(v)
	case []any:
		for _, item := range v {
			if n = left(item, n-1); n < 0 {
				break
			}
		}
	case object:
		for name, item := range v {
			if n = left(item, n-len(name)-1); n < 0 {
				break
			}
		}
	}
	return n - 1
}

func stringValue(v any) (any, bool) { s, ok := v.(string); return s, ok }

// pattern keeps patterns that RE2 supports; JavaScript's are a superset.
func pattern(v any) (any, bool) {
	s, _ := v.(string)
	_, err := regexp.Compile(s)
	return s, s != "" && len(s) < 1000 && err == nil
}

func number(v any) (any, bool) { n, ok := v.(json.Number); return n, ok }

// positiveNumber accepts numbers above zero.
func positiveNumber(v any) (any, bool) {
	n, ok := v.(json.Number)
	x, err := n.Float64()
	return n, ok && err == nil && x > 0
}

func nonNegativeInt(v any) (any, bool) {
	n, ok := v.(json.Number)
	i, err := n.Int64()
	return i, ok && err == nil && i >= 0
}

// uniqueValues returns the values of an enum without duplicates, as JSON schema
// requires.
func uniqueValues(v any) (any, bool) {
	list, _ := v.([]any)
	seen := map[string]bool{}
	list = slices.DeleteFunc(slices.Clone(list), func(v any) bool {
		b := string(encodeJSON(v))
		twice := seen[b]
		seen[b] = true
		return twice
	})
	return list, len(list) > 0
}

// uniqueStrings returns the strings of a list without duplicates.
func uniqueStrings(v any) (any, bool) {
	list, _ := v.([]any)
	var all []string
	seen := map[string]bool{}
	for _, item := range list {
		if name, ok := item.(string); ok && !seen[name] {
			seen[name] = true
			all = append(all, name)
		}
	}
	return all, len(all) > 0
}

func typeNames(v any) (any, bool) {
	if one, ok := v.(string); ok {
		return one, slices.Contains(types, one)
	}
	all, _ := uniqueStrings(v)
	known := slices.DeleteFunc(all.([]string), func(one string) bool { return !slices.Contains(types, one) })
	return known, len(known) > 0
}

const maxSchemaText = 600 // bytes of a description in a schema

func (c *converter) description(of node) (any, bool) {
	s, ok := of.value("description").(string)
	return sanitize.Text(strings.TrimSpace(s), maxSchemaText), ok && c.descriptions && s != ""
}

func (c *converter) properties(n node, depth int) (any, bool) {
	props := object{}
	if m, _ := n.v.(object); c.tooMany(len(m)) {
		return nil, false
	}
	for _, name := range n.names() {
		if p := n.get(name); !c.isOmitted(p) {
			props[name] = c.convert(p, depth+1)
		}
	}
	return props, kindOf(n.v) == "an object"
}

// tooMany reports whether there are too many schemas to convert them.
func (c *converter) tooMany(n int) bool {
	c.truncated = c.truncated || n > c.remaining
	return c.truncated
}

// isOmitted reports whether a property does not exist in this direction.
func (c *converter) isOmitted(p node) bool {
	return p.isTrue(c.omit) || c.doc.followOrEmpty(c.ctx, p).isTrue(c.omit)
}

func (c *converter) convertEach(n node, depth int) (any, bool) {
	var all []any
	if list, _ := n.v.([]any); c.tooMany(len(list)) {
		return nil, false
	}
	for _, item := range n.items() {
		all = append(all, c.convert(item, depth))
	}
	return all, len(all) > 0
}

// convertAllOf converts the parts and removes additionalProperties: false, which would
// apply to one part only.
func (c *converter) convertAllOf(n node, depth int) (any, bool) {
	list, ok := c.convertEach(n, depth)
	all, _ := list.([]any)
	for _, part := range all {
		if o, is := part.(object); is && o["additionalProperties"] == false {
			delete(o, "additionalProperties")
		}
	}
	return list, ok
}

// convert returns an object, or a bool for a schema that accepts everything or nothing.
func (c *converter) convert(n node, depth int) any {
	if c.remaining--; c.remaining < 0 || c.truncated {
		c.truncated = true
		return true
	}
	if yes, ok := n.v.(bool); ok {
		return yes
	}
	target := c.doc.followOrEmpty(c.ctx, n)
	if kindOf(target.v) != "an object" {
		return true
	}
	if target.key() == n.key() {
		return c.convertObject(n, depth)
	}
	if key := target.key(); !c.active[key] {
		c.active[key] = true
		defer delete(c.active, key)
	} else {
		depth = c.maxDepth + 1 // recursive
	}
	o := c.convertObject(target, depth)
	if description, ok := c.description(n); ok {
		o["description"] = description
	}
	return o
}

// convertObject converts the keywords of a schema.
func (c *converter) convertObject(n node, depth int) object {
	o := object{}
	if c.files && isFile(n) {
		return c.fileSchema(n)
	}
	for _, word := range words {
		if !n.has(word) || depth > c.maxDepth && word != "type" && word != "description" {
			continue
		}
		if v, ok := c.convertKeyword(word, n, depth); ok {
			o[word] = v
		}
	}
	c.relax(o)
	if c.doc.v30 {
		c.upgrade30(o, n)
	}
	return o
}

// relax removes keywords that are no longer correct after others were omitted.
func (c *converter) relax(o object) {
	if one, ok := o["oneOf"]; ok { // several relaxed alternatives may match
		delete(o, "oneOf")
		if _, both := o["anyOf"]; !both {
			o["anyOf"] = one
		}
	}
	props, _ := o["properties"].(object)
	if required, ok := o["required"].([]string); ok && c.omit == "readOnly" {
		// A required property without a schema may be an omitted one.
		required = slices.DeleteFunc(required, func(name string) bool { return props[name] == nil })
		if o["required"] = required; len(required) == 0 {
			delete(o, "required")
		}
	}
	if o["additionalProperties"] == false && (o["allOf"] != nil || o["anyOf"] != nil) {
		delete(o, "additionalProperties")
	}
}

// upgrade30 converts keywords of OpenAPI 3.0 to JSON schema 2020-12.
func (c *converter) upgrade30(o object, n node) {
	for bound, limit := range map[string]string{"exclusiveMinimum": "minimum", "exclusiveMaximum": "maximum"} {
		if v, ok := o[limit]; ok && n.isTrue(bound) {
			delete(o, limit)
			o[bound] = v
		}
	}
	if !n.isTrue("nullable") {
		return
	}
	if list, ok := o["enum"].([]any); ok && !slices.Contains(list, nil) {
		o["enum"] = append(list, nil)
	}
	switch t := o["type"].(type) {
	case string:
		if t != "null" {
			o["type"] = []string{t, "null"}
		}
	case nil:
		for _, word := range []string{"allOf", "anyOf"} {
			if list, ok := o[word]; ok {
				delete(o, word)
				o["anyOf"] = []any{object{word: list}, object{"type": "null"}}
				return
			}
		}
	}
}

// isFile reports whether a schema describes binary data.
func isFile(n node) bool {
	return n.value("format") == "binary" || n.has("contentMediaType") && !n.has("contentEncoding")
}

const base64Description = "the bytes, as base64 text"

// fileSchema returns the schema of a file argument.
func (c *converter) fileSchema(n node) object {
	content := object{"type": "string", "contentEncoding": "base64", "description": base64Description}
	o := object{"anyOf": []any{content, object{
		"type": "object", "required": []string{"content"}, "additionalProperties": false,
		"properties": object{"content": content, "filename": object{"type": "string"}, "content_type": object{"type": "string"}},
	}}}
	description, _ := c.description(n)
	text, _ := description.(string)
	o["description"] = strings.TrimSpace(text + " (a file: base64 text, or {content, filename, content_type})")
	return o
}
