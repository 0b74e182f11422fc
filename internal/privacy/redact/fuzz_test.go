package redact_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/sandpiper-mcp/sandpiper/internal/privacy/redact"
	"github.com/sandpiper-mcp/sandpiper/internal/privacy/vault"
)

// Redacted text contains no value, JSON stays JSON, and restoring returns the
// original. Redacting twice equals redacting once, except for foreign tokens.
func FuzzRedactRestore(f *testing.F) {
	for _, s := range []string{
		"mail ada@example.com", `{"ssn":123456789}`, `["ada@exam","ple.com"]`, `{"a":"{\"b\":\"ada@example.com\\n\"}"}`, `"`, `{"a":`,
		"\\u0061da@example.com",
		`{"ada@example.com":[4111111111111111,{"phone":"(212) 555-0123"}]}`, "YWRhQGV4YW1wbGUuY29t", "[EMAIL_aaaaaaaaaaaaaaaa]",
		`[["x\ty","a d a @ e x a m p l e . c o m"]]`,
	} {
		f.Add(s, false)
		f.Add(s, true)
	}
	r := newRig(f, redact.Config{Mode: redact.Egress})
	const secret = "ada@example.com"
	f.Fuzz(func(t *testing.T, text string, plant bool) {
		if plant {
			i := len(text) / 2
			text = text[:i] + " " + secret + " " + text[i:]
		}
		if len(text) > 4096 {
			return
		}
		e := r.gate()
		out, err := e.Tokenize(t.Context(), "", text)
		if err != nil {
			t.Fatal(err)
		}
		if plant && strings.Contains(out, secret) {
			t.Fatalf("redact %q: %q", text, out)
		}
		var object map[string]any // or an array; a bare number is text
		var list []any
		if (json.Unmarshal([]byte(text), &object) == nil || json.Unmarshal([]byte(text), &list) == nil) && text != "null" &&
			!json.Valid([]byte(out)) {
			t.Fatalf("redact JSON %q: %q", text, out)
		}
		if places := vault.FindTokens(text); len(places) > 0 || strings.Contains(text, "\\u00") || spread(out) {
			return
		}
		again, err := e.Tokenize(t.Context(), "", out)
		if err != nil || again != out {
			t.Fatalf("redact %q: %q, and again: %q, %v", text, out, again, err)
		}
		back, err := e.Restorer().Text(t.Context(), redact.ToFile, out)
		if err != nil || !same(back, text) {
			t.Fatalf("redact %q: %q, restored: %q, %v", text, out, back, err)
		}
	})
}

// spread reports whether a value may have been assembled from several strings; it is
// then restored in the first one.
func spread(out string) bool { return strings.Contains(out, `""`) }

// same compares decoded JSON, because strings with values are re-encoded.
func same(a, b string) bool {
	if a == b {
		return true
	}
	var x, y any
	if json.Unmarshal([]byte(a), &x) != nil || json.Unmarshal([]byte(b), &y) != nil {
		return false
	}
	p, _ := json.Marshal(x)
	q, _ := json.Marshal(y)
	return string(p) == string(q)
}
