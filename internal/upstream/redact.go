package upstream

import (
	"bytes"
	"regexp"
	"slices"
	"strings"
	"sync"

	"github.com/sandpiper-mcp/sandpiper/internal/tool"
)

// redactor knows the secrets of one server and takes them out of texts.
type redactor struct {
	mu      sync.Mutex
	secrets []string
	passing []string // tokens, of which there are always new ones: the last of them
}

// passed is how many tokens are remembered: some that were replaced may still be
// in an answer under way.
const passed = 16

// shortest is how long a secret is at least: taking out shorter ones would
// garble texts and give them away.
const shortest = 4

// secretNames are names of variables and headers whose values are secrets also
// if they were written down as they are.
var secretNames = regexp.MustCompile(`(?i)key|token|secret|passw|credential|auth|cookie|session|dsn|connection`)

func secretive(name string) bool { return secretNames.MatchString(name) }

func (r *redactor) add(secret string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	// The scheme of an Authorization header is none of it.
	for _, s := range []string{secret, secret[strings.LastIndexByte(secret, ' ')+1:]} {
		if len(s) >= shortest && !slices.Contains(r.secrets, s) {
			r.secrets = append(r.secrets, s)
		}
	}
	slices.SortFunc(r.secrets, func(a, b string) int { return len(b) - len(a) }) // a part of another comes after it
}

// pass adds a token that will be replaced by another one day.
func (r *redactor) pass(token string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(token) >= shortest && !slices.Contains(r.passing, token) {
		r.passing = append(r.passing[max(0, len(r.passing)+1-passed):], token)
	}
}

// answer takes tokens out of what a server answered that repeats what it is sent.
func (r *redactor) answer(res tool.Result) tool.Result {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, token := range r.passing {
		clean := func(b []byte) []byte {
			if !bytes.Contains(b, []byte(token)) {
				return b
			}
			return bytes.ReplaceAll(b, []byte(token), []byte("[secret]"))
		}
		res.Structured, res.Meta = clean(res.Structured), clean(res.Meta)
		for i, p := range res.Parts {
			res.Parts[i].Text, res.Parts[i].Raw = strings.ReplaceAll(p.Text, token, "[secret]"), clean(p.Raw)
		}
	}
	return res
}

func (r *redactor) text(s string) string {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, secret := range slices.Concat(r.passing, r.secrets) {
		s = strings.ReplaceAll(s, secret, "[secret]")
	}
	return s
}

// result is what a tool answered with an error.
func (r *redactor) result(answer tool.Result) tool.Result {
	clean := tool.Result{Structured: r.json(answer.Structured), Meta: r.json(answer.Meta)}
	for _, p := range answer.Parts {
		p.Text, p.Raw = r.text(p.Text), r.json(p.Raw)
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
