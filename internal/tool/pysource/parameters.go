package pysource

import (
	"encoding/json"
	"maps"
	"regexp"
	"slices"
	"strings"
)

// jsonTypes are the JSON types of annotations.
var jsonTypes = map[string]string{
	"int": "integer", "float": "number", "str": "string", "bool": "boolean", "list": "array", "dict": "object",
}

// Input returns the JSON schema of the arguments that a caller can pass by name.
func (f Function) Input() json.RawMessage {
	properties, required := map[string]map[string]string{}, []string{}
	for _, p := range split(f.Params, ',') {
		p = strings.TrimSpace(p)
		if p == "/" { // what is before it has no name for callers
			clear(properties)
			required = required[:0]
			continue
		}
		if p == "" || strings.HasPrefix(p, "*") {
			continue
		}
		parts := split(p, '=')
		name, annotation, _ := strings.Cut(parts[0], ":")
		name = strings.TrimSpace(name)
		properties[name] = schemaOf(annotation)
		if len(parts) == 1 {
			required = append(required, name)
		}
	}
	b, err := json.Marshal(map[string]any{"type": "object", "properties": properties, "required": required})
	if err != nil { // not possible for texts
		return json.RawMessage("true")
	}
	return b
}

// schemaOf returns the schema of an annotation; it allows everything if the type is not known.
func schemaOf(annotation string) map[string]string {
	text := strings.ReplaceAll(annotation, " ", "")
	text = strings.TrimSuffix(strings.TrimPrefix(strings.TrimSuffix(text, "|None"), "None|"), "|None")
	if inner, ok := strings.CutPrefix(text, "Optional["); ok {
		text = strings.TrimSuffix(inner, "]")
	}
	outer, _, _ := strings.Cut(text, "[")
	if t, ok := jsonTypes[strings.ToLower(outer)]; ok {
		return map[string]string{"type": t}
	}
	return map[string]string{}
}

// split splits text at a separator outside of brackets and strings.
func split(text string, at byte) (parts []string) {
	start := 0
	for i := 0; i < len(text); {
		switch c := text[i]; {
		case c == at:
			parts = append(parts, text[start:i])
			start = i + 1
			i++
		case isQuote(c):
			i = stringEnd(text, i)
		case isOpening(c):
			i += Closing(text[i:])
		default:
			i++
		}
	}
	return append(parts, text[start:])
}

var calls = regexp.MustCompile(`\bcall(?:_mcp)?_tool\(\s*["']([^"'\\\n]+)["']\s*,\s*["']([^"'\\\n]+)["']`)

// Calls returns the tools that a module calls by constant names, call_tool("SERVER", "TOOL") or
// call_mcp_tool, as SERVER.TOOL, sorted.
func Calls(source []byte) []string {
	found := map[string]bool{}
	for _, m := range calls.FindAllSubmatch(source, -1) {
		found[string(m[1])+"."+string(m[2])] = true
	}
	return slices.Sorted(maps.Keys(found))
}
