package upstream

import (
	"bytes"
	"encoding/json"
	"fmt"
	"html"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"sync"
	"unicode/utf16"
	"unicode/utf8"

	"github.com/sandpiper-mcp/sandpiper/internal/tool"
)

const redactedText = "[secret]"

// redactor removes the secrets of one server from texts.
type redactor struct {
	mu      sync.Mutex
	secrets []string
	// Secrets sent with calls are also removed from results. Each entry has the encodings
	// of one secret; the most recently used is last.
	sent   [][]string // configured secrets
	tokens [][]string // renewable tokens
}

// maxRemembered is the number of sent secrets of each kind that are kept: a response in
// flight may still contain a replaced one.
const maxRemembered = 64

// minSecretLen is the minimum length of a secret. Removing shorter ones would garble
// texts and disclose them.
const minSecretLen = 4

// secretNames matches the names of variables and headers whose values are secret even if
// they were not resolved from a reference.
var secretNames = regexp.MustCompile(`(?i)key|token|secret|passw|credential|auth|cookie|session|dsn|connection`)

func isSecretName(name string) bool { return secretNames.MatchString(name) }

// addSecret adds a secret that is removed from messages.
func (r *redactor) addSecret(secret string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	// Without the scheme of an Authorization header.
	for _, s := range []string{secret, secret[strings.LastIndexByte(secret, ' ')+1:]} {
		if len(s) >= minSecretLen && !slices.Contains(r.secrets, s) {
			r.secrets = append(r.secrets, s)
		}
	}
	slices.SortFunc(r.secrets, byLength) // a secret before its own substrings
}

func byLength(a, b string) int { return len(b) - len(a) }

// addSent adds a configured secret that is sent with calls.
func (r *redactor) addSent(secret string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.sent = remember(r.sent, secret)
}

// addToken adds a renewable token.
func (r *redactor) addToken(token string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.tokens = remember(r.tokens, token)
}

// remember appends a secret, or moves it to the end.
func remember(all [][]string, secret string) [][]string {
	if len(secret) < minSecretLen {
		return all
	}
	if at := slices.IndexFunc(all, func(known []string) bool { return known[0] == secret }); at >= 0 {
		known := all[at]
		return append(slices.Delete(all, at, at+1), known)
	}
	return append(all[max(0, len(all)+1-maxRemembered):], encodings(secret))
}

// addSentHeader adds a header value, with and without its scheme.
func (r *redactor) addSentHeader(value string) {
	r.addSent(value)
	if _, after, ok := strings.Cut(value, " "); ok && !strings.Contains(after, " ") {
		r.addSent(after)
	}
}

// encodings returns the representations of a secret in responses: as it is (first),
// URL-encoded, as JSON and as HTML.
func encodings(secret string) []string {
	all := []string{secret}
	add := func(s string) {
		if !slices.Contains(all, s) {
			all = append(all, s)
		}
	}
	strict := strings.ReplaceAll(url.QueryEscape(secret), "+", "%20")
	for _, s := range []string{strict, url.QueryEscape(secret), url.PathEscape(secret)} {
		add(s)
		add(escapes.ReplaceAllStringFunc(s, strings.ToLower))
	}
	if quoted, err := json.Marshal(secret); err == nil { // with <, > and & as escapes
		add(string(quoted[1 : len(quoted)-1]))
		plain := strings.NewReplacer(`\u003c`, "<", `\u003e`, ">", `\u0026`, "&").Replace(string(quoted[1 : len(quoted)-1]))
		for _, s := range []string{plain, asciiJSON(plain), asciiJSON(string(quoted[1 : len(quoted)-1]))} {
			add(s)
			add(strings.ReplaceAll(s, "/", `\/`))
		}
	}
	add(html.EscapeString(secret))
	return all
}

// asciiJSON escapes non-ASCII characters in the content of a JSON string, as ASCII-only
// encoders do.
func asciiJSON(s string) string {
	var b strings.Builder
	for _, r := range s {
		if r < utf8.RuneSelf {
			b.WriteRune(r)
			continue
		}
		for _, unit := range utf16.AppendRune(nil, r) {
			fmt.Fprintf(&b, `\u%04x`, unit)
		}
	}
	return b.String()
}

var escapes = regexp.MustCompile(`%[0-9A-F]{2}`)

// redactResult removes sent secrets from a result of a server that repeats what it
// receives.
func (r *redactor) redactResult(res tool.Result) tool.Result {
	all := r.sentForms()
	if len(all) == 0 {
		return res
	}
	res.Structured, res.Meta = replaceSecrets(res.Structured, all), replaceSecrets(res.Meta, all)
	for i, p := range res.Parts {
		p.Text = string(replaceSecrets([]byte(p.Text), all))
		p.Data, p.Raw = replaceSecrets(p.Data, all), replaceSecrets(p.Raw, all)
		res.Parts[i] = p
	}
	return res
}

// sentForms returns the encodings of all sent secrets, longest first.
func (r *redactor) sentForms() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	all := slices.Concat(slices.Concat(r.sent, r.tokens)...)
	slices.SortFunc(all, byLength)
	return all
}

// replaceSecrets returns b without secrets; b itself if it has none. Valid JSON stays
// valid.
func replaceSecrets(b []byte, secrets []string) []byte {
	clean := b
	for _, s := range secrets {
		if bytes.Contains(clean, []byte(s)) {
			clean = bytes.ReplaceAll(clean, []byte(s), []byte(redactedText))
		}
	}
	if len(clean) == len(b) && bytes.Equal(clean, b) || json.Valid(clean) || !json.Valid(b) {
		return clean
	}
	// A secret occurred as a JSON number.
	return jsonLiterals.ReplaceAllFunc(b, func(n []byte) []byte {
		if n[0] != '"' && slices.Contains(secrets, string(n)) {
			return []byte(`"` + redactedText + `"`)
		}
		return replaceSecrets(n, secrets)
	})
}

// jsonLiterals matches the strings and numbers of JSON.
var jsonLiterals = regexp.MustCompile(`"(?:[^"\\]|\\.)*"|-?[0-9][0-9.eE+-]*`)

func (r *redactor) text(s string) string {
	secrets := r.sentForms()
	r.mu.Lock()
	secrets = append(secrets, r.secrets...)
	r.mu.Unlock()
	for _, secret := range secrets {
		s = strings.ReplaceAll(s, secret, redactedText)
	}
	return s
}

// redactFailure removes secrets from an error result.
func (r *redactor) redactFailure(answer tool.Result) tool.Result {
	clean := tool.Result{Structured: r.json(answer.Structured), Meta: r.json(answer.Meta)}
	for _, p := range answer.Parts {
		p.Text, p.Raw, p.Data = r.text(p.Text), r.json(p.Raw), r.json(p.Data)
		clean.Parts = append(clean.Parts, p)
	}
	return clean
}

func (r *redactor) json(b []byte) []byte {
	if b == nil {
		return nil
	}
	return []byte(r.text(string(b)))
}
