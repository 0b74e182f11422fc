// Package glob matches names with patterns, in which * matches any characters and nothing
// else is special.
package glob

import (
	"strings"
	"unicode"

	"github.com/sandpiper-mcp/sandpiper/internal/fault"
)

// Pattern is a parsed pattern: the texts between its stars.
type Pattern []string

const maxBytes = 300

// Parse parses patterns. It rejects characters that are special in other pattern
// languages: here they would silently match nothing. The message of an error begins with a
// verb, and key names the kind of pattern in it.
func Parse(key string, patterns []string) (all []Pattern, err error) {
	for _, p := range patterns {
		switch {
		case p == "":
			return nil, fault.New(fault.Invalid, "has an empty %s", key)
		case len(p) > maxBytes || strings.ContainsFunc(p, unicode.IsControl):
			return nil, fault.New(fault.Invalid, "has the %s %.80q; a pattern is one line of at most %d bytes", key, p, maxBytes)
		case strings.ContainsAny(p, `?[]{}\,`):
			return nil, fault.New(fault.Invalid, "has the %s %.80q, which is not a valid pattern: * matches any characters, and nothing "+
				"else is special", key, p).
				WithHint("write several patterns as a list")
		}
		all = append(all, strings.Split(p, "*"))
	}
	return all, nil
}

// MatchAny reports whether one of the patterns matches s.
func MatchAny(all []Pattern, s string) bool {
	for _, g := range all {
		if g.Match(s) {
			return true
		}
	}
	return false
}

// Literal reports whether the pattern has no star.
func (g Pattern) Literal() bool { return len(g) == 1 }

func (g Pattern) String() string { return strings.Join(g, "*") }

// Match reports whether the pattern matches s.
func (g Pattern) Match(s string) bool {
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

// Covers reports whether g matches everything that other matches. A star of other is
// treated as a character that only a star of g matches.
func (g Pattern) Covers(other Pattern) bool { return g.Match(other.String()) }

// MatchesPrefix reports whether g matches any string that begins with prefix.
func (g Pattern) MatchesPrefix(prefix string) bool {
	if g.Literal() || len(g[0]) >= len(prefix) {
		return strings.HasPrefix(g[0], prefix)
	}
	return strings.HasPrefix(prefix, g[0])
}
