package detect

import "strings"

var issuedKeys = recognizer{
	Type: APIKey,
	Anchors: []anchor{
		{Letter: true, Has: digit},
		{Letter: true, Least: longToken},
		{Letter: true, After: ":~.="},
	},
	Find: findIssued,
	Examples: []string{
		"«ghp_rux89mufsmjgzakyqih5fk1qcwjojg2ddtek» and «glpat-xxl90n7ei2yil20mnulo», key = \"«AKIA2E5A6F3B244C7726»\"",
		"AKIA0E8A9F1B244C9986 and AKIAIOSFODNN7EXAMPLE",
		"«ghp_rux89mufsmjgzakyqih5fk1qcwjojg2ddte», key = \"«AKIA2E5A6F3B244C772»\", AKIA2E5A6F3B244C77 and " +
			"ghp_rux89mufsmjgzakyqih5fk1qcwjojg2",
	},
}

// findIssued examines a token for a key whose prefix identifies its issuer.
func findIssued(p *passage, start, _ int) {
	of := &issuers[p.text[start]&127]
	if second := p.at(start+1) & 127; of.seconds[second/64]>>(second%64)&1 == 0 {
		return
	}
	for _, is := range of.all {
		if strings.HasPrefix(p.text[start:], is.prefix) {
			addIssued(p, start, is)
			return
		}
	}
}

// addIssued adds the key at start if the text after the prefix has the issuer's format.
func addIssued(p *passage, start int, is issuer) {
	first := start + len(is.prefix)
	end := first
	for end < len(p.text) && end-first <= is.most && (p.is(end, alnum) || strings.IndexByte(is.extra, p.text[end]) >= 0) {
		end++
	}
	for end > first && p.text[end-1] == '.' {
		end--
	}
	n := end - first
	body := p.text[first:end]
	truncated := n == is.least-1 && is.hasExactLength()
	if n < is.least && !truncated || n > is.most || p.is(end, alnum) || is.extra == "base32" && !base32(body) {
		return
	}
	if len(is.prefix) > 12 || !placeholder(body) && random(body, is.prefix) {
		score := 0.95
		if truncated {
			score = 0.8
		}
		p.add(start, end, score)
	}
}

// hasExactLength reports whether keys of this issuer have one length and a prefix that is
// evidence without it: a key without its last character is then still a key.
func (is issuer) hasExactLength() bool {
	return is.least == is.most && (len(is.prefix) > 4 || len(is.prefix) == 4 && (is.extra == "base32" || strings.ContainsAny(is.prefix,
		"_-.")))
}

func base32(s string) bool {
	return !strings.ContainsFunc(s, func(r rune) bool { return !(r >= 'A' && r <= 'Z' || r >= '2' && r <= '7') })
}
