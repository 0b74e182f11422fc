package oauth_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/sandpiper-mcp/sandpiper/internal/config"
	"github.com/sandpiper-mcp/sandpiper/internal/fault"
	"github.com/sandpiper-mcp/sandpiper/internal/feature/oauth"
)

// server reads a configuration with one server.
func server(t *testing.T, entry string) (config.Server, error) {
	t.Helper()
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "sandpiper.yaml"), []byte("servers:\n  x: "+entry+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	c, err := config.Load(config.Sources{Dir: dir, File: "sandpiper.yaml", Environ: []string{"HOME=" + dir},
		Features: []config.Section{oauth.Feature().Config}})
	if err != nil {
		return config.Server{}, err
	}
	return c.Servers[0], nil
}

func TestOAuthIsParsed(t *testing.T) {
	s, err := server(t, `{url: "https://example.com", oauth: {client_id: a, client_secret: "${B}", private_key: "${file:c}", client_metadata_url: "https://d",
    issuer: "https://e", redirect_url: "http://127.0.0.1/f", scopes: [g, h], grant: client_credentials}}`)
	if err != nil {
		t.Fatal(err)
	}
	want := &oauth.Client{ID: "a", Secret: "${B}", Key: "${file:c}", MetadataURL: "https://d", Issuer: "https://e",
		Redirect: "http://127.0.0.1/f", Scopes: []string{"g", "h"}, Machine: true}
	if d := cmp.Diff(want, s.Authorization); d != "" {
		t.Error(d)
	}
	of := s.Authorization.(*oauth.Client)
	of.Secret = "sesame"
	if shown := fmt.Sprintf("%v %+v %#v", of, s, of); strings.Contains(shown, "sesame") {
		t.Errorf("%s shows a secret", shown)
	}
}

func TestInvalidOAuthIsRejected(t *testing.T) {
	for entry, says := range map[string]string{
		`{url: "https://example.com", oauth: {client: a}}`: `server x: oauth has no key "client"; did you ` +
			`mean "client_id"?`,
		`{url: "https://example.com", oauth: {}}`:             `oauth must contain keys such as client_id`,
		`{url: "https://example.com", oauth: yes}`:            `oauth must contain keys such as client_id`,
		`{url: "https://example.com", oauth: {scopes: read}}`: `oauth has scopes, which must be a list of texts`,
		`{url: "https://example.com", oauth: {grant: password}}`: `oauth has grant, which is "password"; it must ` +
			`be authorization_code or client_credentials`,
		`{url: "https://example.com", oauth: {grant: client_credentials, client_id: a}}`: `which needs client_id, and client_secret or ` +
			`private_key`,
		`{url: "https://example.com", oauth: {client_secret: a}}`: `has a secret and no client_id`,
		`{command: x, oauth: {client_id: a}}`:                     `oauth needs a url`,
	} {
		if _, err := server(t, entry); fault.KindOf(err) != fault.Invalid || !strings.Contains(fault.Message(err), says) {
			t.Errorf("%s: %v, want %s", entry, err, says)
		}
	}
}
