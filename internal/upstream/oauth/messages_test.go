package oauth

import "testing"

func TestShellQuote(t *testing.T) {
	for name, want := range map[string]string{
		"github": "github", "my-api.v2": "my-api.v2", "": "''", "~x": "'~x'", "a#b": "'a#b'", "[a]": "'[a]'", "a\nb": "'a\nb'", "it's": `'it'\''s'`,
	} {
		if got := shellQuote(name); got != want {
			t.Errorf("shellQuote(%q) is %s, want %s", name, got, want)
		}
	}
}

func TestIssuerOrigin(t *testing.T) {
	for raw, want := range map[string]string{
		"https://login.example.com:8443/tenant?x=1": "https://login.example.com:8443", "no url": "(invalid URL)", "://": "(invalid URL)", "": "(invalid URL)",
	} {
		if got := issuerOrigin(raw); got != want {
			t.Errorf("issuerOrigin(%q) is %q, want %q", raw, got, want)
		}
	}
}
