package detect

import "strings"

var ipv4Addresses = recognizer{
	Type:    IPAddress,
	Anchors: []anchor{{First: decimals, Most: 3, After: "."}},
	Find:    findIPv4,
	Examples: []string{
		"from «203.0.113.77» to «10.0.0.0/8», http://«10.0.0.1»/x and server=«198.51.100.7»",
		"256.1.1.1, 8.8.8 and 1.2.3.4.5, chrome/1.2.3.4, v10.0.19041.1 and libfoo.so.1.2.3.4",
		"version 1.10.2.3, numpy==1.2.3.4, see section 1.10.2.3, §6.2.5.1 and 7.18.1.5 Greatest-width integer types",
	},
}

// findIPv4 examines four numbers with dots, with or without a prefix length. Version
// numbers look the same; the text before distinguishes them.
func findIPv4(p *passage, start, _ int) {
	end, ok := quad(p, start)
	if !ok || p.at(end) == '.' && p.is(end+1, alnum) || p.is(end, alnum|joint|high) {
		return
	}
	switch before := p.at(start - 1); {
	case before == '.' || before == '-' || before == '_' || p.continues(start, letter):
		return
	case before == '/' && isProduct(p, start-1):
		return
	}
	if isVersion(p, start, end) || isSection(p, start, end) {
		return
	}
	p.add(start, prefixLength(p, end, 32), 0.9)
}

// isVersion reports whether the nearest word before a quad that denotes a version or an
// address denotes a version, or whether an operator of package requirements precedes it. No
// host has an address that begins with zero.
func isVersion(p *passage, start, end int) bool {
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
	for w := range strings.FieldsSeq("v version versions ver release released firmware build oid revision section sections sect sec " +
		"chapter clause clauses subclause paragraph para figure fig table appendix annex") {
		m[w] = true
	}
	for w := range strings.FieldsSeq("ip ips ipv address addresses addr host hosts hostname server client remote peer gateway router " +
		"proxy dns nameserver subnet network node from to via at by connect connected ping") {
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
func isSection(p *passage, start, end int) bool {
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
	return (line == "" || line[len(line)-1] == '\n') && isTitle(p, end)
}

// isTitle reports whether the text of a heading follows: a capitalized word and then the
// end of the line or another word.
func isTitle(p *passage, i int) bool {
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

// isProduct reports whether a word without digits ends at i, as in "chrome/1.2.3.4".
func isProduct(p *passage, i int) bool {
	first := i
	for i-first < 32 && p.is(first-1, letter|joint) {
		first--
	}
	return first < i && !p.is(first-1, digit)
}

// quad returns the end of four numbers up to 255 without leading zeros.
func quad(p *passage, i int) (end int, ok bool) {
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
func prefixLength(p *passage, i, most int) int {
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
