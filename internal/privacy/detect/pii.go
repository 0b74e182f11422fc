// Package detect finds personal data and secrets in text. A Scanner holds the
// rules; Scan reads a text, Value the value of a JSON key, and a Stream text that
// arrives in pieces.
//
// The words: an anchor is a byte or a run of bytes that makes it worth looking
// closer (an '@', a run with digits, a "://"); a detector looks at the bytes
// around one anchor and adds candidates; a hint is what the words before a
// candidate, or its key, say it is; a Finding is a candidate that stands after
// overlaps are resolved. A score says how sure a rule is, from 0 to 1: above 0.9
// a checksum or an unmistakable form, below 0.7 a hint alone.
//
// Every detector looks at a bounded number of bytes around its anchor, so that a
// scan is linear in its text, whatever the text is. A Scanner is immutable and
// safe for concurrent use; a Stream belongs to one goroutine.
//
// The package replaces nothing, remembers nothing and does no I/O. It does not
// decode what it reads (disguise does), nor find what is known (known does).
package detect

import "slices"

// Type names a kind of personal data, as it stands in tokens and answers. An
// operator's patterns and key hints may add others.
type Type string

// The types that are built in.
const (
	Email           Type = "EMAIL"
	Phone           Type = "PHONE"
	SSN             Type = "SSN"
	CreditCard      Type = "CREDIT_CARD"
	IPAddress       Type = "IP_ADDRESS"
	APIKey          Type = "API_KEY"
	IBAN            Type = "IBAN"
	MACAddress      Type = "MAC_ADDRESS"
	Crypto          Type = "CRYPTO"
	URLCredentials  Type = "URL_CREDENTIALS"
	JWT             Type = "JWT"
	PrivateKey      Type = "PRIVATE_KEY"
	USPassport      Type = "US_PASSPORT"
	USDriverLicense Type = "US_DRIVER_LICENSE"
	USITIN          Type = "US_ITIN"
	Name            Type = "NAME"
	Address         Type = "ADDRESS"
)

// Types are those that are built in.
var Types = [...]Type{
	Email, Phone, SSN, CreditCard, IPAddress, APIKey, IBAN, MACAddress, Crypto, URLCredentials, JWT, PrivateKey,
	USPassport, USDriverLicense, USITIN, Name, Address,
}

// Finding is a place in a text: text[Start:End], in bytes, on borders of runes.
type Finding struct {
	Type       Type
	Start, End int
	Score      float64
}

// Scanner finds what its rules describe.
type Scanner struct {
	keys     map[string]keyHint
	tails    tails
	patterns []pattern
}

// Scan returns what is found in text, in order, without overlaps.
func (s *Scanner) Scan(text string) []Finding { return finish(s.scan(text), text) }

// Value is Scan for the value of a JSON key, or of whatever else has a name: a
// column, a parameter. The key counts as the words before text.
func (s *Scanner) Value(key, text string) []Finding { return finish(s.value(key, text), text) }

// Detect is Value that reads tables (see Table) and attributes (see Attributes) too.
func (s *Scanner) Detect(key, text string) []Finding {
	return finish(slices.Concat(s.value(key, text), s.columns(text), s.attributes(text)), text)
}

// finish decides which candidates stand.
func finish(found []Finding, text string) []Finding {
	found = slices.DeleteFunc(evident(found, text, 0, len(text)), internal)
	done, _ := resolve(found, text, 0, 0, len(text))
	return done
}

// decide is finish for candidates that are only a part of what is found in a text.
func (s *Scanner) decide(part []Finding, text string) []Finding {
	if slices.ContainsFunc(part, func(f Finding) bool { return waits(f.Type) }) {
		all := evident(slices.Concat(part, s.scan(text)), text, 0, len(text))
		part = slices.DeleteFunc(all, func(f Finding) bool {
			return !slices.ContainsFunc(part, func(o Finding) bool {
				return f.Start == o.Start && f.End == o.End && (f.Type == o.Type || waits(o.Type))
			})
		})
	}
	return slices.DeleteFunc(part, internal)
}

// scan returns all candidates in text.
func (s *Scanner) scan(text string) (found []Finding) {
	for lo := 0; lo < len(text); lo += block {
		found = s.scanBlock(found, text, lo, 0)
	}
	return found
}

func (s *Scanner) value(key, text string) []Finding {
	if key == "" || text == "" {
		return s.scan(text)
	}
	key = key[max(0, len(key)-maxKey):]
	before := `"` + key + `":"`
	whole := before + text
	found := s.hinted(nil, whole, key, len(before), len(whole))
	for lo := 0; lo < len(whole); lo += block {
		found = s.scanBlock(found, whole, lo, len(before))
	}
	found = slices.DeleteFunc(found, func(f Finding) bool { return f.End <= len(before) })
	for i := range found {
		found[i].Start = max(0, found[i].Start-len(before))
		found[i].End -= len(before)
	}
	return found
}

const (
	block  = 32 << 10 // anchors are looked at in blocks of this size
	behind = 256      // a detector looks at most so far before its anchor
	ahead  = 20 << 10 // and so far behind it; a private key is the longest
)

// scanBlock adds what is found at the anchors of text[lo:lo+block]. What it sees
// of the text around is the same however the text came to be there, which is why
// a Stream finds what Scan finds. Anchors before from are not looked at.
func (s *Scanner) scanBlock(found []Finding, text string, lo, from int) []Finding {
	left, right := max(0, lo-behind), min(len(text), lo+block+ahead)
	p := pass{s: s, text: text[left:right], found: found, base: left}
	hi := min(len(text), lo+block)
	p.anchors(max(lo, from)-left, hi-left)
	p.operator(lo-left, hi-left)
	return p.found
}

// pass is one look at a stretch of text; detectors are its methods.
type pass struct {
	s     *Scanner
	text  string
	base  int // where text begins in what findings refer to
	found []Finding

	hintAt int // one more than the place that hintIs is the hint of
	hintIs hint
}

func (p *pass) add(t Type, start, end int, score float64) {
	p.found = append(p.found, Finding{Type: t, Start: p.base + start, End: p.base + end, Score: score})
}
