package detect

import "strings"

var passports = recognizer{
	Type:    USPassport,
	Anchors: hintedNumbers,
	Find:    findPassport,
	Examples: []string{
		"passport number «912803456», passport: «A12345678», passportnumberis«912803456»",
		"912803456 and the passport is lost; passport 91280345, passport AB12345678",
	},
}

// findPassport adds nine digits, or eight after a letter.
func findPassport(p *passage, start, end int) {
	first := trailingDigits(p, start, end)
	if first == end || p.hint(first) != hintPassport {
		return
	}
	if end-first == 8 && first > 0 && p.is(first-1, letter) && !p.is(first-2, tokens) {
		first--
	}
	if end-first == 9 {
		p.add(first, end, 0.75)
	}
}

var licenses = recognizer{
	Type: USDriverLicense,
	Anchors: []anchor{
		{Has: digit, Least: 5},
		{Has: digit, After: "*"}, // partly masked
	},
	Find: findLicense,
	Examples: []string{
		"driver's license «D1234567», my DrIvEr LiCeNsE is: «7774567901234», dl «A12*4567»",
		"license key MIT-2024 and Zm9v/dl+A1B2C3D4=",
		"./fuzz-driver -seed 12345",
	},
}

// findLicense examines a token that a hint may identify as a driver's license.
func findLicense(p *passage, start, end int) {
	for i := 0; i < 16 && (p.at(end) == '*' || p.is(end, alnum)); i++ { // partly masked
		end++
	}
	if b, c := p.at(start-1), p.at(end); b == '+' || b == '/' || c == '+' || c == '/' || c == '=' { // part of base64
		return
	}
	if n := end - start; n >= 5 && n <= 19 && p.hint(start) == hintLicense && !strings.HasPrefix(p.text[start:], "0x") && namesLicense(p,
		start) {
		p.add(start, end, 0.7)
	}
}

// namesLicense reports whether the words before start denote a license and not only a driver
// or a part of an identifier.
func namesLicense(p *passage, start int) bool {
	before := strings.ToLower(p.text[max(0, start-maxHint):start])
	for _, w := range []string{"licen", "permit", "lic ", "lic#", "lic.", "identification", "dln"} {
		if strings.Contains(before, w) {
			return true
		}
	}
	for rest := before; ; {
		i := strings.LastIndex(rest, "dl")
		if i < 0 {
			return false
		}
		if i == 0 || class[before[i-1]]&tokens == 0 {
			return true
		}
		rest = rest[:i]
	}
}
