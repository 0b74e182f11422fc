package oauth

import "testing"

func TestIssuerOrigin(t *testing.T) {
	for raw, want := range map[string]string{
		"https://login.example.com:8443/tenant?x=1": "https://login.example.com:8443", "no url": "(invalid URL)", "://": "(invalid URL)",
		"": "(invalid URL)",
	} {
		if got := issuerOrigin(raw); got != want {
			t.Errorf("issuerOrigin(%q) is %q, want %q", raw, got, want)
		}
	}
}
