package detect

import (
	"slices"
	"strings"
)

const (
	maxName   = 50
	maxSecret = 512
)

// assigned looks at a token that may be the value of something called a secret:
// token = "…", "api_key": "…", <password>…</password>, Authorization: Bearer ….
func (p *pass) assigned(start, end int) {
	start, quote := p.opening(start)
	name, ok := p.assignee(start, quote)
	if !ok {
		return
	}
	kind := naming(name)
	if kind == notSecret && quote == 0 && p.manifest(start, name) {
		kind = key
	}
	if kind == notSecret {
		return
	}
	value := p.value(start, quote, kind)
	if start+len(value) < end && quote != 0 || !secretive(value, kind) {
		return
	}
	p.add(APIKey, start, start+len(value), 0.8)
}

// manifest reports whether the value at start stands under "data" in a Secret of
// Kubernetes, where any name is the name of a secret.
func (p *pass) manifest(start int, name string) bool {
	indent := start - len(name) - 3
	if indent < 0 || p.at(start-1) != ' ' || p.at(start-2) != ':' || p.text[indent] != ' ' && p.text[indent] != '\t' {
		return false
	}
	before := p.text[max(0, start-200):indent]
	if !strings.Contains(before, "data:") {
		return false
	}
	near := p.text[max(0, start-200):min(len(p.text), start+400)]
	return strings.Contains(near, "kind: Secret") || strings.Contains(near, "kind: secret")
}

// opening moves start back over what a value may begin with, to the quote or the
// blank in front of it.
func (p *pass) opening(start int) (int, byte) {
	if start > 0 && strings.IndexByte("+/.", p.text[start-1]) >= 0 {
		for i := start; i > 0 && start-i < 64; i-- {
			if b := p.text[i-1]; !p.is(i-1, tokens) && b != '+' && b != '/' && b != '.' {
				start = i
				break
			}
		}
	}
	for i := start; i > 0 && start-i < 8; i-- {
		switch b := p.text[i-1]; {
		case b == '"' || b == '\'' || b == '`':
			return i, b
		case strings.IndexByte("=+/.~!@#$%^&*", b) < 0:
			return start, 0
		case b == '=' && i == start && (p.is(i-2, tokens) || p.at(i-2) == ' ' || p.at(i-2) == ':'):
			return start, 0
		}
	}
	return start, 0
}

// assignee returns the name that the value at start is given to.
func (p *pass) assignee(start int, quote byte) (string, bool) {
	i := start
	if quote != 0 {
		for i--; i > 0 && start-i < 5 && p.text[i-1] == '\\'; i-- {
		}
	}
	i = p.blanks(i)
	mark := i
	for mark > 0 && i-mark < 5 && strings.IndexByte("=:>,(?.|", p.text[mark-1]) >= 0 {
		mark--
	}
	if mark == i {
		return p.scheme(start, i)
	}
	i = p.blanks(mark)
	for n := 0; n < 4 && i > 0 && strings.IndexByte(`"'`+"`"+`\])`, p.text[i-1]) >= 0; n++ {
		i--
	}
	first := i
	for first > 0 && i-first <= maxName && (p.is(first-1, tokens) || p.text[first-1] == '.') {
		first--
	}
	name := p.text[first:i]
	if name == "string" || name == "str" || name == "value" { // var token string = "…", key="password" value="…"
		return p.before(first)
	}
	return name, name != ""
}

// before returns the name in front of a type or of a second attribute.
func (p *pass) before(i int) (string, bool) {
	for n := 0; n < 6 && i > 0 && strings.IndexByte(" \"':=", p.text[i-1]) >= 0; n++ {
		i--
	}
	first := i
	for first > 0 && i-first <= maxName && (p.is(first-1, tokens) || p.text[first-1] == '.') {
		first--
	}
	return p.text[first:i], first < i
}

// scheme reads the words of an Authorization header in front of a value.
func (p *pass) scheme(start, i int) (string, bool) {
	if i == start || i < 5 {
		return "", false
	}
	switch word := strings.ToLower(p.text[max(0, i-6):i]); {
	case word == "bearer", (strings.HasSuffix(word, "basic") || strings.HasSuffix(word, "token")) && p.authorized(i):
		return "bearer token", true
	}
	return "", false
}

func (p *pass) authorized(i int) bool {
	return strings.Contains(strings.ToLower(p.text[max(0, i-32):i]), "authorization")
}

func (p *pass) blanks(i int) int {
	for n := 0; n < 12 && i > 0 && (p.text[i-1] == ' ' || p.text[i-1] == '\t' || p.text[i-1] == '\n' || p.text[i-1] == '\r'); n++ {
		i--
	}
	return i
}

// value returns the value at start: up to its quote, or as far as it has no
// blank or delimiter.
func (p *pass) value(start int, quote byte, kind secrecy) string {
	also := ".=+/~"
	if kind == password {
		also = ".=+/~!@#$%^*"
	}
	i := start
	for i < len(p.text) && i-start < maxSecret {
		b := p.text[i]
		if b == quote && quote != 0 || b <= ' ' || b >= 0x7F || b == '\\' {
			break
		}
		if quote == 0 && !p.is(i, tokens) && strings.IndexByte(also, b) < 0 {
			break
		}
		i++
	}
	if quote == 0 {
		for i > start && p.text[i-1] == '.' {
			i--
		}
	}
	return p.text[start:i]
}

// secrecy is what a name says of its value.
type secrecy int

const (
	notSecret secrecy = iota
	key               // made by a machine
	password          // maybe made by a person
	session           // a cookie, if it is long
)

// naming reads a name: the words that call a secret one, unless the name goes on
// to say that it is something about one.
func naming(name string) secrecy {
	var buf [maxName]byte
	n, four, promising := 0, uint32(0), false
	for i := 0; i < len(name) && n < len(buf); i++ {
		c := class[name[i]]
		if c&alnum == 0 {
			continue
		}
		buf[n] = name[i]
		if c&letter != 0 {
			buf[n] |= 0x20
		}
		four = four<<8 | uint32(buf[n])
		promising = promising || stems[stem(four)] || four&0xFFFFFF == 'p'<<16|'w'<<8|'d'
		n++
	}
	if !promising {
		if strings.HasSuffix(name, "_KEY") { // as variables of the environment are called
			return key
		}
		return notSecret
	}
	low := string(buf[:n])
	has := func(w string) bool { return strings.Contains(low, w) }
	switch {
	case slices.ContainsFunc(aboutSecrets, func(w string) bool { return strings.HasSuffix(low, w) }):
		return notSecret
	case slices.ContainsFunc(passwordNames, has):
		return password
	case slices.ContainsFunc(keyNames, has):
		return key
	case strings.HasSuffix(low, "session"):
		return session
	}
	return notSecret
}

// stems are what the names of secrets begin with, four bytes each as one of 256:
// most names are known to be none by their stems.
var stems = func() (t [256]bool) {
	for _, w := range slices.Concat(passwordNames, keyNames, []string{"session"}) {
		if len(w) < 4 {
			continue
		}
		t[stem(uint32(w[0])<<24|uint32(w[1])<<16|uint32(w[2])<<8|uint32(w[3]))] = true
	}
	return t
}()

func stem(four uint32) uint8 { return uint8(four * 0x9E3779B1 >> 24) }

var (
	passwordNames = []string{"passw", "passphrase", "pwd"}
	keyNames      = []string{"token", "secret", "apikey", "accesskey", "accountkey", "privatekey", "signingkey", "encryptionkey", "authkey",
		"credential", "bearer", "authorization", "licensekey", "sharedkey"}
	aboutSecrets = []string{"id", "ids", "name", "file", "path", "url", "uri", "type", "count", "expires", "expiry", "expiresat", "expiresin", "date", "version",
		"length", "size", "field", "header", "class", "algorithm", "arn", "ttl", "endpoint", "tokens", "page", "pagetoken", "nexttoken", "continuationtoken",
		"cursor", "limit", "policy", "hash", "env", "mapping", "format", "prefix", "publickey", "tokenizer", "created", "updated"}
)

// secretive reports whether a value that is called a secret looks like one.
func secretive(v string, kind secrecy) bool {
	if placeholder(v) || strings.Contains(v, "://") || strings.ContainsAny(v, "<>{}()[]$") && !mixed(v) {
		return false
	}
	bits := entropy(v)
	if kind == password {
		return len(v) >= 6 && bits >= 2.2 && (mixed(v) || strings.ContainsAny(v, "!@#%^&*")) && !isDigits(v)
	}
	switch {
	case len(v) < 10 || !mixed(v) || kind == session && len(v) < 26:
		return false
	case isDigits(v):
		return len(v) >= 15
	case strings.Count(v, ".")+strings.Count(v, "/") > 4 && len(v) < 60:
		return false
	}
	return bits >= 2.9 && (scrambled(v) || len(v) >= 24 && bits >= 3.7)
}

// scrambled reports whether letters and digits alternate within the parts of v:
// in "prod-db-2024" and "rsa1024" they hardly do.
func scrambled(v string) bool {
	turns, last := 0, uint8(0)
	for i := range len(v) {
		c := class[v[i]] & alnum
		if c&letter != 0 {
			c = letter
		}
		if last != 0 && c != 0 && c != last {
			turns++
		}
		last = c
	}
	return turns >= 2
}
