package upstream

import (
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
}

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

func (r *redactor) text(s string) string {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, secret := range r.secrets {
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
