package detect

import (
	"slices"
	"strings"
)

const (
	maxName   = 50
	maxSecret = 512
)

// assigned examines a token that may be the value of a name such as token or password:
// token = "…", "api_key": "…", <password>…</password>, Authorization: Bearer ….
func (p *pass) assigned(start, end int) {
	start, quote := p.valueStart(start)
	name, ok := p.assignedName(start, quote)
	if !ok {
		return
	}
	kind := secretKindOf(name)
	if kind == notSecret && quote == 0 && p.manifest(start, name) {
		kind = key
	}
	if kind == notSecret {
		return
	}
	value, delimited := p.value(start, quote, kind), quote != 0 || name == authorization || p.at(start-1) == '>' || strings.ToUpper(name) == name
	if start+len(value) < end && quote != 0 || !secretLike(value, kind, delimited) {
		return
	}
	p.add(APIKey, start, start+len(value), 0.8)
}

// manifest reports whether the value at start is below "data" in a Kubernetes Secret,
// where every value is secret regardless of its name.
func (p *pass) manifest(start int, name string) bool {
	indent := start - len(name) - 3
	if indent < 0 || p.at(start-1) != ' ' || p.at(start-2) != ':' || p.text[indent] != ' ' && p.text[indent] != '\t' {
		return false
	}
	before := p.text[max(0, start-200):indent]
	if !strings.Contains(before, "data:") {
		return false
	}
	evidenceRange := p.text[max(0, start-200):min(len(p.text), start+400)]
	return strings.Contains(evidenceRange, "kind: Secret") || strings.Contains(evidenceRange, "kind: secret")
}

// valueStart moves start back over characters that a value may begin with. It returns
// the start of the value and its quote, or 0.
func (p *pass) valueStart(start int) (int, byte) {
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

// assignedName returns the name to which the value at start is assigned.
func (p *pass) assignedName(start int, quote byte) (string, bool) {
	i := start
	if quote != 0 {
		for i--; i > 0 && start-i < 5 && p.text[i-1] == '\\'; i-- {
		}
		if strings.IndexByte("bBrRuU", p.at(i-1)) >= 0 && i > 1 && !p.is(i-2, tokens) { // b"…" in Python
			i--
		}
	}
	i = p.blanks(i)
	if quote == 0 && hasLineBreak(p.text[i:start]) && (p.at(i-1) == '=' || !p.continuesLine(start)) {
		return "", false
	}
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
	if name == "key" || name == "Key" || name == "KEY" {
		first = p.qualifier(first)
		return p.text[first:i], true
	}
	if quote != 0 && strings.IndexByte(name, '.') >= 0 && strings.IndexByte(p.text[mark:start], ',') >= 0 && p.at(i) == ',' { // f(token.INT, "…")
		return "", false
	}
	if name == "string" || name == "str" || name == "value" { // var token string = "…", key="password" value="…"
		return p.previousName(first)
	}
	return name, name != ""
}

func hasLineBreak(blanks string) bool {
	for i := range len(blanks) {
		if blanks[i] == '\n' || blanks[i] == '\r' {
			return true
		}
	}
	return false
}

// continuesLine reports whether the unquoted value at start may belong to a name on an
// earlier line: it is alone on its line, and is not a name itself.
func (p *pass) continuesLine(start int) bool {
	end := start
	for end-start < maxSecret && p.at(end) > ' ' {
		end++
	}
	rest := p.at(end)
	return (rest == '\n' || rest == '\r' || rest == 0) && strings.IndexByte(p.text[start:min(end, len(p.text))], '=') < 0 && p.at(end-1) != ':'
}

// previousName returns the name before a type or a second attribute.
func (p *pass) previousName(i int) (string, bool) {
	for n := 0; n < 6 && i > 0 && strings.IndexByte(" \"':=&", p.text[i-1]) >= 0; n++ {
		i--
	}
	first := i
	for first > 0 && i-first <= maxName && (p.is(first-1, tokens) || p.text[first-1] == '.') {
		first--
	}
	return p.text[first:i], first < i
}

// qualifier returns the start of the word before "key" in "API key", or first.
func (p *pass) qualifier(first int) int {
	i := first
	for first-i < 12 && (p.at(i-1) == ' ' && i == first || p.is(i-1, letter)) {
		i--
	}
	switch strings.ToLower(strings.TrimSpace(p.text[i:first])) {
	case "api", "access", "secret", "private", "signing", "encryption", "auth", "shared", "account", "license":
		return i
	}
	return first
}

const authorization = "bearer token"

// scheme returns the name of a value that follows words: those of an Authorization header,
// an option such as --api-key, or "token is".
func (p *pass) scheme(start, i int) (string, bool) {
	if i == start || i < 5 {
		return "", false
	}
	if first := p.wordStart(i); strings.HasPrefix(p.text[first:], "--") {
		return p.text[first:i], true
	} else if word := p.text[first:i]; word == "is" || word == "was" {
		i = p.blanks(first)
		first = p.qualifier(p.wordStart(i))
		return p.text[first:i], first < i
	}
	switch word := strings.ToLower(p.text[max(0, i-6):i]); {
	case word == "bearer", (strings.HasSuffix(word, "basic") || strings.HasSuffix(word, "token")) && p.authorized(i):
		return authorization, true
	}
	return "", false
}

// wordStart returns the start of the token that ends at i.
func (p *pass) wordStart(i int) int {
	first := i
	for i-first < maxName && p.is(first-1, tokens) {
		first--
	}
	return first
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

// value returns the value at start: up to its closing quote, or to the next space or
// delimiter.
func (p *pass) value(start int, quote byte, kind secretKind) string {
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
		if quote == 0 && !p.is(i, tokens) && strings.IndexByte(also, b) < 0 && !(b == ':' && p.is(i-1, alnum) && p.is(i+1, alnum)) { // "id:secret"
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

// secretKind is the kind of secret that a name denotes.
type secretKind int

const (
	notSecret secretKind = iota
	key                  // generated by a machine
	password             // possibly chosen by a person
	session              // a session cookie, if it is long
)

// secretKindOf returns the kind of secret that a name denotes. A name that ends in a
// property of a secret, such as token_count, denotes none.
func secretKindOf(name string) secretKind {
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
	other := notSecret
	if strings.HasSuffix(name, "_KEY") { // convention of environment variables
		other = key
	}
	if !promising {
		return other
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
	return other
}

// stems is a filter that rejects most names: a hash table of the first four bytes of
// the words in names of secrets.
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

// secretLike reports whether a value with the name of a secret looks like one. A value is
// delimited if its ends are certain, which those of code in place of a value are not.
func secretLike(v string, kind secretKind, delimited bool) bool {
	if placeholder(v) || strings.Contains(v, "://") || strings.ContainsAny(v, "<>{}()[]$") && !mixed(v) {
		return false
	}
	bits := entropy(v)
	if kind == password {
		return len(v) >= 6 && bits >= 2.2 && (mixed(v) || strings.ContainsAny(v, "!@#%^&*")) && !isDigits(v)
	}
	switch {
	case len(v) < 10 || kind == session && len(v) < 26:
		return false
	case !mixed(v):
		return delimited && kind == key && len(v) >= 14 && bits >= 3.2 && unpronounceable(v)
	case isDigits(v):
		return len(v) >= 15
	case strings.Count(v, ".")+strings.Count(v, "/") > 4 && len(v) < 60:
		return false
	case hexadecimal(v):
		return bits >= 2.3 && scrambled(v)
	}
	return bits >= 2.9 && (scrambled(v) || delimited && len(v) >= 14 && unpronounceable(v) || len(v) >= 24 && bits >= 3.7)
}

// unpronounceable reports whether v has few vowels and five consonants in a row, and
// nothing that separates words.
func unpronounceable(v string) bool {
	vowels, letters, run, longest := 0, 0, 0, 0
	for i := range len(v) {
		switch {
		case class[v[i]]&digit != 0:
			run = 0
			continue
		case class[v[i]]&letter == 0:
			return false
		case strings.IndexByte("aeiouyAEIOUY", v[i]) >= 0:
			vowels, run = vowels+1, 0
		default:
			run++
			longest = max(longest, run)
		}
		letters++
	}
	return longest >= 5 && vowels*10 <= 3*letters
}

// scrambled reports whether letters and digits alternate within the parts of v. They
// do not in "prod-db-2024" and "rsa1024".
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
