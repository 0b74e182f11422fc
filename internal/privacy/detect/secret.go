package detect

import (
	"encoding/base64"
	"math"
	"strings"
)

// secret looks at a token for a key whose beginning says whose it is.
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

// issued adds the key at start if what follows the prefix is as its issuer writes it.
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

// random reports whether s behind a prefix is no word: the shorter the prefix,
// the more words begin with it.
func random(s, prefix string) bool {
	bits := entropy(s)
	return mixed(s) && bits >= 2 || bits > 4.25 || len(prefix) > 5 && bits >= 3
}

// shaped looks at a token for the few keys that have no beginning of their own
// but a form that nothing else has.
func (p *pass) shaped(start, end int) {
	s := p.text[start:end]
	switch n := end - start; {
	case p.at(end) == ':' && n >= 5 && n <= 16 && isDigits(s) && p.at(end+1) == 'A': // Telegram
		p.shape(start, end, ':', 35, 35)
	case p.at(end) == '.' && n >= 24 && n <= 28 && strings.IndexByte("MNO", s[0]) >= 0 && !isDigits(s): // Discord
		if mid := p.tokenEnd(end + 1); mid-end == 7 {
			p.shape(start, mid, '.', 27, 38)
		}
	case n == 40 && s[6] == '_' && strings.HasSuffix(s, "_mmk"): // MaxMind
		p.add(APIKey, start, end, 0.95)
	case p.at(end) == '.' && n == 17 && strings.HasPrefix(s, "pat"): // Airtable
		p.shape(start, end, '.', 64, 64)
	case p.at(end) == '.' && n == 14 && strings.HasPrefix(p.text[end:], ".atlasv1."): // Terraform
		p.shape(start, end+8, '.', 60, 70)
	case n >= 36 && n <= 37 && s[32:35] == "-us" && isDigits(s[35:]) && hexadecimal(s[:32]) && strings.ToLower(s) == s: // Mailchimp
		p.add(APIKey, start, end, 0.9)
	}
}

// shape adds what begins at start and ends with sep at end and a token of from
// least to most bytes.
func (p *pass) shape(start, end int, sep byte, least, most int) {
	stop := p.tokenEnd(end + 1)
	if n := stop - end - 1; p.at(end) == sep && n >= least && n <= most && entropy(p.text[end+1:stop]) > 3 {
		p.add(APIKey, start, stop, 0.95)
	}
}

// tokenEnd returns the end of the token at i, if it is not too long for a key.
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

// mixed reports whether s has a digit: words have none.
func mixed(s string) bool {
	return strings.ContainsAny(s, "0123456789")
}

// azure looks at the '~' that secrets of Microsoft Entra have in the sixth place.
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

// jwt looks at "eyJ", which is base64url for `{"`.
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

// entropy is Shannon's, in bits for each character.
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

// placeholder reports whether s stands for a secret rather than being one.
func placeholder(s string) bool {
	low := strings.ToLower(s)
	for _, w := range []string{"example", "xxxx", "your", "placeholder", "changeme", "redacted", "dummy", "insert", "****", "....", "<", "${", "{{"} {
		if strings.Contains(low, w) {
			return true
		}
	}
	return false
}
