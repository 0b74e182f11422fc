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
	if p.isVersion(start, end) || p.isSection(start, end) {
		return
	}
	p.add(IPAddress, start, p.prefixLength(end, 32), 0.9)
}

// isVersion reports whether the nearest word before a quad that denotes a version or an
// address denotes a version, or whether an operator of package requirements precedes it. No
// host has an address that begins with zero.
func (p *pass) isVersion(start, end int) bool {
	if p.text[start] == '0' && p.text[start:end] != "0.0.0.0" {
		return true
	}
	i := start
	for i > 0 && start-i < 3 && p.text[i-1] == ' ' {
		i--
	}
	if i >= 2 && p.text[i-1] == '=' && strings.IndexByte("=<>~!^", p.text[i-2]) >= 0 {
		return true
	}
	for i > max(0, start-maxHint) && p.text[i-1] != '\n' && p.text[i-1] != ';' && p.text[i-1] != '|' {
		if !p.is(i-1, letter) {
			i--
			continue
		}
		last := i
		for i > 0 && last-i < maxWord && p.is(i-1, letter) {
			i--
		}
		if v, ok := versionWord(p.text[i:last]); ok {
			return v
		}
	}
	return false
}

// quadWords maps the words before a quad to whether it is a version or the number of a section.
var quadWords = func() map[string]bool {
	m := map[string]bool{}
	for w := range strings.FieldsSeq("v version versions ver release released firmware build oid revision section sections sect sec chapter clause clauses subclause paragraph para figure fig table appendix annex") {
		m[w] = true
	}
	for w := range strings.FieldsSeq("ip ips ipv address addresses addr host hosts hostname server client remote peer gateway router proxy dns nameserver subnet network node from to via at by connect connected ping") {
		m[w] = false
	}
	return m
}()

// versionWord returns the meaning of a run of letters: of the whole, or of the last of its
// words if capitals separate them, as in "FileVersion".
func versionWord(run string) (version, ok bool) {
	var buf [maxWord]byte
	last := 0
	for i := range len(run) {
		if buf[i] = run[i] | 0x20; class[run[i]]&upper != 0 {
			last = i
		}
	}
	if version, ok = quadWords[string(buf[:len(run)])]; !ok && last > 0 {
		version, ok = quadWords[string(buf[last:len(run)])]
	}
	return version, ok
}

// isSection reports whether a quad is the number of a section: after '§', in parentheses, or
// before the title of a heading. The parts of such numbers are small.
func (p *pass) isSection(start, end int) bool {
	for i := start; i < end; i++ {
		if p.is(i, digit) && p.is(i+1, digit) && p.is(i+2, digit) {
			return false
		}
	}
	before := strings.TrimRight(p.text[max(0, start-8):start], " ")
	if strings.HasSuffix(before, "§") || strings.HasSuffix(before, "(") && p.at(end) == ')' {
		return true
	}
	line := strings.TrimRight(before, "#\t")
	if p.at(end) != ' ' {
		return false
	}
	if line != "" && line[len(line)-1] == '>' { // the text of an element
		return p.is(end+1, upper|digit) || p.at(end+1) == '<'
	}
	return (line == "" || line[len(line)-1] == '\n') && p.isTitle(end)
}

// isTitle reports whether the text of a heading follows: a capitalized word and then the
// end of the line or another word.
func (p *pass) isTitle(i int) bool {
	for n := 0; n < 4 && p.at(i) == ' '; n++ {
		i++
	}
	if !p.is(i, upper) || !p.is(i+1, lower) {
		return false
	}
	for n := 0; n < maxWord && p.is(i, tokens); n++ {
		i++
	}
	return p.at(i) == '\n' || p.at(i) == 0 || p.at(i) == ' ' && p.is(i+1, letter)
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
	if p.at(start-1) == '.' || p.continues(start, tokens) || p.hasGroupBefore(start) {
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
	if colons < 2 || p.is(end, alnum) || end-start > maxIPv6 || p.isSlice(start, end) {
		return
	}
	group := p.text[start:end]
	addr, err := netip.ParseAddr(group)
	if err != nil || !addr.Is6() || !strings.ContainsAny(group, "0123456789") {
		return
	}
	p.add(IPAddress, start, p.prefixLength(end, 128), 0.95)
}

// isSlice reports whether an index of Python is at start, as in rows[::2].
func (p *pass) isSlice(start, end int) bool {
	return p.at(start-1) == '[' && (p.is(start-2, tokens) || p.at(start-2) == ')' || p.at(start-2) == ']') && end-start <= 5
}

// macColons examines six pairs with colons.
func (p *pass) macColons(start, end int) {
	if end-start != 2 || p.continues(start, tokens) || p.hasGroupBefore(start) {
		return
	}
	p.mac(start, ':')
}

// hasGroupBefore reports whether a ':' that may belong to the same value precedes start. It
// does not after a label, as in "value:00:1A:…": a word with a letter that is no hexadecimal
// digit, or a quoted one.
func (p *pass) hasGroupBefore(start int) bool {
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

// macDashes examines six pairs with dashes at the end of a token.
func (p *pass) macDashes(start, end int) {
	first := end - 17
	if first > start && (p.is(first-1, alnum) || first-start >= 3 && hexadecimal(p.text[first-3:first-1])) {
		return
	}
	p.mac(first, '-')
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
