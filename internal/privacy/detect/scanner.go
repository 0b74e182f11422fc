package detect

import (
	"slices"

	"github.com/sandpiper-mcp/sandpiper/internal/fault"
)

// Config adds rules of the operator to the built-in ones. Its zero value adds none.
type Config struct {
	Patterns []Pattern `key:"patterns" project:"done"` // searched in every text; each costs time
	// when a value under "name" is the name of a person; "" means Evidence
	Names Names           `key:"names,tenant" allow:"never evidence always" project:"tighten"`
	Prose bool            `key:"prose_names,tenant" project:"enable"` // search names of persons in prose
	Keys  map[string]Type // type of the whole value of a key; case and separators are ignored
}

// Names controls when a value under the key "name" is the name of a person.
type Names string

const (
	Evidence Names = "evidence" // if its record has other personal data, or a key that denotes a person
	Always   Names = "always"   // if it looks like a name
	Never    Names = "never"
)

// Scanner finds values by rules.
type Scanner struct{ rules rules }

// New returns a Scanner with the built-in rules and those of cfg.
func New(cfg Config) (*Scanner, error) {
	keys, s := builtin(), &Scanner{rules{prose: cfg.Prose}}
	switch cfg.Names {
	case "", Evidence:
	case Always:
		keys["name"] = keyHint{typ: Name, accepts: titleCase, score: bareNameScore}
	case Never:
		delete(keys, "name")
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
		s.rules.patterns = append(s.rules.patterns, p)
	}
	for k, t := range cfg.Keys {
		if err := checkType(t); err != nil {
			return nil, err
		}
		n := normalize(k)
		if n == "" || len(k) > maxKey {
			return nil, fault.New(fault.Invalid, "invalid key %.60q: use 1 to %d bytes with a letter or digit", k, maxKey)
		}
		keys[n] = keyHint{typ: t, score: 1}
	}
	s.rules.keys = keyTable{hints: keys, tails: tailsOf(keys)}
	return s, nil
}

// Scan returns the findings in text, in order, without overlaps.
func (s *Scanner) Scan(text string) []Finding { return finish(s.scan(text), text) }

// Value is Scan for the value of a JSON key, a column or a parameter. The key is treated as
// the words before text.
func (s *Scanner) Value(key, text string) []Finding { return finish(s.value(key, text), text) }

// Detect is Value that also reads tables (see Table) and attributes.
func (s *Scanner) Detect(key, text string) []Finding {
	found := append(s.value(key, text), columns(&s.rules.keys, text)...) // a large text has hundreds of thousands: Concat would copy them
	return finish(append(found, attributes(&s.rules.keys, text)...), text)
}

// finish resolves candidates to findings.
func finish(found []Finding, text string) []Finding {
	found = slices.DeleteFunc(resolveNames(found, text, 0, len(text)), isInternal)
	done, _ := resolve(found, text, 0, 0, len(text))
	return done
}

// decide resolves pending names among some of the candidates in a text.
func (s *Scanner) decide(part []Finding, text string) []Finding {
	if slices.ContainsFunc(part, func(f Finding) bool { return isPending(f.Type) }) {
		all := resolveNames(slices.Concat(part, s.scan(text)), text, 0, len(text))
		wanted := make(map[Finding]bool, len(part)) // of each range the types, "" for all
		for _, f := range part {
			if isPending(f.Type) {
				f.Type = ""
			}
			wanted[Finding{Type: f.Type, Start: f.Start, End: f.End}] = true
		}
		part = slices.DeleteFunc(all, func(f Finding) bool {
			return !wanted[Finding{Type: f.Type, Start: f.Start, End: f.End}] && !wanted[Finding{Start: f.Start, End: f.End}]
		})
	}
	return slices.DeleteFunc(part, isInternal)
}

// scan returns all candidates in text.
func (s *Scanner) scan(text string) (found []Finding) { return s.rules.scan(nil, text, 0) }

func (s *Scanner) value(key, text string) []Finding {
	if key == "" || text == "" {
		return s.scan(text)
	}
	key = key[max(0, len(key)-maxKey):]
	before := `"` + key + `":"`
	whole := before + text
	found := s.rules.keys.addHinted(nil, whole, key, len(before), len(whole))
	found = s.rules.scan(found, whole, len(before))
	found = slices.DeleteFunc(found, func(f Finding) bool { return f.End <= len(before) })
	for i := range found {
		found[i].Start = max(0, found[i].Start-len(before))
		found[i].End -= len(before)
	}
	return found
}

// Table returns the findings in columns of tables whose names are keys: rows separated
// by commas, semicolons, tabs or bars, as in files, and right-aligned columns, as data
// frames are printed. Scan returns the findings without a key.
func (s *Scanner) Table(text string) []Finding {
	return s.decide(columns(&s.rules.keys, text), text)
}

// Person returns the key to use for the escaped value text[start:end] of key. For the
// key "name" with evidence of a person this is "full name", otherwise key.
func (s *Scanner) Person(key, text string, start, end int) string {
	if h, _ := s.rules.keys.find(key); h.typ != nameInObject {
		return key
	}
	lo, hi := max(0, start-evidenceRange), min(len(text), end+evidenceRange)
	own := Finding{Type: nameInObject, Start: start - lo, End: end - lo}
	around := slices.DeleteFunc(s.scan(text[lo:hi]), own.overlaps)
	for _, f := range resolveNames(append(around, own), text[lo:hi], 0, hi-lo) {
		if f.Type == Name && f.Start == own.Start {
			return "full name"
		}
	}
	return key
}
