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

// redactor knows the secrets of one server and takes them out of texts.
type redactor struct {
	mu      sync.Mutex
	secrets []string
	// What is sent with calls is taken out of answers too. Each entry has the forms
	// of one secret, the last used at the end.
	sent   [][]string // as configured
	tokens [][]string // tokens, of which there are always new ones
}

// remembered is how many secrets of a kind that are sent with calls are known: one
// that was replaced may still be in an answer under way.
const maxRemembered = 64

// shortest is how long a secret is at least: taking out shorter ones would
// garble texts and give them away.
const minSecretLen = 4

// secretNames are names of variables and headers whose values are secrets also
// if they were written down as they are.
var secretNames = regexp.MustCompile(`(?i)key|token|secret|passw|credential|auth|cookie|session|dsn|connection`)

func isSecretName(name string) bool { return secretNames.MatchString(name) }

// add adds a secret that is taken out of messages.
func (r *redactor) addSecret(secret string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	// The scheme of an Authorization header is none of it.
	for _, s := range []string{secret, secret[strings.LastIndexByte(secret, ' ')+1:]} {
		if len(s) >= minSecretLen && !slices.Contains(r.secrets, s) {
			r.secrets = append(r.secrets, s)
		}
	}
	slices.SortFunc(r.secrets, byLength) // a part of another comes after it
}

func byLength(a, b string) int { return len(b) - len(a) }

// send adds a configured secret that is sent with calls.
func (r *redactor) addSent(secret string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.sent = remember(r.sent, secret)
}

// pass adds a token that will be replaced by another one day.
func (r *redactor) addToken(token string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.tokens = remember(r.tokens, token)
}

// recall puts a secret at the end of those that are remembered.
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

// sendHeader adds the value of a header, and what follows its scheme.
func (r *redactor) addSentHeader(value string) {
	r.addSent(value)
	if _, after, ok := strings.Cut(value, " "); ok && !strings.Contains(after, " ") {
		r.addSent(after)
	}
}

// forms are the ways in which answers repeat a text, itself first: as it is, in a
// URL, in JSON and in HTML.
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

// ascii writes the text of a JSON string as encoders do that write ASCII only.
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

// answer takes secrets out of what a server answered that repeats what it is sent.
func (r *redactor) redactResult(res tool.Result) tool.Result {
	all := r.sentForms()
	res.Structured, res.Meta = replaceSecrets(res.Structured, all), replaceSecrets(res.Meta, all)
	for i, p := range res.Parts {
		p.Text = string(replaceSecrets([]byte(p.Text), all))
		p.Data, p.Raw = replaceSecrets(p.Data, all), replaceSecrets(p.Raw, all)
		res.Parts[i] = p
	}
	return res
}

// inAnswers are the forms of all secrets that answers may repeat, long ones first.
func (r *redactor) sentForms() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	all := slices.Concat(slices.Concat(r.sent, r.tokens)...)
	slices.SortFunc(all, byLength)
	return all
}

// redacted returns b without secrets: b itself if it has none. JSON stays JSON.
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
	// A number was a secret.
	return jsonLiterals.ReplaceAllFunc(b, func(n []byte) []byte {
		if n[0] != '"' && slices.Contains(secrets, string(n)) {
			return []byte(`"` + redactedText + `"`)
		}
		return replaceSecrets(n, secrets)
	})
}

// numbers finds the strings and numbers of JSON.
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

// result is what a tool answered with an error.
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
