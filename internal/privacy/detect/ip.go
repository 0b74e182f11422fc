package detect

import (
	"net/netip"
	"strings"
)

// ipv4 examines four numbers with dots, with or without a prefix length. Version
// numbers look the same; the text before distinguishes them.
func (p *pass) ipv4(start int) {
	end, ok := p.quad(start)
	if !ok || p.at(end) == '.' && p.is(end+1, alnum) || p.is(end, alnum|joint|high) {
		return
	}
	switch before := p.at(start - 1); {
	case before == '.' || before == '-' || before == '_' || p.continues(start, letter):
		return
	case before == '/' && p.product(start-1):
		return
	}
	if p.hint(start) == hintVersion {
		return
	}
	p.add(IPAddress, start, p.prefixLength(end, 32), 0.9)
}

// product reports whether a word without digits ends at i, as in "chrome/1.2.3.4".
func (p *pass) product(i int) bool {
	first := i
	for i-first < 32 && p.is(first-1, letter|joint) {
		first--
	}
	return first < i && !p.is(first-1, digit)
}

// quad returns the end of four numbers up to 255 without leading zeros.
func (p *pass) quad(i int) (end int, ok bool) {
	for n := range 4 {
		if n > 0 {
			if p.at(i) != '.' {
				return i, false
			}
			i++
		}
		first, value := i, 0
		for p.is(i, digit) && i-first < 3 {
			value = 10*value + int(p.text[i]-'0')
			i++
		}
		if i == first || value > 255 || p.text[first] == '0' && i-first > 1 {
			return i, false
		}
	}
	return i, true
}

// prefixLength returns the end of "/24" at i, or i.
func (p *pass) prefixLength(i, most int) int {
	if p.at(i) != '/' || !p.is(i+1, digit) {
		return i
	}
	value, end := 0, i+1
	for p.is(end, digit) && end-i <= 3 {
		value = 10*value + int(p.text[end]-'0')
		end++
	}
	if value > most || p.is(end, tokens) {
		return i
	}
	return end
}

const maxIPv6 = 45

// ipv6 examines hexadecimal groups with colons.
func (p *pass) ipv6(start int) {
	if before := p.at(start - 1); before == ':' || before == '.' || p.continues(start, tokens) {
		return
	}
	end, colons := start, 0
	for end < len(p.text) && end-start <= maxIPv6 && (p.is(end, alnum) && !p.is(end, nonHex) || p.text[end] == ':' || p.text[end] == '.') {
		if p.text[end] == ':' {
			colons++
		}
		end++
	}
	for end > start && (p.text[end-1] == '.' || p.text[end-1] == ':' && (end < start+2 || p.text[end-2] != ':')) {
		end--
	}
	if colons < 2 || p.is(end, alnum) || end-start > maxIPv6 {
		return
	}
	group := p.text[start:end]
	addr, err := netip.ParseAddr(group)
	if err != nil || !addr.Is6() || !strings.ContainsAny(group, "0123456789") {
		return
	}
	p.add(IPAddress, start, p.prefixLength(end, 128), 0.95)
}

// macColons examines six pairs with colons.
func (p *pass) macColons(start, end int) {
	if end-start != 2 || p.at(start-1) == ':' || p.continues(start, tokens) {
		return
	}
	p.mac(start, ':')
}

// macDots examines three groups of four with dots.
func (p *pass) macDots(start, end int) {
	if end-start != 4 || p.at(start-1) == '.' || len(p.text) < start+14 {
		return
	}
	s := p.text[start : start+14]
	if s[9] == '.' && hexadecimal(s[5:9]) && hexadecimal(s[10:]) && !isDigits(s[:4]+s[5:9]+s[10:]) &&
		!p.is(start+14, tokens) && !(p.at(start+14) == '.' && p.is(start+15, alnum)) {
		p.add(MACAddress, start, start+14, 0.9)
	}
}

// mac examines six pairs separated by sep.
func (p *pass) mac(start int, sep byte) {
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
	p.add(MACAddress, start, start+17, 0.97)
}

func hexadecimal(s string) bool {
	for i := range len(s) {
		if class[s[i]]&alnum == 0 || class[s[i]]&nonHex != 0 {
			return false
		}
	}
	return true
}
