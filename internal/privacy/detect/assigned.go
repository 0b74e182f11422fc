package detect

import "strings"

const maxSecret = 512

var assignedSecrets = recognizer{
	Type: APIKey,
	Anchors: []anchor{
		{Has: digit, Least: 4},
		{Has: digit, After: ":~.="},
		{Least: longToken},
	},
	Find: findAssigned,
	Examples: []string{
		`client_secret = «q8w7e6r5t4y3u2i1o0p9», {"access_token": "«Zx81kQp0vM2nB7cL»", "expires": 3600}, password=«Hunter2!» `,
		`Authorization: Bearer «Zx81kQp0vM2nB7cLd9», cli --api-key «Zx81kQp0vM2nB7cL» run, <dbPassword>«s3cr3tPw99»</dbPassword>`,
		`api_key: <YOUR_API_KEY>, api_key = ${API_KEY}, token: true, max_tokens: 4096, "secret_name": "prod-db-2024"`,
		`the primary key is a1b2c3d4e5f6g7h8, cacheKey = "a1b2c3d4e5f6g7h8" and token = "0123456789abcdef0123456789"`,
	},
}

// findAssigned examines a token that may be the value of a name such as token or password:
// token = "…", "api_key": "…", <password>…</password>, Authorization: Bearer ….
func findAssigned(p *passage, start, end int) {
	start, quote := valueStart(p, start)
	name, ok := assignedName(p, start, quote)
	if !ok {
		return
	}
	kind := secretKindOf(name)
	if kind == notSecret && quote == 0 && inSecretManifest(p, start, name) {
		kind = key
	}
	if kind == notSecret {
		return
	}
	value, delimited := assignedValue(p, start, quote, kind), quote != 0 || name == authorization || p.at(start-1) == '>' ||
		strings.ToUpper(name) == name
	if start+len(value) < end && quote != 0 || !secretLike(value, kind, delimited) {
		return
	}
	p.add(start, start+len(value), 0.8)
}

// inSecretManifest reports whether the value at start is below "data" in a Kubernetes Secret,
// where every value is secret regardless of its name.
func inSecretManifest(p *passage, start int, name string) bool {
	indent := start - len(name) - 3
	if indent < 0 || p.at(start-1) != ' ' || p.at(start-2) != ':' || p.text[indent] != ' ' && p.text[indent] != '\t' {
		return false
	}
	before := p.text[max(0, start-200):indent]
	if !strings.Contains(before, "data:") {
		return false
	}
	around := p.text[max(0, start-200):min(len(p.text), start+400)]
	return strings.Contains(around, "kind: Secret") || strings.Contains(around, "kind: secret")
}

// valueStart moves start back over characters that a value may begin with. It returns
// the start of the value and its quote, or 0.
func valueStart(p *passage, start int) (int, byte) {
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
func assignedName(p *passage, start int, quote byte) (string, bool) {
	i := start
	if quote != 0 {
		for i--; i > 0 && start-i < 5 && p.text[i-1] == '\\'; i-- {
		}
		if strings.IndexByte("bBrRuU", p.at(i-1)) >= 0 && i > 1 && !p.is(i-2, tokens) { // b"…" in Python
			i--
		}
	}
	i = blanksStart(p, i)
	if quote == 0 && hasLineBreak(p.text[i:start]) && (p.at(i-1) == '=' || !isAloneOnLine(p, start)) {
		return "", false
	}
	mark := i
	for mark > 0 && i-mark < 5 && strings.IndexByte("=:>,(?.|", p.text[mark-1]) >= 0 {
		mark--
	}
	if mark == i {
		return schemeName(p, start, i)
	}
	i = blanksStart(p, mark)
	for n := 0; n < 4 && i > 0 && strings.IndexByte(`"'`+"`"+`\])`, p.text[i-1]) >= 0; n++ {
		i--
	}
	first := i
	for first > 0 && i-first <= maxName && (p.is(first-1, tokens) || p.text[first-1] == '.') {
		first--
	}
	name := p.text[first:i]
	if name == "key" || name == "Key" || name == "KEY" {
		first = qualifierStart(p, first)
		return p.text[first:i], true
	}
	// f(token.INT, "…")
	if quote != 0 && strings.IndexByte(name, '.') >= 0 && strings.IndexByte(p.text[mark:start], ',') >= 0 && p.at(i) == ',' {
		return "", false
	}
	if name == "string" || name == "str" || name == "value" { // var token string = "…", key="password" value="…"
		return previousName(p, first)
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

// isAloneOnLine reports whether the unquoted value at start may belong to a name on an
// earlier line: it is alone on its line, and is not a name itself.
func isAloneOnLine(p *passage, start int) bool {
	end := start
	for end-start < maxSecret && p.at(end) > ' ' {
		end++
	}
	rest := p.at(end)
	return (rest == '\n' || rest == '\r' || rest == 0) && strings.IndexByte(p.text[start:min(end, len(p.text))],
		'=') < 0 && p.at(end-1) != ':'
}

// previousName returns the name before a type or a second attribute.
func previousName(p *passage, i int) (string, bool) {
	for n := 0; n < 6 && i > 0 && strings.IndexByte(" \"':=&", p.text[i-1]) >= 0; n++ {
		i--
	}
	first := i
	for first > 0 && i-first <= maxName && (p.is(first-1, tokens) || p.text[first-1] == '.') {
		first--
	}
	return p.text[first:i], first < i
}

// qualifierStart returns the start of the word before "key" in "API key", or first.
func qualifierStart(p *passage, first int) int {
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

// schemeName returns the name of a value that follows words: those of an Authorization header,
// an option such as --api-key, or "token is".
func schemeName(p *passage, start, i int) (string, bool) {
	if i == start || i < 5 {
		return "", false
	}
	if first := p.tokenStart(i, maxName); strings.HasPrefix(p.text[first:], "--") {
		return p.text[first:i], true
	} else if word := p.text[first:i]; word == "is" || word == "was" {
		i = blanksStart(p, first)
		first = qualifierStart(p, p.tokenStart(i, maxName))
		return p.text[first:i], first < i
	}
	switch word := strings.ToLower(p.text[max(0, i-6):i]); {
	case word == "bearer", (strings.HasSuffix(word, "basic") || strings.HasSuffix(word, "token")) && afterAuthorization(p, i):
		return authorization, true
	}
	return "", false
}

func afterAuthorization(p *passage, i int) bool {
	return strings.Contains(strings.ToLower(p.text[max(0, i-32):i]), "authorization")
}

func blanksStart(p *passage, i int) int {
	for n := 0; n < 12 && i > 0 && (p.text[i-1] == ' ' || p.text[i-1] == '\t' || p.text[i-1] == '\n' || p.text[i-1] == '\r'); n++ {
		i--
	}
	return i
}

// assignedValue returns the value at start: up to its closing quote, or to the next space or
// delimiter.
func assignedValue(p *passage, start int, quote byte, kind secretKind) string {
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
		// "id:secret"
		if quote == 0 && !p.is(i, tokens) && strings.IndexByte(also, b) < 0 && !(b == ':' && p.is(i-1, alnum) && p.is(i+1, alnum)) {
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
