package clientconfig

import (
	"strings"

	"github.com/sandpiper-mcp/sandpiper/internal/lazyregexp"
)

var (
	// reference matches a reference in the syntax of sandpiper.yaml, to a variable, a file or a keyring.
	reference  = lazyregexp.New(`\$\{(?:[A-Za-z_][A-Za-z0-9_]*|(?:file|keyring):[^}]*)\}`)
	identifier = lazyregexp.New(`^[A-Za-z_][A-Za-z0-9_]*$`)
	bareName   = lazyregexp.New(`\$([A-Za-z_][A-Za-z0-9_]*)`) // $NAME, supported by Gemini CLI only
)

func isIdentifier(s string) bool { return identifier().MatchString(s) }

var (
	wordStart = lazyregexp.New(`([a-z0-9])([A-Z])`)
	noWord    = lazyregexp.New(`[^A-Za-z0-9]+`)
)

// envName converts a name to the name of an environment variable in capitals.
func envName(name string) string {
	name = noWord().ReplaceAllString(wordStart().ReplaceAllString(name, "${1}_${2}"), "_")
	name = strings.ToUpper(strings.Trim(name, "_"))
	if name == "" || name[0] <= '9' {
		return strings.TrimSuffix("MCP_"+name, "_")
	}
	return name
}

// expand replaces the references to variables that are set.
func (e Env) expand(value string) string {
	return reference().ReplaceAllStringFunc(value, func(ref string) string {
		if set, ok := e.Lookup(ref[2 : len(ref)-1]); ok {
			return set
		}
		return ref
	})
}
