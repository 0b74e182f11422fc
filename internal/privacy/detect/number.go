package detect

import "strings"

// social examines three, two and four digits: a social security number or, by its
// first digit and its group, a taxpayer number.
func (p *pass) social(start int) {
	if p.continues(start, tokens) || p.at(start-1) == '.' || !p.run(start, 3) {
		return
	}
	sep := p.at(start + 3)
	if p.oneDash(start) {
		return
	}
	if sep != '-' && sep != ' ' && sep != '.' || p.at(start+6) != sep || !p.run(start+4, 2) || !p.run(start+7, 4) {
		return
	}
	end := start + 11
	if p.is(end, alnum) || p.at(end) == '-' && p.is(end+1, alnum) || p.at(end) == '.' && p.is(end+1, digit) {
		return
	}
	h := hintNone
	if sep != '-' {
		if h = p.hint(start); h == hintNumber || h != hintSSN && h != hintITIN && sep == '.' {
			return
		}
	}
	if sep == ' ' && (p.at(end) == ' ' && p.is(end+1, digit) || p.at(start-1) == ' ' && p.is(start-2, digit)) {
		return
	}
	p.addSocial(start, end, p.text[start:start+3]+p.text[start+4:start+6]+p.text[start+7:end], 0.9)
}

// oneDash adds a taxpayer number with a single dash. Nine digits with a dash after the
// fifth are also a ZIP code, so that these need a hint.
func (p *pass) oneDash(start int) bool {
	if p.text[start] != '9' {
		return false
	}
	end, dash := start+10, 3
	if p.at(start+dash) != '-' {
		dash = 5
	}
	if p.at(start+dash) != '-' || !p.run(start, dash) || !p.run(start+dash+1, 9-dash) || p.is(end, tokens) || p.fraction(end) {
		return false
	}
	h := p.hint(start)
	if h == hintITIN || h == hintSSN || h == hintNone && dash == 3 {
		n := p.text[start:start+dash] + p.text[start+dash+1:end]
		p.addSocial(start, end, n, 0.65)
	}
	return true
}

// addSocial adds nine digits if such a number may have been issued.
func (p *pass) addSocial(start, end int, n string, score float64) {
	area, group, serial := n[:3], n[3:5], n[5:]
	switch {
	case area == "000" || area == "666" || group == "00" || serial == "0000":
	case area[0] == '9':
		if group >= "50" && group <= "65" || group >= "70" && group <= "88" || group >= "90" && group <= "92" || group >= "94" {
			p.add(USITIN, start, end, score)
		}
	case n == "078051120" || n == "219099999": // published in advertisements
	default:
		p.add(SSN, start, end, score)
	}
}

// hintedNumber examines a run of digits that only a hint can identify.
func (p *pass) hintedNumber(start, end int) {
	if end-start < 8 || end-start > 9 || p.is(end, alnum) || p.fraction(end) {
		return
	}
	switch n := p.text[start:end]; p.hint(start) {
	case hintSSN, hintITIN:
		if len(n) == 9 && isDigits(n) {
			p.addSocial(start, end, n, 0.8)
		}
	case hintPassport:
		if isDigits(n) {
			p.passport(start, end)
		}
	}
}

// passport adds nine digits, or eight after a letter.
func (p *pass) passport(start, end int) {
	if end-start == 8 && start > 0 && p.is(start-1, letter) && !p.is(start-2, tokens) {
		start--
	}
	if end-start == 9 {
		p.add(USPassport, start, end, 0.75)
	}
}

// license examines a token that a hint may identify as a driver's license.
func (p *pass) license(start, end int) {
	for i := 0; i < 16 && (p.at(end) == '*' || p.is(end, alnum)); i++ { // partly masked
		end++
	}
	if b, c := p.at(start-1), p.at(end); b == '+' || b == '/' || c == '+' || c == '/' || c == '=' { // part of base64
		return
	}
	if n := end - start; n >= 5 && n <= 19 && p.hint(start) == hintLicense && !strings.HasPrefix(p.text[start:], "0x") && p.namesLicense(start) {
		p.add(USDriverLicense, start, end, 0.7)
	}
}

// namesLicense reports whether the words before start denote a license and not only a driver
// or a part of an identifier.
func (p *pass) namesLicense(start int) bool {
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

func isDigits(s string) bool {
	for i := range len(s) {
		if class[s[i]]&digit == 0 {
			return false
		}
	}
	return true
}

// card examines 12 to 19 digits, in one run or in groups as on a card.
func (p *pass) card(start int) {
	if p.continues(start, tokens) || p.at(start-1) == '.' && p.is(start-2, digit) || p.at(start-1) == '+' {
		return
	}
	var buf [20]byte
	n, i, sep, size := 0, start, byte(0), 0
	for n < len(buf) {
		if p.is(i, digit) {
			buf[n] = p.text[i]
			n, i, size = n+1, i+1, size+1
			continue
		}
		b := p.at(i)
		if (b != ' ' && b != '-') || sep != 0 && b != sep || size < 4 || size > 6 || !p.is(i+1, digit) {
			break
		}
		if sep == ' ' && n >= 15 { // the card number is complete: another number follows
			break
		}
		sep, size, i = b, 0, i+1
	}
	if n < 12 || n > 19 || p.is(i, alnum) || p.fraction(i) {
		return
	}
	all := string(buf[:n])
	if p.truncatedCard(start, i, all, sep) {
		return
	}
	if sep != 0 && (n < 14 || n > 16 && n != 19 || size < 2) || !luhn(all) {
		return
	}
	if (n < 14 || !issued(all)) && p.hint(start) != hintCard {
		return
	}
	p.add(CreditCard, start, i, 0.95)
}

// truncatedCard adds a card number whose last digit is missing. It has no checksum, so
// a word or the groups of a card are required.
func (p *pass) truncatedCard(start, end int, all string, sep byte) bool {
	n := len(all)
	fixed := n == 15 && (all[0] == '4' || all[0] == '5' && all[1] >= '1' && all[1] <= '5') || n == 14 && all[0] == '3' && (all[1] == '4' || all[1] == '7')
	if !fixed || sep == 0 && p.hint(start) != hintCard || sep != 0 && p.hint(start) == hintNumber {
		return false
	}
	if sep != 0 && !inGroups(p.text[start:end], sep, n) {
		return false
	}
	p.add(CreditCard, start, end, 0.65)
	return true
}

// inGroups reports whether s has the groups of a card number without its last digit: 4-4-4-3,
// or 4-6-4 if it has 14 digits.
func inGroups(s string, sep byte, digits int) bool {
	if digits == 14 {
		return len(s) == 16 && s[4] == sep && s[11] == sep
	}
	return len(s) == 18 && s[4] == sep && s[9] == sep && s[14] == sep
}

// fraction reports whether a decimal point and digits are at i, except ".0": pandas
// converts integer columns with missing values to floats.
func (p *pass) fraction(i int) bool {
	if p.at(i) != '.' || !p.is(i+1, digit) {
		return false
	}
	return p.at(i+1) != '0' || p.is(i+2, alnum) || p.at(i+2) == '.' && p.is(i+3, digit)
}

// luhn verifies the check digit of ISO/IEC 7812.
func luhn(all string) bool {
	sum := 0
	for i := range len(all) {
		d := int(all[len(all)-1-i] - '0')
		if i%2 == 1 {
			if d *= 2; d > 9 {
				d -= 9
			}
		}
		sum += d
	}
	return sum%10 == 0
}

// issued reports whether a network issues cards with these first digits and this
// length.
func issued(all string) bool {
	n := len(all)
	four := number(all[:4])
	two := four / 100
	switch {
	case two == 34 || two == 37: // American Express
		return n == 15
	case two == 36 || two == 38 || two == 39 || four >= 3000 && four <= 3059 || four == 3095: // Diners Club
		return n >= 14
	case four >= 3528 && four <= 3589: // JCB
		return n >= 16
	case four == 2131 || four == 1800: // JCB, formerly
		return n == 15
	case all[0] == '4': // Visa
		return n == 13 || n == 16 || n == 19
	case two >= 51 && two <= 55 || four >= 2221 && four <= 2720: // Mastercard
		return n == 16
	case four >= 2200 && four <= 2204: // Mir
		return n >= 16
	case two == 50 || two >= 56 && two <= 69: // Maestro, Discover, UnionPay, RuPay
		return n >= 12
	case two == 81: // UnionPay
		return n >= 16
	}
	return false
}
