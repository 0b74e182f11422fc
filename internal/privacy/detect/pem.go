package detect

import "strings"

const maxPEM = 16 << 10

// privateKey examines dashes that may begin a private key in PEM or PGP armour. A truncated
// key is found up to its end.
func (p *pass) privateKey(start, end int) {
	rest := p.text[start:min(len(p.text), start+maxPEM)]
	if !strings.HasPrefix(rest, "-----BEGIN ") {
		return
	}
	if next := strings.Index(rest[10:], "-----BEGIN "); next >= 0 {
		rest = rest[:10+next]
	}
	line := rest[:min(len(rest), 80)]
	title := strings.Index(line[10:], "-----")
	if title < 0 || !strings.Contains(line[10:10+title], "PRIVATE KEY") {
		return
	}
	body := 10 + title + 5
	if i := strings.Index(rest[body:], "-----END"); i >= 0 {
		tail := rest[body+i+8:]
		if j := strings.Index(tail[:min(len(tail), 60)], "-----"); j >= 0 {
			p.add(PrivateKey, start, start+body+i+8+j+5, 1)
			return
		}
	}
	i := body
	for i < len(rest) && (class[rest[i]]&alnum != 0 || strings.IndexByte("+/=\r\n\t \\:,-", rest[i]) >= 0) {
		i++
	}
	if i-body >= 40 {
		p.add(PrivateKey, start, start+i, 0.95)
	}
}
