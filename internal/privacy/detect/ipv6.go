package detect

import (
	"net/netip"
	"strings"
)

var ipv6Addresses = recognizer{
	Type: IPAddress,
	Anchors: []anchor{
		{Lacks: nonHex | joint, Most: 4, After: ":"},
		{Text: "::"},
	},
	Find: findIPv6,
	Examples: []string{
		"«2001:db8::1», «fe80::1/64», «::1» and \"«::ffff:192.0.2.1»\", value:«2001:db8::1», http://[«::2»]:80/",
		"12:30:45 std::vector a::b 1:2:3:4 12345:db8::1 and rows[::2]",
	},
}

const maxIPv6 = 45

// findIPv6 examines hexadecimal groups with colons.
func findIPv6(p *passage, start, _ int) {
	if b := p.at(start - 1); p.text[start] == ':' && (b == ':' || class[b]&alnum != 0) {
		return
	}
	if p.at(start-1) == '.' || p.continues(start, tokens) || hasGroupBefore(p, start) {
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
	if colons < 2 || p.is(end, alnum) || end-start > maxIPv6 || isSlice(p, start, end) {
		return
	}
	group := p.text[start:end]
	addr, err := netip.ParseAddr(group)
	if err != nil || !addr.Is6() || !strings.ContainsAny(group, "0123456789") {
		return
	}
	p.add(start, prefixLength(p, end, 128), 0.95)
}

// isSlice reports whether an index of Python is at start, as in rows[::2].
func isSlice(p *passage, start, end int) bool {
	return p.at(start-1) == '[' && (p.is(start-2, tokens) || p.at(start-2) == ')' || p.at(start-2) == ']') && end-start <= 5
}
