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
	hintNumber: "order orders invoice tracking transaction ref reference ticket issue isbn issn ean upc sku port page pages pid uid " +
		"id ids " +
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

const maxWord = 32 // bytes

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
