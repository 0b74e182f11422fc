package detect

var socialSecurityNumbers = recognizer{
	Type: SSN,
	Anchors: []anchor{
		{First: "012345678", Has: joint, Least: 11},
		{First: "012345678", Least: 3, Most: 3, After: " ."},
	},
	Find: func(p *passage, start, _ int) {
		if n, end := threeGroups(p, start); wasIssued(n) {
			p.add(start, end, 0.9)
		}
	},
	Examples: []string{
		"SSN «219-09-9998», «123-45-6789» and «123 45 6789», ssn «123.45.6789»",
		"000-12-3456 666-12-3456 123-00-4567 123-45-0000 078-05-1120 and 123.45.6789",
		"tracking 1123-45-67890, 123-45-67890, 1 123 45 6789 and order 123 45 6789",
	},
}

var taxpayerNumbers = recognizer{
	Type: USITIN,
	Anchors: []anchor{
		{First: "9", Has: joint, Least: 10},
		{First: "9", Least: 3, Most: 3, After: " ."},
	},
	Find: func(p *passage, start, _ int) {
		if n, end, ok := oneDash(p, start); ok {
			if isTaxpayer(n) {
				p.add(start, end, 0.65)
			}
		} else if n, end := threeGroups(p, start); isTaxpayer(n) {
			p.add(start, end, 0.9)
		}
	},
	Examples: []string{
		"tax id «911-53-1234», tax identification number «91170-1234», «911-701234» at",
		"911-00-1234, 90250-1234 and order 911-701234",
	},
}

var hintedSocialSecurityNumbers = recognizer{
	Type:    SSN,
	Anchors: hintedNumbers,
	Find: func(p *passage, start, end int) {
		if first := trailingDigits(p, start, end); end-first == 9 && isSocialHint(p.hint(first)) && wasIssued(p.text[first:end]) {
			p.add(first, end, 0.8)
		}
	},
	Examples: []string{
		"social security number «123456789», {\"ssn\": \"«123456789»\"}, ssn «123456789».0 and ssn«123456789»",
		"ref 123456789, ssn 1234567890, ssn 123456789.5 and ssn 911701234",
	},
}

var hintedTaxpayerNumbers = recognizer{
	Type:    USITIN,
	Anchors: hintedNumbers,
	Find: func(p *passage, start, end int) {
		if first := trailingDigits(p, start, end); end-first == 9 && isSocialHint(p.hint(first)) && isTaxpayer(p.text[first:end]) {
			p.add(first, end, 0.8)
		}
	},
	Examples: []string{
		"ITIN «911701234», taxpayer id: «911701234», {\"tax_id\": \"«911701234»\"}",
		"id 911701234, tax id 911001234 and itin 123456789",
	},
}

// hintedNumbers are tokens that are or end in eight or nine digits.
var hintedNumbers = []anchor{
	{First: decimals, Lacks: letter, Least: 8, Most: 9},
	{First: letters + "-_", Has: digit, Least: 9}, // "passportnumberis912803456"
}

// trailingDigits returns the start of the eight or nine digits that are a token or follow its
// letters, or its end.
func trailingDigits(p *passage, start, end int) int {
	first := end
	for first > start && p.is(first-1, digit) {
		first--
	}
	if n := end - first; n < 8 || n > 9 || first > start && !p.is(first-1, letter) || hasFraction(p, end) {
		return end
	}
	return first
}

func isSocialHint(h hint) bool { return h == hintSSN || h == hintITIN }

// threeGroups returns the digits of a number of three, two and four digits, and its end. The
// digits are "" if there is none.
func threeGroups(p *passage, start int) (n string, end int) {
	if !beginsNumber(p, start) {
		return "", 0
	}
	sep := p.at(start + 3)
	if sep != '-' && sep != ' ' && sep != '.' || p.at(start+6) != sep || !p.run(start+4, 2) || !p.run(start+7, 4) {
		return "", 0
	}
	end = start + 11
	if p.is(end, alnum) || p.at(end) == '-' && p.is(end+1, alnum) || p.at(end) == '.' && p.is(end+1, digit) {
		return "", 0
	}
	if sep != '-' {
		if h := p.hint(start); h == hintNumber || sep == '.' && !isSocialHint(h) {
			return "", 0
		}
	}
	if sep == ' ' && (p.at(end) == ' ' && p.is(end+1, digit) || p.at(start-1) == ' ' && p.is(start-2, digit)) {
		return "", 0
	}
	return p.text[start:start+3] + p.text[start+4:start+6] + p.text[start+7:end], end
}

// beginsNumber reports whether three digits at start do not continue another number or word.
func beginsNumber(p *passage, start int) bool {
	return !p.continues(start, tokens) && p.at(start-1) != '.' && p.run(start, 3)
}

// oneDash returns the digits of a number with a single dash, and its end. Nine digits with a dash
// after the fifth are also a ZIP code, so that these need a hint. It returns ok for a number
// without it too, with no digits.
func oneDash(p *passage, start int) (n string, end int, ok bool) {
	if !beginsNumber(p, start) {
		return "", 0, false
	}
	end, dash := start+10, 3
	if p.at(start+dash) != '-' {
		dash = 5
	}
	if p.at(start+dash) != '-' || !p.run(start, dash) || !p.run(start+dash+1, 9-dash) || p.is(end, tokens) || hasFraction(p, end) {
		return "", 0, false
	}
	if h := p.hint(start); isSocialHint(h) || h == hintNone && dash == 3 {
		n = p.text[start:start+dash] + p.text[start+dash+1:end]
	}
	return n, end, true
}

// wasIssued reports whether nine digits may be a social security number.
func wasIssued(n string) bool {
	return hasParts(n) && n[:3] != "666" && n[0] != '9' && n != "078051120" && n != "219099999" // published in advertisements
}

// isTaxpayer reports whether nine digits may be a taxpayer number.
func isTaxpayer(n string) bool {
	if !hasParts(n) || n[0] != '9' {
		return false
	}
	group := n[3:5]
	return group >= "50" && group <= "65" || group >= "70" && group <= "88" || group >= "90" && group <= "92" || group >= "94"
}

// hasParts reports whether no part of nine digits is zero: area, group and serial number.
func hasParts(n string) bool {
	return n != "" && n[:3] != "000" && n[3:5] != "00" && n[5:] != "0000"
}
