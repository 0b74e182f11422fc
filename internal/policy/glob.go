package policy

import (
	"strings"
	"unicode"

	"github.com/sandpiper-mcp/sandpiper/internal/fault"
)

// glob is a pattern: the texts between its stars.
type glob []string

// longestGlob bounds a pattern.
const longestGlob = 300

// globs reads patterns. What means something in other patterns is refused, since
// here it would match nothing and say nothing.
func globs(key string, patterns []string) (all []glob, err error) {
	for _, p := range patterns {
		switch {
		case p == "":
			return nil, fault.New(fault.Invalid, "has an empty %s", key)
		case len(p) > longestGlob || strings.ContainsFunc(p, unicode.IsControl):
			return nil, fault.New(fault.Invalid, "has the %s %.80q, which is no pattern", key, p)
		case strings.ContainsAny(p, `?[]{}\,`):
			return nil, fault.New(fault.Invalid, "has the %s %.80q, which is no pattern: * stands for any letters, and nothing else is special", key, p).
				WithHint("write several patterns as a list")
		}
		all = append(all, strings.Split(p, "*"))
	}
	return all, nil
}

func anyOf(all []glob, s string) bool {
	for _, g := range all {
		if g.match(s) {
			return true
		}
	}
	return false
}

func (g glob) String() string { return strings.Join(g, "*") }

func (g glob) match(s string) bool {
	last := len(g) - 1
	if last == 0 {
		return s == g[0]
	}
	s, begins := strings.CutPrefix(s, g[0])
	s, ends := strings.CutSuffix(s, g[last])
	if !begins || !ends {
		return false
	}
	for _, part := range g[1:last] {
		i := strings.Index(s, part)
		if i < 0 {
			return false
		}
		s = s[i+len(part):]
	}
	return true
}

// covers tells whether all that other matches is matched by g: a star of other is
// a letter that only a star of g stands for.
func (g glob) covers(other glob) bool { return g.match(other.String()) }

// reaches tells whether g matches anything that begins with a text.
func (g glob) reaches(text string) bool {
	if len(g) == 1 || len(g[0]) >= len(text) {
		return strings.HasPrefix(g[0], text)
	}
	return strings.HasPrefix(text, g[0])
}
