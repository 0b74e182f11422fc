package workflow

import (
	"iter"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Kinds of tokens of Python.
const (
	nameToken = iota
	stringToken
	commentToken
	otherToken // one character
	spaceToken
)

// token is a token of Python source. A string with expressions, as f"…", is one token.
type token struct {
	kind int
	text string
	at   int // offset
}

// tokens divides Python into tokens. Their texts are the source together. It accepts everything.
func tokens(source string) []token { return slices.Collect(eachToken(source)) }

// eachToken yields the tokens of Python one by one.
func eachToken(source string) iter.Seq[token] {
	return func(yield func(token) bool) {
		for i := 0; i < len(source); {
			kind, n := nextToken(source[i:])
			if !yield(token{kind, source[i : i+n], i}) {
				return
			}
			i += n
		}
	}
}

func nextToken(s string) (kind, n int) {
	c, size := utf8.DecodeRuneInString(s)
	switch {
	case c == '#':
		if n = strings.IndexByte(s, '\n'); n < 0 {
			n = len(s)
		}
		return commentToken, n
	case c == '"' || c == '\'':
		return stringToken, stringEnd(s, 0)
	case c == '_' || unicode.IsLetter(c):
		n = strings.IndexFunc(s, func(r rune) bool { return r != '_' && !unicode.IsLetter(r) && !unicode.IsDigit(r) })
		if n < 0 {
			n = len(s)
		}
		if n < len(s) && n <= 2 && (s[n] == '"' || s[n] == '\'') && strings.Trim(strings.ToLower(s[:n]), "rbuft") == "" {
			return stringToken, stringEnd(s, n)
		}
		return nameToken, n
	case unicode.IsDigit(c):
		n = strings.IndexFunc(s, func(r rune) bool { return r != '_' && r != '.' && !unicode.IsLetter(r) && !unicode.IsDigit(r) })
		if n < 0 {
			n = len(s)
		}
		return otherToken, n
	case c == ' ' || c == '\t' || c == '\n' || c == '\r' || c == '\f':
		return spaceToken, size
	}
	return otherToken, size
}

// maxStrings is the number of f-strings in each other that Python accepts. An outer one with more
// is not closed.
const maxStrings = 150

// stringEnd returns the end of the string literal whose quote is at i, also if it is not closed.
func stringEnd(s string, i int) int { return nestedStringEnd(s, i, 0) }

func nestedStringEnd(s string, i, nested int) int {
	if nested == maxStrings {
		return len(s)
	}
	quote := s[i : i+1]
	if strings.HasPrefix(s[i:], strings.Repeat(quote, 3)) {
		quote = s[i : i+3]
	}
	format := strings.ContainsAny(prefix(s, i), "fFtT")
	for j := i + len(quote); j < len(s); j++ {
		switch {
		case s[j] == '\\':
			j++
		case s[j] == '\n' && len(quote) == 1:
			return j
		case strings.HasPrefix(s[j:], quote):
			return j + len(quote)
		case format && s[j] == '{' && strings.HasPrefix(s[j:], "{{"):
			j++
		case format && s[j] == '{':
			j = fieldEnd(s, j, nested+1)
		}
	}
	return len(s)
}

// prefix returns the letters directly before the quote at i, as the rb of rb"".
func prefix(s string, i int) string {
	start := i
	for start > 0 && i-start < 2 && strings.IndexByte("rbuftRBUFT", s[start-1]) >= 0 {
		start--
	}
	return s[start:i]
}

// fieldEnd returns the position of the } that closes the { at i, in which strings with the same
// quotes are allowed.
func fieldEnd(s string, i, nested int) int {
	depth := 0
	for j := i; j < len(s); j++ {
		switch s[j] {
		case '{', '[', '(':
			depth++
		case '}', ']', ')':
			if depth--; depth == 0 {
				return j
			}
		case '"', '\'':
			j = nestedStringEnd(s, j, nested) - 1
		}
	}
	return len(s)
}

// expressionEnd returns the offset of the }} that ends an expression, or -1. Braces of the
// expression itself, and those in its strings, do not count.
func expressionEnd(source string) int {
	depth := 0
	for t := range eachToken(source) {
		switch {
		case t.kind == otherToken && strings.Contains("([{", t.text):
			depth++
		case t.text == "}" && depth == 0 && strings.HasPrefix(source[t.at:], closing):
			return t.at
		case t.kind == otherToken && strings.Contains(")]}", t.text) && depth > 0:
			depth--
		}
	}
	return -1
}

// isName reports whether text is an identifier that is written in ASCII.
func isName(text string) bool {
	for i, c := range text {
		letter := c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z'
		if !letter && (i == 0 || c != '_' && (c < '0' || c > '9')) {
			return false
		}
	}
	return text != "" && len(text) <= maxName
}

// maxName limits the bytes of a name, which is part of the name of a file.
const maxName = 128

// reference is a use of steps.NAME, inputs.NAME or a variable in an expression.
type reference struct {
	root string // steps, inputs or a variable of a loop
	name string // "" if the root is used in another way
	at   int    // offset
}

// maxNested limits how deep f-strings are nested in each other: each level is read once more.
const maxNested = 8

// references returns the uses of roots in an expression, also those inside f-strings.
func references(expr string, root func(string) bool) []reference {
	return nestedReferences(expr, root, maxNested)
}

func nestedReferences(expr string, root func(string) bool, nested int) (found []reference) {
	list := tokens(expr)
	for i, t := range list {
		if t.kind == stringToken && nested > 0 {
			for _, p := range formatted(t.text) {
				for _, r := range nestedReferences(p.text, root, nested-1) {
					r.at += t.at + p.at
					found = append(found, r)
				}
			}
		}
		if t.kind == nameToken && root(t.text) && previous(list, i) != "." && !isKeyword(list, i) {
			found = append(found, reference{t.text, attribute(list, i), t.at})
		}
	}
	return found
}

// isKeyword reports whether token i is the name of an argument, as in f(NAME=1).
func isKeyword(list []token, i int) bool {
	j := next(list, i)
	after := next(list, j)
	return j < len(list) && list[j].text == "=" && (after >= len(list) || list[after].text != "=")
}

// formatted returns the expressions of a string literal, which has some if it is an f-string.
func formatted(text string) (parts []token) {
	q := strings.IndexAny(text, `"'`)
	if !strings.ContainsAny(text[:q], "fFtT") {
		return nil
	}
	depth, start := 0, 0
	for j := q; j < len(text); j++ {
		c := text[j]
		switch {
		case depth == 0 && (c == '{' || c == '}') && strings.HasPrefix(text[j+1:], string(c)):
			j++
		case depth == 0 && c == '{':
			depth, start = 1, j+1
		case depth == 0:
		case c == '"' || c == '\'':
			j = stringEnd(text, j) - 1
		case c == '{' || c == '[' || c == '(':
			depth++
		case c == '}' || c == ']' || c == ')':
			if depth--; depth == 0 {
				parts = append(parts, token{otherToken, text[start:j], start})
			}
		}
	}
	return parts
}

// previous returns the token before i that is no space.
func previous(list []token, i int) string {
	for i--; i >= 0; i-- {
		if list[i].kind != spaceToken {
			return list[i].text
		}
	}
	return ""
}

// next returns the index of the next token after i that is no space, or len(list).
func next(list []token, i int) int {
	for i++; i < len(list) && list[i].kind == spaceToken; i++ {
	}
	return i
}

// attribute returns NAME if .NAME or ["NAME"] follows token i.
func attribute(list []token, i int) string {
	j := next(list, i)
	k := next(list, j)
	switch {
	case k >= len(list):
	case list[j].text == "." && list[k].kind == nameToken:
		return list[k].text
	case list[j].text == "[" && list[k].kind == stringToken:
		return strings.Trim(list[k].text, `"'`)
	}
	return ""
}
