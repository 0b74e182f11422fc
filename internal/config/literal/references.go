package literal

import (
	"strings"

	"github.com/sandpiper-mcp/sandpiper/internal/lazyregexp"
)

var (
	// reference matches a reference in the syntax of sandpiper.yaml, to a variable, a file or a keyring.
	reference  = lazyregexp.New(`\$\{(?:[A-Za-z_][A-Za-z0-9_]*|(?:file|keyring):[^}]*)\}`)
	identifier = lazyregexp.New(`^[A-Za-z_][A-Za-z0-9_]*$`)
)

// IsIdentifier reports whether s can be the name of a variable.
func IsIdentifier(s string) bool { return identifier().MatchString(s) }

var (
	wordStart = lazyregexp.New(`([a-z0-9])([A-Z])`)
	noWord    = lazyregexp.New(`[^A-Za-z0-9]+`)
)

// EnvName converts a name to the name of an environment variable in capitals.
func EnvName(name string) string {
	name = noWord().ReplaceAllString(wordStart().ReplaceAllString(name, "${1}_${2}"), "_")
	name = strings.ToUpper(strings.Trim(name, "_"))
	if name == "" || name[0] <= '9' {
		return strings.TrimSuffix("MCP_"+name, "_")
	}
	return name
}

// Expand replaces the references to variables that are set.
func Expand(value string, lookup func(string) (string, bool)) string {
	return reference().ReplaceAllStringFunc(value, func(ref string) string {
		if set, ok := lookup(ref[2 : len(ref)-1]); ok {
			return set
		}
		return ref
	})
}
