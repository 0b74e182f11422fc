package clientconfig

import (
	"regexp"
	"slices"
	"strings"
)

// span is a part of a value that is a secret, and what it would be called.
type span struct {
	from, to int
	label    string
}

// What a name says of its value. In doubt a value is a secret: a variable too
// many costs a line, a secret in a file costs more.
var (
	secretPart = regexp.MustCompile(`(?i)token|secret|passw|passphrase|credential|api_?key|access_?key|private_?key|cookie|webhook|signature|connection_?string`)
	secretWord = []string{"key", "keys", "auth", "authorization", "session", "dsn", "pwd", "pass", "pat", "jwt", "bearer", "sig", "creds", "connection", "private", "code"}
	// countWord, pathWord and urlWord take a name back, if the value is of that kind.
	countWord = []string{"max", "min", "limit", "count", "timeout", "ttl", "size", "length", "budget", "expiry", "expires", "port"}
	pathWord  = []string{"file", "path", "dir", "directory", "folder", "sock", "socket", "store", "cert", "credentials"}
	urlWord   = []string{"url", "uri", "endpoint", "host", "issuer", "domain", "server", "base", "audience"}
	plainWord = []string{"true", "false", "yes", "no", "on", "off", "none", "null", "oauth", "oauth2", "basic", "bearer", "default", "auto", "env", "browser", "device", "stdio", "http", "sse", "required", "optional", "enabled", "disabled"}
)

// longest is how long a value may be that is looked at.
const longest = 4 << 10

var (
	scheme   = regexp.MustCompile(`^(?i:bearer|basic|token|apikey|api-key|digest)\s+`)
	digits   = regexp.MustCompile(`^[0-9]+$`)
	pathLike = regexp.MustCompile(`^(?:~|\.{1,2})?[/\\]|^~$|^[A-Za-z]:[/\\]`)
	urlLike  = regexp.MustCompile(`^[A-Za-z][A-Za-z0-9+.-]*://`)
	// assigned is a name before its value in a longer text: TOKEN=x, "token": "x",
	// Authorization: Bearer x, ?key=x, --token x. given is that value.
	assigned = regexp.MustCompile(`([A-Za-z_][A-Za-z0-9_.-]*)["']?\s*[=:]\s*|--?([A-Za-z][A-Za-z0-9_.-]*)\s+`)
	given    = regexp.MustCompile(`^["']?(?:(?i:bearer|basic|token|digest)\s+)?([^\s"'&;,}]+)`)
	userinfo = regexp.MustCompile(`://([^\s/:@]*):([^\s/]+)@|://([^\s/:@]{12,})@`)
	// issued are tokens that say of themselves what they are.
	issued = regexp.MustCompile(`\b(?:gh[oprsu]_[A-Za-z0-9]{16,}|github_pat_[A-Za-z0-9_]{16,}|glpat-[\w-]{12,}|sk-[\w-]{12,}|[rsp]k_(?:live|test)_\w{8,}|xox[a-z]-[\w-]{8,}|xapp-[\w-]{8,}|AKIA[A-Z0-9]{12,}|ASIA[A-Z0-9]{12,}|AIza[\w-]{20,}|ya29\.[\w.-]+|hf_\w{12,}|npm_\w{16,}|pypi-[\w-]{16,}|dop_v1_\w+|SG\.[\w.-]{16,}|ntn_\w{12,}|secret_\w{12,}|lin_api_\w+|figd_[\w-]+|tvly-[\w-]+|pplx-\w+|fc-\w{16,}|BSA\w{16,}|nvapi-[\w-]+|shp[a-z]{2}_\w+|sntrys_\w+|sntryu_\w+|phc_\w+|phx_\w+|dapi\w{16,}|eyJ[\w-]{8,}\.[\w-]*(?:\.[\w-]*)?|whsec_\w+|AGE-SECRET-KEY-\w+)`)
	word   = regexp.MustCompile(`[A-Za-z0-9_-]{20,}={0,2}`)
	uuid   = regexp.MustCompile(`[0-9a-fA-F]{8}-(?:[0-9a-fA-F]{4}-){3}[0-9a-fA-F]{12}`)
	hexed  = regexp.MustCompile(`^[0-9a-fA-F]{32,}$`)
)

// secretsIn finds the secrets in the value of a name, in order; "" is no name.
// References are none.
func secretsIn(name, value string) []span {
	if value == "" || refers(value) {
		return nil
	}
	if strings.Contains(value, "-----BEGIN ") {
		return []span{{0, len(value), label(name, "KEY")}}
	}
	if secretive(name, value) {
		_, rest := schemed(value)
		found := span{len(value) - len(rest), len(value), label(name, "TOKEN")}
		if !reference.MatchString(value) {
			return []span{found}
		}
		return outside(value, found)
	}
	var found []span
	for _, m := range userinfo.FindAllStringSubmatchIndex(value, -1) {
		if m[4] >= 0 {
			found = append(found, outside(value, span{m[4], m[5], "PASSWORD"})...)
		} else {
			found = append(found, outside(value, span{m[6], m[7], "TOKEN"})...)
		}
	}
	found = append(found, named(value)...)
	for _, m := range issued.FindAllStringIndex(value, -1) {
		found = append(found, span{m[0], m[1], label(name, "TOKEN")})
	}
	for _, m := range word.FindAllStringIndex(value, -1) {
		if !pathLike.MatchString(value) && random(value[m[0]:m[1]]) {
			found = append(found, span{m[0], m[1], label(name, "TOKEN")})
		}
	}
	if urlLike.MatchString(value) {
		for _, m := range uuid.FindAllStringIndex(value, -1) {
			found = append(found, span{m[0], m[1], "TOKEN"})
		}
	}
	return apart(value, found)
}

// named finds the secrets whose names stand beside them.
func named(value string) (found []span) {
	at := 0
	for _, m := range assigned.FindAllStringSubmatchIndex(value, -1) {
		name := value[max(m[2], m[4]):max(m[3], m[5])]
		if m[0] < at || !secretive(name, "any") {
			continue
		}
		v := given.FindStringSubmatchIndex(value[m[1]:])
		if v == nil || !secretive(name, value[m[1]+v[2]:m[1]+v[3]]) {
			continue // the value may be a name itself
		}
		at = m[1] + v[3]
		found = append(found, outside(value, span{m[1] + v[2], at, label(name, "TOKEN")})...)
	}
	return found
}

// apart sorts spans and leaves out those that lie in others or in references.
func apart(value string, all []span) (out []span) {
	slices.SortStableFunc(all, func(a, b span) int {
		if a.from != b.from {
			return a.from - b.from
		}
		return b.to - a.to
	})
	refs := reference.FindAllStringIndex(value, -1)
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

// outside is what of a span lies between references.
func outside(value string, s span) (out []span) {
	at := s.from
	for _, r := range reference.FindAllStringIndex(value, -1) {
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

// secretive reports whether all of a value is a secret, by its name.
func secretive(name, value string) bool {
	words := strings.Split(strings.ToLower(screaming(name)), "_")
	has := func(list []string) bool {
		return slices.ContainsFunc(words, func(w string) bool { return slices.Contains(list, w) })
	}
	_, rest := schemed(value)
	switch {
	case name == "" || !secretPart.MatchString(name) && !secretPart.MatchString(screaming(name)) && !has(secretWord):
		return false
	case rest == "" || slices.Contains(plainWord, strings.ToLower(value)):
		return false
	case digits.MatchString(value) && has(countWord):
		return false
	case pathLike.MatchString(value) && (has(pathWord) || strings.Count(value, `\`) > 1):
		return false
	case urlLike.MatchString(value) && (has(urlWord) || has([]string{"dsn", "connection"})) && !strings.Contains(strings.ToLower(name), "webhook"):
		return false
	}
	return true
}

// schemed parts the word for a way of authentication from what follows it.
func schemed(value string) (string, string) {
	at := len(scheme.FindString(value))
	return value[:at], value[at:]
}

// label is what the variable of a named secret is called, without its server.
func label(name, otherwise string) string {
	text := strings.TrimPrefix(screaming(name), "X_")
	if name == "" || text == "AUTHORIZATION" || text == "HEADER" {
		return otherwise
	}
	return text
}

// random reports whether a word looks drawn and not written: long, of letters
// and digits that follow no order. A UUID is one that names something.
func random(w string) bool {
	if uuid.MatchString(w) {
		return false
	}
	if hexed.MatchString(w) {
		return strings.ContainsAny(w, "0123456789")
	}
	letters, numbers, turns := 0, 0, 0 // numbers are runs of digits
	last := 0
	for _, c := range w {
		kind := 0
		switch {
		case c >= '0' && c <= '9':
			kind = 3
			if last != 3 {
				numbers++
			}
		case c >= 'A' && c <= 'Z':
			kind = 1
			letters++
		case c >= 'a' && c <= 'z':
			kind = 2
			letters++
		}
		if last != 0 && kind != 0 && kind != last {
			turns++
		}
		last = kind
	}
	return numbers >= 2 && letters >= 6 && turns*4 >= len(w)
}
