package clientconfig

import (
	"fmt"
	"maps"
	"slices"
	"strconv"

	"github.com/sandpiper-mcp/sandpiper/internal/config/literal"
)

// texts returns the scalars of a list as strings.
func texts(v any) (list []string) {
	all, _ := v.([]any)
	for _, element := range all {
		if s, ok := textOf(element); ok {
			list = append(list, s)
		}
	}
	return list
}

// namesOf returns the identifiers in a list of strings or of tables with a name.
func namesOf(v any) (list []string) {
	all, _ := v.([]any)
	for _, element := range all {
		if t, ok := element.(map[string]any); ok {
			element = t["name"]
		}
		if s, ok := element.(string); ok && literal.IsIdentifier(s) {
			list = append(list, s)
		}
	}
	return list
}

// stringsOf returns the scalars of a table as strings.
func stringsOf(v any) map[string]string {
	fields, _ := v.(map[string]any)
	out := map[string]string{}
	for _, name := range slices.Sorted(maps.Keys(fields)) {
		if s, ok := textOf(fields[name]); ok {
			out[name] = s
		}
	}
	return out
}

// textOf returns a scalar as a string; null is not a scalar.
func textOf(v any) (string, bool) {
	switch v := v.(type) {
	case string:
		return v, true
	case nil, map[string]any, []any:
		return "", false
	default:
		return fmt.Sprint(v), true
	}
}

// number returns a number, which may be written as a string.
func number(v any) (float64, bool) {
	text, _ := textOf(v)
	f, err := strconv.ParseFloat(text, 64)
	return f, err == nil
}
