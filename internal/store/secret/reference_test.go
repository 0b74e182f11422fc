package secret_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/sandpiper-mcp/sandpiper/internal/fault"
	"github.com/sandpiper-mcp/sandpiper/internal/store/secret"
)

func references() *secret.References {
	return &secret.References{Lookup: func(name string) (string, bool) {
		v, ok := map[string]string{"TOKEN": "t0ken", "EMPTY": "", "NESTED": "${TOKEN}"}[name]
		return v, ok
	}}
}

func TestResolve(t *testing.T) {
	path := filepath.Join(t.TempDir(), "token")
	if err := os.WriteFile(path, []byte("from a file\r\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for text, want := range map[string]string{
		"":                          "",
		"nothing":                   "nothing",
		"$5 $HOME $ {TOKEN} }":      "$5 $HOME $ {TOKEN} }",
		"${TOKEN":                   "${TOKEN",
		"Bearer ${TOKEN}":           "Bearer t0ken",
		"${TOKEN}${EMPTY}-${TOKEN}": "t0ken-t0ken",
		"${NESTED}":                 "${TOKEN}", // references within a value are not resolved
		"${file:" + path + "}, x":   "from a file, x",
	} {
		if got, err := references().Resolve(t.Context(), text); err != nil || got != want {
			t.Errorf("Resolve(%q) = %q, %v; want %q", text, got, err, want)
		}
	}
}

func TestResolveErrorsContainNoSecret(t *testing.T) {
	big := filepath.Join(t.TempDir(), "big")
	if err := os.WriteFile(big, []byte(strings.Repeat("s3cret", 20_000)), 0o600); err != nil {
		t.Fatal(err)
	}
	for text, want := range map[string]string{
		"${MISSING}":                  "the variable MISSING is not set",
		"${}":                         "the variable  is not set",
		"${file:/no/such/file}":       "the secret file /no/such/file cannot be read",
		"${file:" + big + "}":         "the secret file " + big + " cannot be read",
		"${file:" + t.TempDir() + "}": "cannot be read",
		"${TOKEN:-s3cret}":            "the reference ${TOKEN:…} has an unknown kind",
		"${vault:s3cret}":             "the reference ${vault:…} has an unknown kind",
		"${keyring:}":                 "has no service or no account",
		"${keyring:service}":          "has no service or no account",
		"${keyring:service/}":         "has no service or no account",
		"${keyring:/account}":         "has no service or no account",
	} {
		got, err := references().Resolve(t.Context(), "x-${TOKEN}-"+text)
		if got != "" || fault.KindOf(err) != fault.Invalid || !strings.Contains(fault.Message(err), want) || fault.Hint(err) == "" {
			t.Errorf("Resolve(%q) = %q, %v (hint %q); want %q", text, got, err, fault.Hint(err), want)
		}
		if err != nil && strings.Contains(err.Error()+fault.Hint(err), "s3cret") {
			t.Errorf("Resolve(%q) shows a secret: %v", text, err)
		}
	}
}

func TestResolveWithoutLookup(t *testing.T) {
	var r secret.References
	if got, err := r.Resolve(t.Context(), "${HOME}"); err == nil {
		t.Errorf("got %q", got)
	}
}
