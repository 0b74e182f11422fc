package detect

import (
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/sandpiper-mcp/sandpiper/internal/lazyregexp"
)

// NearMiss is text that resembles a value of a type and is not one.
type NearMiss struct {
	Type       Type
	Start, End int
	Reason     string
}

// shape finds text that resembles a type. reason explains why it is none, "" if it does not
// resemble one.
type shape struct {
	typ    Type
	expr   func() *regexp.Regexp
	reason func(p *passage, start, end int) string
}

var shapes = []shape{
	{IBAN, lazyregexp.New(`\b[A-Z]{2}[0-9]{2}(?: ?[0-9A-Z]{2,4}){3,8}\b`), ibanMiss},
	{CreditCard, lazyregexp.New(`\b[0-9](?:[ -]?[0-9]){11,18}\b`), cardMiss},
	{SSN, lazyregexp.New(`\b[0-9]{3}-[0-9]{2}-[0-9]{4}\b`), func(*passage, int, int) string {
		return "no such area, group or serial was issued, or it is published as an example"
	}},
	{IPAddress, lazyregexp.New(`\b[0-9]{1,3}(?:\.[0-9]{1,3}){3}\b`), quadMiss},
	{Phone, lazyregexp.New(`\b[0-9]{7,11}\b`), func(p *passage, start, _ int) string {
		if w := hintWord(p, start); w != "" {
			return fmt.Sprintf("the word %q before it denotes another number", w)
		}
		return "without a country code, groups or a word such as phone before it, digits are no telephone number"
	}},
	{APIKey, lazyregexp.New(`[A-Za-z_][A-Za-z0-9_.-]{2,48}["']? *(?:=>|:=|=|:) *["']?[^\s"',;]{6,200}`), secretMiss},
	{Name, lazyregexp.New(`"name" *: *"[^"\n]{3,60}"`), func(*passage, int, int) string {
		return "nothing else in the record indicates a person; pii.names: always does not require it"
	}},
}

const maxNearMisses = 100

// nearMisses returns the texts outside of the findings that resemble a value.
func (s *Scanner) nearMisses(text string, found []Finding) (all []NearMiss) {
	p := &passage{text: text, keys: &s.rules.keys}
	for _, c := range shapes {
		for _, at := range c.expr().FindAllStringIndex(text, maxNearMisses) {
			f := Finding{Start: at[0], End: at[1]}
			if slices.ContainsFunc(found, f.overlaps) || slices.ContainsFunc(all,
				func(m NearMiss) bool { return m.Start < f.End && f.Start < m.End }) {
				continue
			}
			if reason := c.reason(p, f.Start, f.End); reason != "" {
				all = append(all, NearMiss{c.typ, f.Start, f.End, reason})
			}
		}
	}
	slices.SortFunc(all, func(a, b NearMiss) int { return a.Start - b.Start })
	return all
}

func ibanMiss(p *passage, start, end int) string {
	value := strings.ReplaceAll(p.text[start:end], " ", "")
	want := ibans[value[:2]]
	switch {
	case want == 0:
		return ""
	case len(value) != want:
		return fmt.Sprintf("it has %d characters; accounts of %s have %d", len(value), value[:2], want)
	}
	return "the checksum (mod 97) is wrong"
}

func cardMiss(p *passage, start, end int) string {
	digits := strings.NewReplacer(" ", "", "-", "").Replace(p.text[start:end])
	switch {
	case !luhn(digits):
		return "the Luhn checksum is wrong"
	case !issued(digits):
		return fmt.Sprintf("no network issues %d digits that begin so, and no word such as card is before it", len(digits))
	}
	return "it is part of a longer number or word"
}

func quadMiss(p *passage, start, _ int) string {
	end, ok := quad(p, start)
	switch {
	case !ok:
		return "a part is over 255 or has a leading zero"
	case isSection(p, start, end):
		return "it is the number of a section"
	case isVersion(p, start, end):
		return "a word or an operator before it denotes a version or section, or it begins with zero"
	}
	return "it is part of a longer number or word"
}

func secretMiss(p *passage, start, end int) string {
	match := p.text[start:end]
	i := strings.IndexAny(match, "=:")
	name, value := strings.TrimRight(match[:i], `"' `), strings.TrimLeft(match[i:], `=:>"' `)
	kind := secretKindOf(name)
	switch {
	case kind == notSecret:
		return ""
	case placeholder(value):
		return fmt.Sprintf("the name %q denotes a secret, and the value is a placeholder", name)
	case len(value) < 10 && kind != password:
		return fmt.Sprintf("the name %q denotes a secret, and the value has only %d characters", name, len(value))
	}
	return fmt.Sprintf("the name %q denotes a secret, and the value resembles words or code", name)
}
