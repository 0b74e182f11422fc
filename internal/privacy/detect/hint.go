package detect

import "strings"

// hint is what the words around a number say it is.
type hint uint8

const (
	hintNone hint = iota
	hintPhone
	hintSSN
	hintITIN
	hintPassport
	hintLicense
	hintCard
	hintVersion
	hintNumber // some other number: of an order, a page, a build
)

// hints are single words in lower case. A word that is not here says nothing.
var hints = words(map[hint]string{
	hintPhone: "phone phones telephone tel telefon telefono telefone mobile mobil cell cellphone handy fax call called calling dial " +
		"whatsapp sms ring reach contact callback landline hotline voicemail messages answering msisdn office",
	hintSSN:      "ssn social socialsecurity",
	hintITIN:     "itin taxpayer",
	hintPassport: "passport passports",
	hintLicense:  "driver drivers driving dl dln",
	hintCard:     "card cards cc visa mastercard amex credit debit pan maestro",
	hintVersion:  "version versions ver release released firmware build oid",
	hintNumber: "order orders invoice tracking transaction ref reference ticket issue isbn issn ean upc sku port page pages pid uid id ids " +
		"timestamp time date epoch bytes size count total amount price duration offset line lines row rows",
})

// glued are words that say the same inside a longer one, as in "passportnumberis".
var glued = []struct {
	word string
	hint hint
}{{"passport", hintPassport}, {"phone", hintPhone}, {"license", hintLicense}, {"licence", hintLicense}, {"creditcard", hintCard}}

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
	maxHint = 64 // how far before a number a word is looked for
	maxWord = 32
)

// hint returns what the nearest word before start that says anything says, in
// the same field: words in front of a value that has ended say nothing about the
// next one.
func (p *pass) hint(start int) hint {
	if p.hintAt != start+1 { // several detectors ask for the same token
		p.hintAt, p.hintIs = start+1, p.nearest(start)
	}
	return p.hintIs
}

func (p *pass) nearest(start int) hint {
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
			if h := sayAny(p.text[i:end]); h != hintNone {
				return h
			}
			continue
		case b == '"' || b == '\'':
			quotes++
		case b == ',' && quotes > 0, b == '}' || b == ';' || b == '|':
			return hintNone
		case b == '\n':
			if lines++; lines > 1 || !p.labelled(i-1) {
				return hintNone
			}
		}
		i--
	}
	return hintNone
}

// labelled reports whether the line that ends at i ends in a colon.
func (p *pass) labelled(i int) bool {
	for i > 0 && (p.text[i-1] == ' ' || p.text[i-1] == '\r') {
		i--
	}
	return p.at(i-1) == ':'
}

// sayAny returns what a run of letters says: the whole of it, or the last of
// the words that capitals make in it, as in "phoneNumber".
func sayAny(run string) hint {
	h := say(run)
	for end := len(run); h == hintNone && end > 0; {
		i := end - 1
		for i > 0 && !(class[run[i]]&upper != 0 && class[run[i-1]]&lower != 0) {
			i--
		}
		if i == 0 && end == len(run) {
			break
		}
		h, end = say(run[i:end]), i
	}
	return h
}

func say(word string) hint {
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
		for _, g := range glued {
			if strings.Contains(low, g.word) {
				return g.hint
			}
		}
	}
	return hintNone
}

// after reports whether one of the words that follow a phone number in lists of
// contacts stands behind end.
func (p *pass) after(end int) bool {
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
