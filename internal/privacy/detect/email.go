package detect

import (
	"strings"
	"unicode"
	"unicode/utf8"
)

const (
	maxLocal  = 64
	maxDomain = 253
)

// plain lists the characters of a local part besides letters and digits. The standard
// allows others, but those more often delimit an address.
const plain = "._%+-"

var emails = recognizer{
	Type:    Email,
	Anchors: []anchor{{Text: "@"}},
	Find:    findEmail,
	Examples: []string{
		"write to «jane.roe+test@sub.example.co.uk». <«a@b.co»>, «josé@ñandú.es», {\"text\": \"line\\n«jane@example.com»\\n\"}",
		"@user, user@, user@localhost, a..b@c.de, .@x.yz, foo@1.2.3.4, react@18.2.0, logo@2x.png and git@github.com:acme/app.git",
	},
}

// findEmail examines an '@'.
func findEmail(p *passage, at, _ int) {
	start := localStart(p, at)
	end, dots := domainEnd(p, at+1)
	if start == at || dots == 0 || p.text[start:at] == "git" && p.at(end) == ':' { // git@host:path
		return
	}
	p.add(start, end, 0.98)
}

// localStart returns the start of the local part before the '@', or at.
func localStart(p *passage, at int) int {
	i := at
	for i > 0 && at-i <= maxLocal {
		size := letterBefore(p, i)
		if size == 0 && strings.IndexByte(plain, p.text[i-1]) < 0 {
			break
		}
		i -= max(1, size)
	}
	if at-i > maxLocal {
		return at
	}
	for i < at && strings.IndexByte(".-%+", p.text[i]) >= 0 {
		i++
	}
	if p.at(at-1) == '.' || strings.Contains(p.text[i:at], "..") {
		return at
	}
	return min(p.unescape(i), at)
}

// domainEnd returns the end of the host name at i and the number of its dots.
func domainEnd(p *passage, i int) (end, dots int) {
	label, start := i, i
	for i < len(p.text) && i-start < maxDomain {
		if size := letterAt(p, i); size > 0 || p.text[i] == '-' && i > label {
			i += max(1, size)
			continue
		}
		if p.text[i] != '.' || i == label || letterAt(p, i+1) == 0 {
			break
		}
		dots++
		i++
		label = i
	}
	for i > label && p.text[i-1] == '-' {
		i--
	}
	top := p.text[label:i]
	if len(top) < 2 || dots == 0 || mixed(top) && !strings.HasPrefix(top, "xn--") || i-start >= maxDomain || isRetinaName(p.text[start:i]) {
		return i, 0
	}
	return i, dots
}

// isRetinaName reports whether the text after an '@' is part of a file name such as
// "logo@2x.png".
func isRetinaName(host string) bool {
	return len(host) > 3 && class[host[0]]&digit != 0 && host[1] == 'x' && host[2] == '.'
}

// letterAt returns the size of the letter or digit at i, or 0.
func letterAt(p *passage, i int) int {
	if p.is(i, alnum) {
		return 1
	}
	if !p.is(i, high) {
		return 0
	}
	r, size := utf8.DecodeRuneInString(p.text[i:])
	return letterSize(r, size)
}

func letterBefore(p *passage, i int) int {
	if p.is(i-1, alnum) {
		return 1
	}
	if !p.is(i-1, high) {
		return 0
	}
	r, size := utf8.DecodeLastRuneInString(p.text[:i])
	return letterSize(r, size)
}

// unspaced lists scripts without spaces between words: their letters next to an
// address belong to the sentence.
var unspaced = []*unicode.RangeTable{unicode.Han, unicode.Hiragana, unicode.Katakana, unicode.Hangul, unicode.Thai, unicode.Lao,
	unicode.Khmer, unicode.Myanmar}

// letterSize returns size if r is a letter or digit that addresses may contain, or 0.
func letterSize(r rune, size int) int {
	if r == utf8.RuneError || !unicode.In(r, unicode.L, unicode.M, unicode.Nd) || unicode.In(r, unspaced...) {
		return 0
	}
	return size
}
