package config

import (
	"regexp"

	"github.com/goccy/go-yaml/ast"

	"github.com/sandpiper-mcp/sandpiper/internal/fault"
)

// names reads a list of strings.
func names(to *[]string, s setting, what string) error {
	seq, ok := s.node.(*ast.SequenceNode)
	if !ok {
		return fault.New(fault.Invalid, "%s: %s must be a list, and each of its items %s", s.from, s.key, what)
	}
	*to = nil
	for _, n := range seq.Values {
		text, ok := n.(*ast.StringNode)
		if !ok || text.Value == "" {
			return fault.New(fault.Invalid, "%s: %s contains %.60q; each item must be %s", s.from, s.key, n.String(), what)
		}
		*to = append(*to, text.Value)
	}
	return nil
}

var moduleName = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*(\.[A-Za-z_][A-Za-z0-9_]*)*$`)

func preload(to *[]string, s setting) error {
	const what = "the name of a module, such as pandas or matplotlib.pyplot"
	if err := names(to, s, what); err != nil {
		return err
	}
	for _, name := range *to {
		if !moduleName.MatchString(name) {
			return fault.New(fault.Invalid, "%s: %s contains %.60q; each item must be %s", s.from, s.key, name, what)
		}
	}
	return nil
}
