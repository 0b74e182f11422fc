package clientconfig

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
)

// texts are the strings, numbers and booleans of a list.
func texts(v any) (list []string) {
	all, _ := v.([]any)
	for _, one := range all {
		if s, ok := textOf(one); ok {
			list = append(list, s)
		}
	}
	return list
}

// namesOf are texts, or tables that have a name.
func namesOf(v any) (list []string) {
	all, _ := v.([]any)
	for _, one := range all {
		if t, ok := one.(map[string]any); ok {
			one = t["name"]
		}
		if s, ok := one.(string); ok && identifier(s) {
			list = append(list, s)
		}
	}
	return list
}

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

// textOf is a value as a program would get it; null is none.
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

func number(v any) (float64, bool) {
	switch v := v.(type) {
	case json.Number:
		f, err := v.Float64()
		return f, err == nil
	case int64:
		return float64(v), true
	case float64:
		return v, true
	case string:
		f, err := strconv.ParseFloat(v, 64)
		return f, err == nil
	}
	return 0, false
}
