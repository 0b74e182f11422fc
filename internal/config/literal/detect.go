package literal

import (
	"slices"
	"strings"

	"github.com/sandpiper-mcp/sandpiper/internal/lazyregexp"
)

// span is the position of a secret in a value. label is the end of its variable's name,
// after the name of the server.
type span struct {
	from, to int
	label    string
}

// Parts and words of the name of a secret. Ambiguous values count as secrets: an
// unnecessary variable does less harm than a secret in a file.
var (
	secretPart  = lazyregexp.New(`(?i)token|secret|passw|passphrase|credential|api_?key|access_?key|private_?key|cookie|webhook|signature|connection_?string`)
	secretWords = []string{"key", "keys", "auth", "authorization", "session", "dsn", "pwd", "pass", "pat", "jwt", "bearer", "sig", "creds",
		"connection", "private", "code"}
	// A value is not a secret if it is a number and its name has one of countWords, a
	// path and one of pathWords, or a URL and one of urlWords.
	countWords = []string{"max", "min", "limit", "count", "timeout", "ttl", "size", "length", "budget", "expiry", "expires", "port"}
	pathWords  = []string{"file", "path", "dir", "directory", "folder", "sock", "socket", "store", "cert", "credentials"}
	urlWords   = []string{"url", "uri", "endpoint", "host", "issuer", "domain", "server", "base", "audience"}
	// plainValues are not secrets, whatever their name.
	plainValues = []string{"true", "false", "yes", "no", "on", "off", "none", "null", "oauth", "oauth2", "basic", "bearer", "default",
		"auto", "env", "browser", "device", "stdio", "http", "sse", "required", "optional", "enabled", "disabled"}
)

var (
	scheme   = lazyregexp.New(`^(?i:bearer|basic|token|apikey|api-key|digest)\s+`)
	digits   = lazyregexp.New(`^[0-9]+$`)
	pathLike = lazyregexp.New(`^(?:~|\.{1,2})?[/\\]|^~$|^[A-Za-z]:[/\\]`)
	urlLike  = lazyregexp.New(`^[A-Za-z][A-Za-z0-9+.-]*://`)
	// assignment matches a name before its value in a longer text: TOKEN=x,
	// "token": "x", Authorization: Bearer x, ?key=x, --token x. assigned matches
	// that value.
	assignment = lazyregexp.New(`([A-Za-z_][A-Za-z0-9_.-]*)["']?\s*[=:]\s*|--?([A-Za-z][A-Za-z0-9_.-]*)\s+`)
	assigned   = lazyregexp.New(`^["']?(?:(?i:bearer|basic|token|digest)\s+)?([^\s"'&;,}]+)`)
	userinfo   = lazyregexp.New(`://([^\s/:@]*):([^\s/]+)@|://([^\s/:@]{12,})@`)
	// knownToken matches tokens with a prefix that identifies their issuer.
	knownToken = lazyregexp.New(`\b(?:gh[oprsu]_[A-Za-z0-9]{16,}|github_pat_[A-Za-z0-9_]{16,}|glpat-[\w-]{12,}|sk-[\w-]{12,}|[rsp]k_(?:live|test)_\w{8,}|xox[a-z]-[\w-]{8,}|xapp-[\w-]{8,}|AKIA[A-Z0-9]{12,}|ASIA[A-Z0-9]{12,}|AIza[\w-]{20,}|ya29\.[\w.-]+|hf_\w{12,}|npm_\w{16,}|pypi-[\w-]{16,}|dop_v1_\w+|SG\.[\w.-]{16,}|ntn_\w{12,}|secret_\w{12,}|lin_api_\w+|figd_[\w-]+|tvly-[\w-]+|pplx-\w+|fc-\w{16,}|BSA\w{16,}|nvapi-[\w-]+|shp[a-z]{2}_\w+|sntrys_\w+|sntryu_\w+|phc_\w+|phx_\w+|dapi\w{16,}|eyJ[\w-]{8,}\.[\w-]*(?:\.[\w-]*)?|whsec_\w+|AGE-SECRET-KEY-\w+)`)
	longWord   = lazyregexp.New(`[A-Za-z0-9_-]{20,}={0,2}`)
	uuid       = lazyregexp.New(`[0-9a-fA-F]{8}-(?:[0-9a-fA-F]{4}-){3}[0-9a-fA-F]{12}`)
	hexWord    = lazyregexp.New(`^[0-9a-fA-F]{32,}$`)
)

// secretsIn returns the secrets in a value, in order. name is that of the variable,
// header or flag with the value, "" if there is none. References are not secrets.
func secretsIn(name, value string) []span {
	if value == "" || IsReference(value) {
		return nil
	}
	if strings.Contains(value, "-----BEGIN ") {
		return []span{{0, len(value), label(name, "KEY")}}
	}
	if isSecret(name, value) {
		_, rest := cutScheme(value)
		found := span{len(value) - len(rest), len(value), label(name, "TOKEN")}
		if !reference().MatchString(value) {
			return []span{found}
		}
		return betweenReferences(value, found)
	}
	var found []span
	for _, m := range userinfo().FindAllStringSubmatchIndex(value, -1) {
		if m[4] >= 0 {
			found = append(found, betweenReferences(value, span{m[4], m[5], "PASSWORD"})...)
		} else {
			found = append(found, betweenReferences(value, span{m[6], m[7], "TOKEN"})...)
		}
	}
	found = append(found, namedSecrets(value)...)
	for _, m := range knownToken().FindAllStringIndex(value, -1) {
		found = append(found, span{m[0], m[1], label(name, "TOKEN")})
	}
	for _, m := range longWord().FindAllStringIndex(value, -1) {
		if !pathLike().MatchString(value) && isRandom(value[m[0]:m[1]]) {
			found = append(found, span{m[0], m[1], label(name, "TOKEN")})
		}
	}
	if urlLike().MatchString(value) {
		for _, m := range uuid().FindAllStringIndex(value, -1) {
			found = append(found, span{m[0], m[1], "TOKEN"})
		}
	}
	return disjoint(value, found)
}

// namedSecrets returns the secrets that follow their names in the value.
func namedSecrets(value string) (found []span) {
	at := 0
	for _, m := range assignment().FindAllStringSubmatchIndex(value, -1) {
		name := value[max(m[2], m[4]):max(m[3], m[5])]
		if m[0] < at || !isSecret(name, "any") { // no value with this name is a secret
			continue
		}
		v := assigned().FindStringSubmatchIndex(value[m[1]:])
		if v == nil || !isSecret(name, value[m[1]+v[2]:m[1]+v[3]]) {
			continue // the value may be the name of the next one
		}
		at = m[1] + v[3]
		found = append(found, betweenReferences(value, span{m[1] + v[2], at, label(name, "TOKEN")})...)
	}
	return found
}

// disjoint sorts spans, merges those that overlap, and removes those that overlap
// references.
func disjoint(value string, all []span) (out []span) {
	slices.SortStableFunc(all, func(a, b span) int {
		if a.from != b.from {
			return a.from - b.from
		}
		return b.to - a.to
	})
	refs := reference().FindAllStringIndex(value, -1)
	for _, s := range all {
		if n := len(out); n > 0 && s.from < out[n-1].to {
			out[n-1].to = max(out[n-1].to, s.to)
			continue
		}
		if !slices.ContainsFunc(refs, func(r []int) bool { return s.from < r[1] && r[0] < s.to }) {
			out = append(out, s)
		}
	}
	return out
}

// betweenReferences returns the parts of a span between references.
func betweenReferences(value string, s span) (out []span) {
	at := s.from
	for _, r := range reference().FindAllStringIndex(value, -1) {
		if r[1] <= s.from || r[0] >= s.to {
			continue
		}
		if strings.Trim(value[at:max(at, r[0])], " :/@&?=-_.,;") != "" {
			out = append(out, span{at, r[0], s.label})
		}
		at = r[1]
	}
	if at < s.to && strings.Trim(value[at:s.to], " :/@&?=-_.,;{") != "" {
		out = append(out, span{at, s.to, s.label})
	}
	return out
}

// isSecret reports whether the whole value is a secret: its name suggests one, and the
// value is not one of the exceptions.
func isSecret(name, value string) bool {
	words := strings.Split(strings.ToLower(EnvName(name)), "_")
	has := func(list []string) bool {
		return slices.ContainsFunc(words, func(w string) bool { return slices.Contains(list, w) })
	}
	_, rest := cutScheme(value)
	switch {
	case name == "" || !secretPart().MatchString(name) && !secretPart().MatchString(EnvName(name)) && !has(secretWords):
		return false
	case rest == "" || slices.Contains(plainValues, strings.ToLower(value)):
		return false
	case digits().MatchString(value) && has(countWords):
		return false
	case pathLike().MatchString(value) && (has(pathWords) || strings.Count(value, `\`) > 1):
		return false
	case urlLike().MatchString(value) && (has(urlWords) || has([]string{"dsn", "connection"})) && !strings.Contains(strings.ToLower(name),
		"webhook"):
		return false
	}
	return true
}

// cutScheme splits a value after its authentication scheme.
func cutScheme(value string) (string, string) {
	at := len(scheme().FindString(value))
	return value[:at], value[at:]
}

// label returns the name of a secret's variable without the server, or fallback.
func label(name, fallback string) string {
	text := strings.TrimPrefix(EnvName(name), "X_")
	if name == "" || text == "AUTHORIZATION" || text == "HEADER" {
		return fallback
	}
	return text
}

// IsReference reports whether a value consists of references, apart from an
// authentication scheme before them.
func IsReference(value string) bool {
	_, rest := cutScheme(value)
	return rest != "" && reference().ReplaceAllString(rest, "") == ""
}

// run matches a run of digits or of letters of one case.
var run = lazyregexp.New(`[0-9]+|[A-Z]+|[a-z]+`)

// isRandom reports whether a word looks generated: it often changes between digits, upper
// and lower case. A UUID does not count, as it usually is an identifier.
func isRandom(w string) bool {
	if uuid().MatchString(w) {
		return false
	}
	if hexWord().MatchString(w) {
		return strings.ContainsAny(w, "0123456789")
	}
	letters, numbers, changes, end := 0, 0, 0, -1
	for _, m := range run().FindAllStringIndex(w, -1) {
		if w[m[0]] <= '9' {
			numbers++
		} else {
			letters += m[1] - m[0]
		}
		if m[0] == end {
			changes++
		}
		end = m[1]
	}
	return numbers >= 2 && letters >= 6 && changes*4 >= len(w)
}
