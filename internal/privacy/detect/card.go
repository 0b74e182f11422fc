package detect

var cards = recognizer{
	Type: CreditCard,
	Anchors: []anchor{
		{First: decimals, Least: 12},
		{First: decimals, Least: 4, Most: 6, After: " "}, // the first of several groups
	},
	Find: findCard,
	Examples: []string{
		"«4111111111111111», «4111 1111 1111 1111», «3782-822463-10005» and card «4222222222222»",
		"4111111111111112, 4111 1111 1111 1112, order 1748503543012 and 41111111111111114111111111111111",
		"card «411111111111111», order 411111111111111, {\"card\": «4111111111111111».0} and 4111111111111111.05",
	},
}

// findCard examines 12 to 19 digits, in one run or in groups as on a card.
func findCard(p *passage, start, _ int) {
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
	if n < 12 || n > 19 || p.is(i, alnum) || hasFraction(p, i) {
		return
	}
	all := string(buf[:n])
	if addTruncatedCard(p, start, i, all, sep) {
		return
	}
	if sep != 0 && (n < 14 || n > 16 && n != 19 || size < 2) || !luhn(all) {
		return
	}
	if (n < 14 || !issued(all)) && p.hint(start) != hintCard {
		return
	}
	p.add(start, i, 0.95)
}

// addTruncatedCard adds a card number whose last digit is missing. It has no checksum, so
// a word or the groups of a card are required.
func addTruncatedCard(p *passage, start, end int, all string, sep byte) bool {
	n := len(all)
	fixed := n == 15 && (all[0] == '4' || all[0] == '5' && all[1] >= '1' && all[1] <= '5') ||
		n == 14 && all[0] == '3' && (all[1] == '4' || all[1] == '7')
	if !fixed || sep == 0 && p.hint(start) != hintCard || sep != 0 && p.hint(start) == hintNumber {
		return false
	}
	if sep != 0 && !inGroups(p.text[start:end], sep, n) {
		return false
	}
	p.add(start, end, 0.65)
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

// hasFraction reports whether a decimal point and digits are at i, except ".0": pandas
// converts integer columns with missing values to floats.
func hasFraction(p *passage, i int) bool {
	if p.at(i) != '.' || !p.is(i+1, digit) {
		return false
	}
	return p.at(i+1) != '0' || p.is(i+2, alnum) || p.at(i+2) == '.' && p.is(i+3, digit)
}

// issued reports whether a network issues cards with these first digits and this
// length.
func issued(all string) bool {
	n := len(all)
	four := decimal(all[:4])
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
