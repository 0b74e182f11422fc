package detect

import "strings"

var macAddresses = []recognizer{
	{
		Type:    MACAddress,
		Anchors: []anchor{{Lacks: nonHex | joint, Least: 2, Most: 2, After: ":"}},
		Find:    findMACColons,
		Examples: []string{
			"«00:1A:2B:3C:4D:5E» value:«00:1A:2B:3C:4D:5E» {\"mac\":«aa:bb:cc:dd:ee:ff»}",
			"FF:FF:FF:FF:FF:FF 00:00:00:00:00:00 G0:1A:2B:3C:4D:5E 00:1A:2B:3C:4D:5E:6F 2026-11-01T10:20:30:40:50:60:70",
		},
	}, {
		Type:    MACAddress,
		Anchors: []anchor{{Has: joint, Least: 17}},
		Find:    findMACDashes,
		Examples: []string{
			"«00-1a-2b-3c-4d-5e» «AA-BB-CC-DD-EE-FF» eth0_«00-1A-2B-3C-4D-5E»",
			"fe-ed-00-1A-2B-3C-4D-5E AA-BB-CC-DD-EE-FG",
		},
	}, {
		Type:    MACAddress,
		Anchors: []anchor{{Lacks: nonHex | joint, Least: 4, Most: 4, After: "."}},
		Find:    findMACDots,
		Examples: []string{
			"«aabb.ccdd.eeff»",
			"1234.5678.9012, aabb.ccdd.eeff.1 and aabb.ccdd.eefg",
		},
	},
}

// findMACColons examines six pairs with colons.
func findMACColons(p *passage, start, _ int) {
	if p.continues(start, tokens) || hasGroupBefore(p, start) {
		return
	}
	addMAC(p, start, ':')
}

// hasGroupBefore reports whether a ':' that may belong to the same value precedes start. It
// does not after a label, as in "value:00:1A:…": a word with a letter that is no hexadecimal
// digit, or a quoted one.
func hasGroupBefore(p *passage, start int) bool {
	if p.at(start-1) != ':' {
		return false
	}
	if p.is(start-2, digit) && p.is(start-3, digit) { // also a time, as in "T10:20:30"
		return true
	}
	first := start - 1
	for start-first <= maxWord && p.is(first-1, tokens) {
		if first--; p.is(first, nonHex) {
			return false
		}
	}
	return first < start-1 || p.at(first-1) == ':'
}

// findMACDashes examines six pairs with dashes at the end of a token.
func findMACDashes(p *passage, start, end int) {
	if p.text[end-3] != '-' || p.text[end-15] != '-' {
		return
	}
	first := end - 17
	if first > start && (p.is(first-1, alnum) || first-start >= 3 && hexadecimal(p.text[first-3:first-1])) {
		return
	}
	addMAC(p, first, '-')
}

// findMACDots examines three groups of four with dots.
func findMACDots(p *passage, start, _ int) {
	if p.at(start-1) == '.' || len(p.text) < start+14 {
		return
	}
	s := p.text[start : start+14]
	if s[9] == '.' && hexadecimal(s[5:9]) && hexadecimal(s[10:]) && !isDigits(s[:4]+s[5:9]+s[10:]) &&
		!p.is(start+14, tokens) && !(p.at(start+14) == '.' && p.is(start+15, alnum)) {
		p.add(start, start+14, 0.9)
	}
}

// addMAC examines six pairs separated by sep.
func addMAC(p *passage, start int, sep byte) {
	if len(p.text) < start+17 {
		return
	}
	s := p.text[start : start+17]
	for i := range 17 {
		if i%3 == 2 && s[i] != sep || i%3 != 2 && !hexadecimal(s[i:i+1]) {
			return
		}
	}
	if p.is(start+17, alnum) || p.at(start+17) == sep && p.is(start+18, alnum) {
		return
	}
	if strings.Trim(s, "0:-") == "" || strings.Trim(s, "fF:-") == "" { // the null and the broadcast address
		return
	}
	p.add(start, start+17, 0.97)
}
