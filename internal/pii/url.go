package pii

import "strings"

const maxUserinfo = 256

// urlCredentials looks behind "://" for "user:password@".
func (p *pass) urlCredentials(start int) {
	at, colon := -1, -1
	for i := start; i < len(p.text) && i-start < maxUserinfo; i++ {
		b := p.text[i]
		if b == '@' {
			at = i
		}
		if b == ':' && colon < 0 {
			colon = i
		}
		if b <= ' ' || b >= 0x7F || strings.IndexByte(`/?#"'<>\`+"`", b) >= 0 {
			break
		}
	}
	if colon < 0 || at < colon+2 || !p.is(at+1, alnum) && p.at(at+1) != '[' {
		return
	}
	secret := p.text[colon+1 : at]
	if strings.HasPrefix(secret, "$") || strings.HasPrefix(secret, "{") || strings.HasPrefix(secret, "%s") || strings.Trim(secret, "*x.") == "" {
		return
	}
	p.add(URLCredentials, start, at, 0.99)
}
