package detect

import "strings"

// hint is the kind of number that nearby words suggest.
type hint uint8

const (
	hintNone hint = iota
	hintPhone
	hintSSN
	hintITIN
	hintPassport
	hintLicense
	hintCard
	hintIBAN
	hintVersion
	hintNumber // another number: of an order, a page, a build
)

// hints maps single words in lower case to the kind of number that they suggest.
var hints = words(map[hint]string{
	hintPhone: "phone phones telephone tel telefon telefono telefone mobile mobil cell cellphone handy fax call called calling dial " +
		"whatsapp sms ring reach contact callback landline hotline voicemail messages answering msisdn office",
	hintSSN:      "ssn social socialsecurity",
	hintITIN:     "itin taxpayer tin",
	hintPassport: "passport passports",
	hintLicense:  "driver drivers driving dl dln",
	hintCard:     "card cards cc visa mastercard amex credit debit pan maestro",
	hintIBAN:     "iban ibans",
	hintVersion:  "version versions ver release released firmware build oid",
	hintNumber: "order orders invoice tracking transaction ref reference ticket issue isbn issn ean upc sku port page pages pid uid id ids " +
		"timestamp time date epoch bytes size count total amount price duration offset line lines row rows",
})

// hintSubstrings has words that also count inside a longer word, as in
// "passportnumberis".
var hintSubstrings = []struct {
	word string
	hint hint
}{{"passport", hintPassport}, {"phone", hintPhone}, {"driverslicen", hintLicense}, {"driverlicen", hintLicense},
	{"drivinglicen", hintLicense}, {"creditcard", hintCard}}

func words(of map[hint]string) map[string]hint {
	m := map[string]hint{}
	for h, list := range of {
		for w := range strings.FieldsSeq(list) {
			m[w] = h
		}
	}
	return m
}

const (
	maxHint = 64 // maximum distance in bytes of a word before a number
	maxWord = 32
)

// hint returns the hint of the nearest word before start that has one, within the same
// field: words before a previous value do not apply.
func (p *pass) hint(start int) hint {
	if p.hintAt != start+1 { // several detectors use the hint of the same token
		p.hintAt, p.hintIs = start+1, p.nearestHint(start)
	}
	return p.hintIs
}

func (p *pass) nearestHint(start int) hint {
	i, floor := start, max(0, start-maxHint)
	if p.at(i-1) == '/' { // a part of a path
		return hintNone
	}
	quotes, lines := 0, 0
	for i > floor {
		switch b := p.text[i-1]; {
		case class[b]&letter != 0:
			end := i
			for i > floor && p.is(i-1, letter) {
				i--
			}
			h := hintOfRun(p.text[i:end])
			if p.text[i]|0x20 == 'i' && p.isTaxNumber(i, end) {
				h = hintITIN
			}
			if h != hintNone && !(end-i <= 3 && p.inBase64(i, end)) {
				return h
			}
			continue
		case b == '"' || b == '\'':
			quotes++
		case b == ',' && quotes > 0, b == '}' || b == ';' || b == '|':
			return hintNone
		case b == '\n':
			if lines++; lines > 1 || !p.endsWithColon(i-1) {
				return hintNone
			}
		}
		i--
	}
	return hintNone
}

// isTaxNumber reports whether text[start:end] is the last word of "tax id" or "tax
// identification number".
func (p *pass) isTaxNumber(start, end int) bool {
	if p.at(start-2)|0x20 != 'x' && p.at(start-2)|0x20 != 'r' {
		return false
	}
	switch strings.ToLower(p.text[start:end]) {
	case "id", "ids", "identification", "identifier":
		before := strings.ToLower(p.text[max(0, start-9) : start-1])
		return strings.HasSuffix(before, "tax") || strings.HasSuffix(before, "taxpayer")
	}
	return false
}

// inBase64 reports whether a run of few letters is a part of base64 and not a word.
func (p *pass) inBase64(start, end int) bool {
	before, after := p.at(start-1), p.at(end)
	return before == '+' || before == '/' || class[before]&digit != 0 || after == '+' || after == '/' ||
		class[p.text[start]]&lower != 0 && class[p.text[end-1]]&upper != 0
}

// endsWithColon reports whether the line that ends at i ends in a colon.
func (p *pass) endsWithColon(i int) bool {
	for i > 0 && (p.text[i-1] == ' ' || p.text[i-1] == '\r') {
		i--
	}
	return p.at(i-1) == ':'
}

// hintOfRun returns the hint of a run of letters: of the whole run, or of the last of
// its words if capitals separate them, as in "phoneNumber".
func hintOfRun(run string) hint {
	h := hintOfWord(run)
	for end := len(run); h == hintNone && end > 0; {
		i := end - 1
		for i > 0 && !(class[run[i]]&upper != 0 && class[run[i-1]]&lower != 0) {
			i--
		}
		if i == 0 && end == len(run) {
			break
		}
		h, end = hintOfWord(run[i:end]), i
	}
	return h
}

func hintOfWord(word string) hint {
	if len(word) < 2 || len(word) > maxWord {
		return hintNone
	}
	var buf [maxWord]byte
	for i := range len(word) {
		buf[i] = word[i] | 0x20
	}
	w := buf[:len(word)]
	if h, ok := hints[string(w)]; ok {
		return h
	}
	if len(word) > 7 {
		low := string(w)
		for _, g := range hintSubstrings {
			if strings.Contains(low, g.word) {
				return g.hint
			}
		}
	}
	return hintNone
}

// contactLabel reports whether a word that often follows a phone number in lists of
// contacts is at end.
func (p *pass) contactLabel(end int) bool {
	for i := 0; i < 3 && strings.IndexByte(" -,(", p.at(end)) >= 0 && p.at(end) != 0; i++ {
		end++
	}
	stop := end
	for stop-end < 12 && p.is(stop, letter) {
		stop++
	}
	switch strings.ToLower(p.text[min(end, len(p.text)):stop]) {
	case "office", "fax", "mobile", "cell", "home", "work", "phone", "tel", "direct":
		return true
	}
	return false
}
