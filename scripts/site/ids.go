package main

import (
	"strings"
	"unicode"

	"github.com/yuin/goldmark/ast"
)

// ids makes the ids of headings as GitHub does, so that links work in both places.
type ids struct{}

func (*ids) Generate(value []byte, _ ast.NodeKind) []byte {
	return []byte(strings.Map(func(r rune) rune {
		switch {
		case r == ' ':
			return '-'
		case r == '-' || r == '_' || unicode.IsLetter(r) || unicode.IsDigit(r):
			return unicode.ToLower(r)
		}
		return -1
	}, string(value)))
}

func (*ids) Put([]byte) {}
