package policy

import (
	"strings"
	"unicode"

	"github.com/sandpiper-mcp/sandpiper/internal/fault"
)

// glob is a pattern: the texts between its stars.
type glob []string

const maxGlobBytes = 300

// parseGlobs parses patterns. It rejects characters that are special in other pattern
// languages: here they would silently match nothing.
func parseGlobs(key string, patterns []string) (all []glob, err error) {
	for _, p := range patterns {
		switch {
		case p == "":
			return nil, fault.New(fault.Invalid, "has an empty %s", key)
		case len(p) > maxGlobBytes || strings.ContainsFunc(p, unicode.IsControl):
			return nil, fault.New(fault.Invalid, "has the %s %.80q; a pattern is one line of at most %d bytes", key, p, maxGlobBytes)
		case strings.ContainsAny(p, `?[]{}\,`):
			return nil, fault.New(fault.Invalid, "has the %s %.80q, which is not a valid pattern: * matches any characters, and nothing else is special", key, p).
				WithHint("write several patterns as a list")
		}
		all = append(all, strings.Split(p, "*"))
	}
	return all, nil
}

func matchAny(all []glob, s string) bool {
	for _, g := range all {
		if g.match(s) {
			return true
		}
	}
	return false
}

// literal reports whether the pattern has no star.
func (g glob) literal() bool { return len(g) == 1 }

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

// covers reports whether g matches everything that other matches. A star of other is
// treated as a character that only a star of g matches.
func (g glob) covers(other glob) bool { return g.match(other.String()) }

// matchesPrefix reports whether g matches any string that begins with prefix.
func (g glob) matchesPrefix(prefix string) bool {
	if g.literal() || len(g[0]) >= len(prefix) {
		return strings.HasPrefix(g[0], prefix)
	}
	return strings.HasPrefix(prefix, g[0])
}
