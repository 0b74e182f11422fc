package detect

import (
	"encoding/base64"
	"math"
	"slices"
	"strings"
)

// secret examines a token for a key whose prefix identifies its issuer.
func (p *pass) secret(start, end int) {
	if end-start >= 15 && strings.HasPrefix(p.text[start:], "eyJ") {
		p.jwt(start, end)
	}
	of := &issuers[p.text[start]&127]
	if second := p.at(start+1) & 127; of.seconds[second/64]>>(second%64)&1 == 0 {
		return
	}
	for _, is := range of.all {
		if strings.HasPrefix(p.text[start:], is.prefix) {
			p.issued(start, is)
			return
		}
	}
}

// issued adds the key at start if the text after the prefix has the issuer's format.
func (p *pass) issued(start int, is issuer) {
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
		p.add(APIKey, start, end, score)
	}
}

// hasExactLength reports whether keys of this issuer have one length and a prefix that is
// evidence without it: a key without its last character is then still a key.
func (is issuer) hasExactLength() bool {
	return is.least == is.most && (len(is.prefix) > 4 || len(is.prefix) == 4 && (is.extra == "base32" || strings.ContainsAny(is.prefix, "_-.")))
}

// random reports whether s after a prefix is unlikely to be a word. A shorter prefix,
// with which more words begin, needs more entropy.
func random(s, prefix string) bool {
	bits := entropy(s)
	return mixed(s) && bits >= 2 || bits > 4.25 || len(prefix) > 5 && bits >= 3
}

// patternKey examines a token for keys without a prefix but with a unique format.
func (p *pass) patternKey(start, end int) {
	s := p.text[start:end]
	switch n := end - start; {
	case p.at(end) == ':' && n >= 5 && n <= 16 && isDigits(s) && p.at(end+1) == 'A': // Telegram
		p.addPattern(start, end, ':', 35, 35)
	case p.at(end) == '.' && n >= 24 && n <= 28 && strings.IndexByte("MNO", s[0]) >= 0 && !isDigits(s): // Discord
		if mid := p.tokenEnd(end + 1); mid-end == 7 {
			p.addPattern(start, mid, '.', 27, 38)
		}
	case n == 40 && s[6] == '_' && strings.HasSuffix(s, "_mmk"): // MaxMind
		p.add(APIKey, start, end, 0.95)
	case p.at(end) == '.' && n == 17 && strings.HasPrefix(s, "pat"): // Airtable
		p.addPattern(start, end, '.', 64, 64)
	case p.at(end) == '.' && n == 14 && strings.HasPrefix(p.text[end:], ".atlasv1."): // Terraform
		p.addPattern(start, end+8, '.', 60, 70)
	case n >= 36 && n <= 37 && s[32:35] == "-us" && isDigits(s[35:]) && hexadecimal(s[:32]) && strings.ToLower(s) == s: // Mailchimp
		p.add(APIKey, start, end, 0.9)
	}
}

// addPattern adds a key that begins at start and has sep at end, followed by a token
// of least to most bytes.
func (p *pass) addPattern(start, end int, sep byte, least, most int) {
	stop := p.tokenEnd(end + 1)
	if n := stop - end - 1; p.at(end) == sep && n >= least && n <= most && entropy(p.text[end+1:stop]) > 3 {
		p.add(APIKey, start, stop, 0.95)
	}
}

// tokenEnd returns the end of the token at i, at most maxSecret bytes after i.
func (p *pass) tokenEnd(i int) int {
	end := i
	for end-i < maxSecret && p.is(end, tokens) {
		end++
	}
	return end
}

func base32(s string) bool {
	return !strings.ContainsFunc(s, func(r rune) bool { return !(r >= 'A' && r <= 'Z' || r >= '2' && r <= '7') })
}

// mixed reports whether s has a digit, which words do not have.
func mixed(s string) bool {
	return strings.ContainsAny(s, "0123456789")
}

// azure examines the '~' that secrets of Microsoft Entra have as sixth character.
func (p *pass) azure(at int) {
	start := at - 5
	if start < 0 || p.at(at-1) != 'Q' || !p.is(at-2, digit) || p.is(start-1, tokens) {
		return
	}
	end := at + 1
	for end-at < 40 && (p.is(end, tokens) || p.at(end) == '.' || p.at(end) == '~') {
		end++
	}
	if n := end - at - 1; n >= 31 && n <= 34 && entropy(p.text[start:end]) > 3 {
		p.add(APIKey, start, end, 0.95)
	}
}

const maxJWT = 12 << 10

// jwt examines "eyJ", which is base64url for `{"`.
func (p *pass) jwt(start, end int) {
	if !strings.Contains(decoded(p.text[start:end]), `"alg"`) {
		return
	}
	segments, head := 1, end
	for p.at(end) == '.' && segments < 5 && end-start < maxJWT {
		next := end + 1
		for next < len(p.text) && next-start < maxJWT && p.is(next, tokens) {
			next++
		}
		if segments++; segments > 3 && next == end+1 && p.at(next) != '.' {
			break
		}
		end = next
	}
	switch {
	case segments > 3 || segments == 3 && (p.is(end-1, tokens) || p.text[end-1] == '.'):
		p.add(JWT, start, end, 0.99)
	case segments == 2 && isClaims(p.text[head+1:end]): // without its signature
		p.add(JWT, start, end, 0.9)
	}
}

// isClaims reports whether the second part of a token begins with a JSON object. The part
// may be truncated.
func isClaims(part string) bool {
	text := decoded(part[:len(part)/4*4])
	return len(text) > 8 && strings.HasPrefix(text, `{"`) && strings.Contains(text, `":`)
}

// decoded decodes base64url. It returns "" if s is not base64url.
func decoded(s string) string {
	b, err := base64.RawURLEncoding.DecodeString(s)
	if err != nil {
		return ""
	}
	return string(b)
}

// entropy returns the Shannon entropy in bits per character.
func entropy(s string) (bits float64) {
	var count [256]int
	for i := range len(s) {
		count[s[i]]++
	}
	for _, n := range count {
		if n > 0 {
			f := float64(n) / float64(len(s))
			bits -= f * math.Log2(f)
		}
	}
	return bits
}

// placeholder reports whether s is a placeholder for a secret.
func placeholder(s string) bool {
	low := strings.ToLower(s)
	return slices.ContainsFunc(placeholders, func(w string) bool { return strings.Contains(low, w) }) || sequence(low)
}

var placeholders = []string{"example", "xxxx", "your", "placeholder", "changeme", "change_me", "change-me", "replace", "redacted", "dummy", "insert", "sample",
	"notareal", "not-a-real", "not_a_real", "****", "....", "<", "${", "{{"}

// sequence reports whether s has ten characters in a row of which each follows the one
// before, as in "abcdefghijkl".
func sequence(s string) bool {
	steps := 0
	for i := 1; i < len(s); i++ {
		if s[i] != s[i-1]+1 {
			steps = 0
		} else if steps++; steps == 9 {
			return true
		}
	}
	return false
}
