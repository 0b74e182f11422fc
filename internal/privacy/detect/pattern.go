package detect

import (
	"regexp"

	"github.com/sandpiper-mcp/sandpiper/internal/fault"
)

// Pattern is an operator's rule: a match of Expr has type Type.
type Pattern struct {
	Type Type   `key:"type"`
	Expr string `key:"pattern"` // RE2 syntax; the finding is its first group, if it has one
}

const (
	maxPatterns = 64
	maxExpr     = 1000
	maxMatch    = 1024 // longer matches are ignored, since a Stream could not hold them
)

// pattern is a compiled Pattern.
type pattern struct {
	typ Type
	re  *regexp.Regexp
}

var typeName = regexp.MustCompile(`^[A-Z][A-Z0-9_]{1,31}$`)

// compile checks a Pattern.
func compile(c Pattern) (pattern, error) {
	if err := checkType(c.Type); err != nil {
		return pattern{}, err
	}
	if len(c.Expr) > maxExpr {
		return pattern{}, fault.New(fault.Invalid, "the pattern for %s has %d bytes: at most %d are allowed", c.Type, len(c.Expr), maxExpr)
	}
	re, err := regexp.Compile(c.Expr)
	if err != nil {
		return pattern{}, fault.Wrap(fault.Invalid, err, "the pattern for %s is not a valid regular expression: %.200q", c.Type, c.Expr).
			WithHint("the syntax is RE2, without look-around and back-references")
	}
	if re.MatchString("") {
		return pattern{}, fault.New(fault.Invalid, "the pattern for %s matches the empty text: %.200q", c.Type, c.Expr).
			WithHint("every match must have at least one character")
	}
	return pattern{typ: c.Type, re: re}, nil
}

func checkType(t Type) error {
	if typeName.MatchString(string(t)) {
		return nil
	}
	return fault.New(fault.Invalid, "invalid type of personal data %.60q: use 2 to 32 of A-Z, 0-9 and '_', starting with a letter",
		string(t))
}

// addPatterns adds the matches of the operator's patterns in text[lo:hi].
func addPatterns(p *passage, all []pattern, lo, hi int) {
	for _, c := range all {
		from := max(0, lo-behind)
		for _, m := range c.re.FindAllStringSubmatchIndex(p.text[from:min(len(p.text), hi+maxMatch)], -1) {
			start, end := m[0], m[1]
			if len(m) > 2 && m[2] >= 0 {
				start, end = m[2], m[3]
			}
			start, end = start+from, end+from
			if start >= lo && start < hi && end > start && end-start <= maxMatch && p.whole(start) && p.whole(end) {
				p.typ = c.typ
				p.add(start, end, 1)
			}
		}
	}
}
