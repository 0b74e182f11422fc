package config

import (
	"maps"
	"slices"
	"strings"

	"github.com/goccy/go-yaml/ast"

	"github.com/sandpiper-mcp/sandpiper/internal/config/section"
)

// Setting is a key that a source sets, for display.
type Setting struct {
	Key   string `json:"key"`
	Value string `json:"value"` // without secrets; of a mapping or list, what it contains
	From  string `json:"from"`  // "sandpiper.yaml line 3", "SANDPIPER_PROFILE", "--profile"
}

// secretParts are parts of the names of keys whose value is a secret, unless it is a reference.
var secretParts = []string{"token", "api_key", "secret", "password", "headers"}

// shown returns the effective settings, sorted by key.
func shown(given map[string]setting) []Setting {
	var all []Setting
	for _, key := range slices.Sorted(maps.Keys(given)) {
		s := given[key]
		all = append(all, Setting{Key: key, Value: s.shown(), From: s.from})
	}
	return all
}

func (s setting) shown() string {
	if s.node == nil {
		isSecret := slices.ContainsFunc(secretParts, func(part string) bool { return strings.Contains(s.key, part) })
		if isSecret && !strings.HasPrefix(s.text, "${") && !isCount(s.text) {
			return "(hidden)"
		}
		return s.text
	}
	var names []string
	for _, m := range section.Members(s.node) {
		names = append(names, m.Key.GetToken().Value)
	}
	if seq, ok := s.node.(*ast.SequenceNode); ok {
		for _, v := range seq.Values {
			if len(section.Members(v)) > 0 {
				names = append(names, "…") // an entry without a name
			} else {
				names = append(names, v.GetToken().Value)
			}
		}
	}
	return strings.Join(names, ", ")
}

// isCount reports whether text is a number, true or false, which is no secret.
func isCount(text string) bool {
	return text == "true" || text == "false" || strings.Trim(text, "0123456789") == "" && len(text) < 9
}
