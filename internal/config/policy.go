package config

import (
	"fmt"
	"strings"

	"github.com/goccy/go-yaml"
	"github.com/goccy/go-yaml/ast"

	"github.com/sandpiper-mcp/sandpiper/internal/fault"
	"github.com/sandpiper-mcp/sandpiper/internal/policy"
)

// policyKeys are the keys of the policy.
var policyKeys = map[string]key{
	"policy.default": {
		read: func(d *draft, s setting) error {
			return oneOf((*string)(&d.Policy.Default), s, string(policy.Allow), string(policy.Ask), string(policy.Block))
		},
		project: done,
	},
	"policy.rules": {
		read: func(d *draft, s setting) error {
			return ordered(&d.Policy.Rules, ruleKeys, s, func(r *policy.Rule, at string) { r.At = at })
		},
		structured: true,
		project:    done,
	},
	"policy.budgets": {
		read: func(d *draft, s setting) error {
			return ordered(&d.Policy.Budgets, budgetKeys, s, func(b *policy.Budget, at string) { b.At = at })
		},
		structured: true,
		project:    done,
	},
}

var ruleKeys = parsers[policy.Rule]{
	"name":     func(r *policy.Rule, n ast.Node) error { return scalar(&r.Name, n) },
	"tool":     func(r *policy.Rule, n ast.Node) error { return oneOrMore(&r.Tools, n) },
	"server":   func(r *policy.Rule, n ast.Node) error { return nonEmpty(&r.Server, n) },
	"tenant":   func(r *policy.Rule, n ast.Node) error { return oneOrMore(&r.Tenants, n) },
	"when":     func(r *policy.Rule, n ast.Node) error { return nonEmpty(&r.When, n) },
	"decision": func(r *policy.Rule, n ast.Node) error { return scalar((*string)(&r.Decision), n) },
	"sandbox":  func(r *policy.Rule, n ast.Node) error { return nonEmpty((*string)(&r.Sandbox), n) },
	"reason":   func(r *policy.Rule, n ast.Node) error { return scalar(&r.Reason, n) },
}

var budgetKeys = parsers[policy.Budget]{
	"name":   func(b *policy.Budget, n ast.Node) error { return scalar(&b.Name, n) },
	"tool":   func(b *policy.Budget, n ast.Node) error { return oneOrMore(&b.Tools, n) },
	"server": func(b *policy.Budget, n ast.Node) error { return nonEmpty(&b.Server, n) },
	"tenant": func(b *policy.Budget, n ast.Node) error { return oneOrMore(&b.Tenants, n) },
	"calls":  func(b *policy.Budget, n ast.Node) error { return wholeNumber(&b.Calls, n) },
	"per":    func(b *policy.Budget, n ast.Node) error { return scalar((*string)(&b.Per), n) },
}

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

// nonEmpty reads a string that is not empty: a rule with an empty condition or server
// would match more than intended.
func nonEmpty(to *string, n ast.Node) error {
	if err := scalar(to, n); err != nil {
		return err
	}
	if strings.TrimSpace(*to) == "" {
		return fmt.Errorf("is empty; leave it out if all calls are meant")
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

func wholeNumber(to *int, n ast.Node) error {
	if _, ok := n.(*ast.IntegerNode); !ok || yaml.NodeToValue(n, to) != nil {
		return fmt.Errorf("must be a whole number")
	}
	return nil
}
