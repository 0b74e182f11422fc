package redact_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/sandpiper-mcp/sandpiper/internal/privacy/redact"
	"github.com/sandpiper-mcp/sandpiper/internal/privacy/vault"
)

// Whatever a text is, it leaves without the values that are in it, JSON as JSON, and
// comes back as it was; what left once leaves again as it is, unless it has
// something that only looks like a token.
func FuzzRedactRestore(f *testing.F) {
	for _, s := range []string{
		"mail ada@example.com", `{"ssn":123456789}`, `["ada@exam","ple.com"]`, `{"a":"{\"b\":\"ada@example.com\\n\"}"}`, `"`, `{"a":`, "\\u0061da@example.com",
		`{"ada@example.com":[4111111111111111,{"phone":"(212) 555-0123"}]}`, "YWRhQGV4YW1wbGUuY29t", "[EMAIL_aaaaaaaaaaaaaaaa]", `[["x\ty","a d a @ e x a m p l e . c o m"]]`,
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
		e := r.exit()
		out, err := e.Tokenize(t.Context(), "", text)
		if err != nil {
			t.Fatal(err)
		}
		if plant && strings.Contains(out, secret) {
			t.Fatalf("%q left as %q", text, out)
		}
		var object map[string]any // or a list; a number by itself is a text
		var list []any
		if (json.Unmarshal([]byte(text), &object) == nil || json.Unmarshal([]byte(text), &list) == nil) && text != "null" && !json.Valid([]byte(out)) {
			t.Fatalf("%q is JSON, and left as %q", text, out)
		}
		if places := vault.FindTokens(text); len(places) > 0 || strings.Contains(text, "\\u00") || spread(out) {
			return
		}
		again, err := e.Tokenize(t.Context(), "", out)
		if err != nil || again != out {
			t.Fatalf("%q left as %q and then as %q, %v", text, out, again, err)
		}
		back, err := e.RestoreText(t.Context(), redact.ToFile, out)
		if err != nil || !same(back, text) {
			t.Fatalf("%q left as %q and came back as %q, %v", text, out, back, err)
		}
	})
}

// spread tells whether a value may have been put together from several strings, all
// of which then comes back in the first.
func spread(out string) bool { return strings.Contains(out, `""`) }

// same compares JSON by what it says: a string that had a value is written anew.
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
