package config

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/sandpiper-mcp/sandpiper/internal/fault"
)

// A token comes from the environment, or from .env next to the file.
func TestTokenFromDotenv(t *testing.T) {
	dir := t.TempDir()
	for name, text := range map[string]string{"sandpiper.yaml": "http: {token: '${FIRST}', tokens: {a: '${SECOND}'}}",
		".env": "FIRST=of-the-file-and-long\nSECOND=of-the-file-and-longer\n"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	c, err := Load(Sources{Dir: dir, File: "sandpiper.yaml", Environ: []string{"HOME=" + dir, "SECOND=of-the-environment"}})
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, token := range c.HTTP.Tokens {
		got = append(got, token.Secret)
	}
	if want := []string{"of-the-file-and-long", "of-the-environment"}; !slices.Equal(got, want) {
		t.Errorf("the tokens are %q, want %q", got, want)
	}
}

// Tokens must contain the resource if no audience is configured, and only then.
func TestAudienceDefaultsToTheResource(t *testing.T) {
	const minimal = "http: {oidc: {issuer: 'https://id.example.com', resource: 'https://mcp.example.com/mcp'"
	for more, want := range map[string]string{"": "https://mcp.example.com/mcp", ", audience: sandpiper": "sandpiper"} {
		c, err := loads(t, minimal+more+"}}")
		if err != nil || c.HTTP.OIDC.Audience != want {
			t.Errorf("%q: the audience is %+v, %v; want %q", more, c, err, want)
		}
	}
	if _, err := loads(t, "http: {oidc: {issuer: 'https://id.example.com'}}"); fault.KindOf(err) != fault.Invalid ||
		!strings.Contains(fault.Message(err), "resource is") {
		t.Error(err)
	}
}
