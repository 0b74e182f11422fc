package config

import (
	"fmt"
	"strings"

	"github.com/goccy/go-yaml/ast"

	"github.com/sandpiper-mcp/sandpiper/internal/fault"
)

// ordered reads a list of policy rules or budgets. place receives the position of each.
func ordered[T any](to *[]T, p parsers[T], s setting, place func(*T, string)) error {
	seq, ok := s.node.(*ast.SequenceNode)
	if !ok {
		return fault.New(fault.Invalid, "%s: %s must be a list", s.from, s.key)
	}
	file, _, _ := strings.Cut(s.from, " line ")
	*to = nil
	for i, n := range seq.Values {
		line := n.GetToken().Position.Line
		if all := members(n); len(all) > 0 {
			line = all[0].Key.GetToken().Position.Line
		}
		at := fmt.Sprintf("%s line %d", file, line)
		var one T
		if err := p.fill(&one, n); err != nil {
			entry := fmt.Sprintf("entry %d of %s", i+1, s.key)
			for _, m := range members(n) {
				var name string
				if m.Key.GetToken().Value == "name" && scalar(&name, m.Value) == nil {
					entry += fmt.Sprintf(" (%.60q)", name)
				}
			}
			return fault.New(fault.Invalid, "%s: %s %s", at, entry, err)
		}
		place(&one, at)
		*to = append(*to, one)
	}
	return nil
}

// oneOrMore reads a string or a list of strings.
func oneOrMore(to *[]string, n ast.Node) error {
	if _, several := n.(*ast.SequenceNode); several {
		if err := list(to, n); err != nil || len(*to) == 0 {
			return fmt.Errorf("must be a text or a list of texts")
		}
		return nil
	}
	*to = make([]string, 1)
	return scalar(&(*to)[0], n)
}
