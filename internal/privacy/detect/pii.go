// Package detect finds personal data and secrets in text. A Scanner holds the
// rules; Scan searches a text, Value the value of a JSON key, and a Stream text that
// arrives in pieces.
//
// Terms: an anchor is a byte or a run of bytes where a detector is tried (an '@', a run
// with digits, a "://"); a detector examines the bytes around one anchor and adds
// candidates; a hint is the type that the words before a candidate, or its key, suggest; a
// Finding is a candidate that remains after overlaps are resolved. A score is the
// confidence of a rule, from 0 to 1: above 0.9 a checksum or an unambiguous form, below
// 0.7 a hint alone.
//
// Every detector examines a bounded number of bytes around its anchor, so that a scan is
// linear in the length of any text. A Scanner is immutable and
// safe for concurrent use; a Stream belongs to one goroutine.
//
// The package replaces nothing, has no state and does no I/O. Package encoded decodes text,
// and package known finds known values.
package detect

import (
	"runtime"
	"slices"
	"sync"
)

// Type is a kind of personal data, as used in tokens and answers. An operator's patterns and
// key hints may add others.
type Type string

// The built-in types.
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

// Types lists the built-in types.
var Types = [...]Type{
	Email, Phone, SSN, CreditCard, IPAddress, APIKey, IBAN, MACAddress, Crypto, URLCredentials, JWT, PrivateKey,
	USPassport, USDriverLicense, USITIN, Name, Address,
}

// Finding is a value in a text: text[Start:End], in bytes, at rune boundaries.
type Finding struct {
	Type       Type
	Start, End int
	Score      float64
}

// Scanner finds values by rules.
type Scanner struct {
	keys     map[string]keyHint
	tails    tails
	patterns []pattern
	prose    bool // search names in prose
}

// Scan returns the findings in text, in order, without overlaps.
func (s *Scanner) Scan(text string) []Finding { return finish(s.scan(text), text) }

// Value is Scan for the value of a JSON key, a column or a parameter. The key is treated as
// the words before text.
func (s *Scanner) Value(key, text string) []Finding { return finish(s.value(key, text), text) }

// Detect is Value that also reads tables (see Table) and attributes.
func (s *Scanner) Detect(key, text string) []Finding {
	found := append(s.value(key, text), s.columns(text)...) // a large text has hundreds of thousands: Concat would copy them
	return finish(append(found, s.attributes(text)...), text)
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
func (s *Scanner) scan(text string) (found []Finding) { return scanBlocks(s, nil, text, 0) }

func (s *Scanner) value(key, text string) []Finding {
	if key == "" || text == "" {
		return s.scan(text)
	}
	key = key[max(0, len(key)-maxKey):]
	before := `"` + key + `":"`
	whole := before + text
	found := s.addHinted(nil, whole, key, len(before), len(whole))
	found = scanBlocks(s, found, whole, len(before))
	found = slices.DeleteFunc(found, func(f Finding) bool { return f.End <= len(before) })
	for i := range found {
		found[i].Start = max(0, found[i].Start-len(before))
		found[i].End -= len(before)
	}
	return found
}

const (
	block  = 32 << 10 // anchors are processed in blocks of this size
	behind = 256      // a detector examines at most this many bytes before its anchor
	ahead  = 20 << 10 // and this many after it; a private key is the longest value
)

const (
	share = 4  // the least number of blocks for which another processor is used
	round = 64 // blocks that are scanned at a time: their findings are copied
)

// scanBlocks adds the candidates in text, except those before from. All processors scan a large
// text, in consecutive parts: no block depends on another, except for repeated names in prose.
func scanBlocks(s *Scanner, found []Finding, text string, from int) []Finding {
	blocks := (len(text) + block - 1) / block
	for lo := 0; lo < blocks; lo += round {
		n := min(round, blocks-lo)
		parts := make([][]Finding, max(1, min(n/share, runtime.GOMAXPROCS(0))))
		if s.prose {
			parts = parts[:1]
		}
		scan := func(k int) {
			for i := n * k / len(parts); i < n*(k+1)/len(parts); i++ {
				parts[k] = s.scanBlock(parts[k], text, (lo+i)*block, from)
			}
		}
		parts[0] = found
		var others sync.WaitGroup
		for k := range parts[1:] {
			others.Go(func() { scan(k + 1) })
		}
		scan(0)
		others.Wait()
		found = parts[0]
		for _, part := range parts[1:] {
			found = append(found, part...)
		}
	}
	return found
}

// scanBlock adds the candidates at the anchors of text[lo:lo+block], except those before
// from. Its context does not depend on how the text arrived, so that a Stream finds what
// Scan finds.
func (s *Scanner) scanBlock(found []Finding, text string, lo, from int) []Finding {
	left, right := max(0, lo-behind), min(len(text), lo+block+ahead)
	p := pass{s: s, text: text[left:right], found: found, base: left}
	hi := min(len(text), lo+block)
	p.anchors(max(lo, from)-left, hi-left)
	p.operator(lo-left, hi-left)
	if s.prose {
		p.names = lexicon()
		p.prose(max(lo, from)-left, hi-left)
	}
	return p.found
}

// pass is the scan of one block; detectors are its methods.
type pass struct {
	s     *Scanner
	text  string
	base  int // position of text in the whole
	found []Finding
	names map[string]wordKind // if names in prose are searched

	hintAt int // 1 + the position whose hint is hintIs
	hintIs hint
}

func (p *pass) add(t Type, start, end int, score float64) {
	p.found = append(p.found, Finding{Type: t, Start: p.base + start, End: p.base + end, Score: score})
}
