package detect

import (
	"fmt"
	"slices"
	"strings"
)

// Explanation states why a value was found.
type Explanation struct {
	Finding
	Rule     string   // what the value is
	Evidence []string // what was checked, and the words around the value that count
}

// Explain returns the findings in text with their reasons, and the near misses. It is much
// slower than Scan.
func (s *Scanner) Explain(text string) ([]Explanation, []NearMiss) {
	found := s.Detect("", text)
	var all []Explanation
	for _, f := range found {
		all = append(all, s.explain(text, f))
	}
	return all, s.nearMisses(text, found)
}

// ruleNames has the rule of each built-in type.
var ruleNames = map[Type]string{
	Email: "mail address", Phone: "telephone number", SSN: "US social security number", CreditCard: "card number", IPAddress: "IP address",
	APIKey: "key, token or password",
	IBAN:   "international bank account number", MACAddress: "hardware address", Crypto: "wallet address",
	URLCredentials: "user and password in a URL", JWT: "JSON Web Token",
	PrivateKey: "private key in PEM or PGP armour", USPassport: "US passport number", USDriverLicense: "US driver's license number",
	USITIN: "US taxpayer number",
	Name:   "name of a person", Address: "postal address",
}

func (s *Scanner) explain(text string, f Finding) Explanation {
	e := Explanation{Finding: f, Rule: ruleNames[f.Type]}
	if e.Rule == "" {
		e.Rule = "pattern or key of the configuration"
		return e
	}
	p := &passage{text: text, keys: &s.rules.keys}
	value := text[f.Start:f.End]
	e.Evidence = valueEvidence(p, f, value)
	if h := hintWord(p, f.Start); h != "" && slices.Contains([]Type{Phone, SSN, CreditCard, IBAN, USPassport, USDriverLicense, USITIN},
		f.Type) {
		e.Evidence = append(e.Evidence, fmt.Sprintf("the word %q before it", h))
	}
	if key := keyOf(text, f.Start); key != "" {
		if h, ok := s.rules.keys.find(key); ok && h.typ != "" {
			e.Evidence = append(e.Evidence, fmt.Sprintf("the key %q", key))
		}
	}
	return e
}

// valueEvidence returns what identifies a value apart from the words around it.
func valueEvidence(p *passage, f Finding, value string) []string {
	n := countDigits(value)
	switch f.Type {
	case Email:
		_, host, _ := strings.Cut(value, "@")
		return []string{fmt.Sprintf("a host name with the top-level domain %q", host[strings.LastIndexByte(host, '.')+1:])}
	case Phone:
		return phoneEvidence(value, n)
	case SSN, USITIN:
		return []string{"nine digits", "area, group and serial may have been issued"}
	case CreditCard:
		if f.Score < 0.9 {
			return []string{fmt.Sprintf("%d digits of a network that issues numbers with one more, in the groups of a card or after a word",
				n)}
		}
		return []string{fmt.Sprintf("%d digits", n), "the Luhn checksum is valid"}
	case IPAddress:
		return []string{"its form", "no word before it denotes a version or section"}
	case MACAddress:
		return []string{"six bytes in hexadecimal digits"}
	case IBAN:
		if f.Score < 0.9 {
			return []string{"one character less than the country " + strings.ToUpper(value[:2]) + " requires",
				"a last digit makes the checksum valid"}
		}
		return []string{"the length of the country " + strings.ToUpper(value[:2]), "the checksum (mod 97) is valid"}
	case Crypto:
		return []string{"its form, and the checksum where it has one"}
	case APIKey:
		return keyEvidence(p, f, value)
	case JWT:
		return []string{"the first part is a JSON object with \"alg\""}
	case Name:
		if f.Score == proseScore {
			return nameEvidence(p, f)
		}
	case PrivateKey:
		return []string{"the line -----BEGIN … PRIVATE KEY-----", "a body of at least 40 characters in base64"}
	case URLCredentials:
		return []string{"a password before the \"@\" of a URL"}
	}
	return nil
}

func phoneEvidence(value string, digits int) []string {
	all := []string{fmt.Sprintf("%d digits", digits)}
	if strings.HasPrefix(value, "+") {
		return append(all, "a country code, and a length that is in use there")
	}
	if strings.ContainsAny(value, "-.( ") {
		return append(all, "the groups of a telephone number")
	}
	return all
}

// keyEvidence returns the prefix of the issuer of a key, or the name that it is assigned to.
func keyEvidence(p *passage, f Finding, value string) []string {
	for _, is := range issuers[value[0]&127].all {
		if strings.HasPrefix(value, is.prefix) && f.Score != 0.8 {
			return []string{fmt.Sprintf("the prefix %q of its issuer, and %d to %d characters after it", is.prefix, is.least, is.most)}
		}
	}
	start, quote := valueStart(p, f.Start)
	if name, ok := assignedName(p, start, quote); ok && secretKindOf(name) != notSecret {
		return []string{fmt.Sprintf("the name %q", name), fmt.Sprintf("%d characters with %.1f bits each", len(value), entropy(value)),
			"it is neither a word nor a placeholder"}
	}
	return []string{"the format of an issuer, or its position in a header, a command or a URL"}
}

// keyOf returns the key or label whose value begins at start.
func keyOf(text string, start int) string {
	before := strings.TrimRight(text[max(0, start-2*maxKey):start], `"'\[ `)
	if !strings.HasSuffix(before, ":") && !strings.HasSuffix(before, "=") && !strings.HasSuffix(before, ">") {
		return ""
	}
	before = strings.TrimRight(before[:len(before)-1], `"'\ `)
	first := len(before)
	for first > 0 && class[before[first-1]]&tokens != 0 {
		first--
	}
	return before[first:]
}
