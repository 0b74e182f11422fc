package detect

import "strings"

const maxPEM = 16 << 10

var privateKeys = recognizer{
	Type:    PrivateKey,
	Anchors: []anchor{{First: "-", Has: joint, Least: armour, Most: armour, After: " "}},
	Find:    findPrivateKey,
	Examples: []string{
		"x «-----BEGIN RSA PRIVATE KEY-----¶MIIEpQIBAAKCAQEAn6/O8li+SX4m98LLYt/PKSzEmQ++ZBD7Loh9P13f4yQ92EF3¶-----END RSA PRIVATE " +
			"KEY-----» y",
		"-----BEGIN PUBLIC KEY-----¶MFkwEwYHKoZIzj0CAQYIKoZIzj0DAQcDQgAE¶-----END PUBLIC KEY-----",
		"-----BEGIN PRIVATE KEY-----¶anything¶-----END PRIVATE KEY-----",
	},
}

// findPrivateKey examines dashes that may begin a private key in PEM or PGP armour. A truncated
// key is found up to its end.
func findPrivateKey(p *passage, start, _ int) {
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
			if keyMaterial(rest[body : body+i]) {
				p.add(start, start+body+i+8+j+5, 1)
			}
			return
		}
	}
	i := body
	for i < len(rest) && (class[rest[i]]&alnum != 0 || strings.IndexByte("+/=\r\n\t \\:,-", rest[i]) >= 0) {
		i++
	}
	if keyMaterial(rest[body:i]) {
		p.add(start, start+i, 0.95)
	}
}

// keyMaterial reports whether the body of a key has at least 30 bytes in base64, which
// every private key exceeds, and is not a placeholder.
func keyMaterial(body string) bool {
	const least, entropyOf = 40, 256
	var b []byte
	for i := 0; i < len(body) && len(b) < entropyOf; i++ {
		if body[i] == '\\' { // an escaped line break
			i++
		} else if class[body[i]]&alnum != 0 || body[i] == '+' || body[i] == '/' {
			b = append(b, body[i])
		}
	}
	return len(b) >= least && entropy(string(b)) > 3
}
