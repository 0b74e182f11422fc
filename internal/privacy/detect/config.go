package detect

import (
	"regexp"
	"unicode/utf8"

	"github.com/sandpiper-mcp/sandpiper/internal/fault"
)

// Config adds rules of the operator to the built-in ones. Its zero value adds none.
type Config struct {
	Patterns []Pattern       // searched in every text; each costs time
	Names    Names           // when a value under "name" is the name of a person; "" means Evidence
	Prose    bool            // search names of persons in prose
	Keys     map[string]Type // type of the whole value of a key; case and separators are ignored
}

// Pattern is an operator's rule: a match of Expr has type Type.
type Pattern struct {
	Type Type
	Expr string // RE2 syntax; the finding is its first group, if it has one
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

// New returns a Scanner with the built-in rules and those of cfg.
func New(cfg Config) (*Scanner, error) {
	s := &Scanner{keys: builtin(), prose: cfg.Prose}
	switch cfg.Names {
	case "", Evidence:
	case Always:
		s.keys["name"] = keyHint{typ: Name, accepts: titleCase, score: bareNameScore}
	case Never:
		delete(s.keys, "name")
	default:
		return nil, fault.New(fault.Invalid, "invalid rule for names %.40q: use evidence, always or never", cfg.Names)
	}
	if len(cfg.Patterns) > maxPatterns {
		return nil, fault.New(fault.Invalid, "%d patterns for personal data: at most %d are allowed", len(cfg.Patterns), maxPatterns).
			WithHint("join the patterns of one type with |")
	}
	for _, c := range cfg.Patterns {
		p, err := compile(c)
		if err != nil {
			return nil, err
		}
		s.patterns = append(s.patterns, p)
	}
	for k, t := range cfg.Keys {
		if err := checkType(t); err != nil {
			return nil, err
		}
		n := normalize(k)
		if n == "" || len(k) > maxKey {
			return nil, fault.New(fault.Invalid, "invalid key %.60q: use 1 to %d bytes with a letter or digit", k, maxKey)
		}
		s.keys[n] = keyHint{typ: t, score: 1}
	}
	for k := range s.keys {
		s.tails.put(k)
	}
	return s, nil
}

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
	return fault.New(fault.Invalid, "invalid type of personal data %.60q: use 2 to 32 of A-Z, 0-9 and '_', starting with a letter", string(t))
}

// operator adds the matches of the operator's patterns in text[lo:hi].
func (p *pass) operator(lo, hi int) {
	for _, c := range p.s.patterns {
		from := max(0, lo-behind)
		for _, m := range c.re.FindAllStringSubmatchIndex(p.text[from:min(len(p.text), hi+maxMatch)], -1) {
			start, end := m[0], m[1]
			if len(m) > 2 && m[2] >= 0 {
				start, end = m[2], m[3]
			}
			start, end = start+from, end+from
			if start >= lo && start < hi && end > start && end-start <= maxMatch && p.whole(start) && p.whole(end) {
				p.add(c.typ, start, end, 1)
			}
		}
	}
}

// whole reports whether a rune begins at i, or the text ends there.
func (p *pass) whole(i int) bool { return i == len(p.text) || utf8.RuneStart(p.text[i]) }

// SameKey reports whether two keys differ in case and separators only.
func SameKey(a, b string) bool { return normalize(a) == normalize(b) }

func normalize(k string) string {
	var out []byte
	for i := range len(k) {
		switch c := class[k[i]]; {
		case c&upper != 0:
			out = append(out, k[i]|0x20)
		case c&(alnum|high) != 0:
			out = append(out, k[i])
		}
	}
	return string(out)
}
