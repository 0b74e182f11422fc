package detect

import (
	"encoding/base64"
	"math"
	"strings"
)

// secret examines a token for a key whose prefix identifies its issuer.
func (p *pass) secret(start, end int) {
	if end-start >= 20 && strings.HasPrefix(p.text[start:], "eyJ") {
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
	if n < is.least || n > is.most || p.is(end, alnum) || is.extra == "base32" && !base32(body) {
		return
	}
	if len(is.prefix) > 12 || !placeholder(body) && random(body, is.prefix) {
		p.add(APIKey, start, end, 0.95)
	}
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
	head, err := base64.RawURLEncoding.DecodeString(p.text[start:end])
	if err != nil || !strings.Contains(string(head), `"alg"`) {
		return
	}
	segments := 1
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
	if segments < 3 || segments == 3 && !p.is(end-1, tokens) && p.text[end-1] != '.' {
		return
	}
	p.add(JWT, start, end, 0.99)
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
	for _, w := range []string{"example", "xxxx", "your", "placeholder", "changeme", "redacted", "dummy", "insert", "****", "....", "<", "${", "{{"} {
		if strings.Contains(low, w) {
			return true
		}
	}
	return false
}
