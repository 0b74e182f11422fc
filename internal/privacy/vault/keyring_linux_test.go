package vault_test

import (
	"encoding/base64"
	"strings"
	"testing"

	"github.com/zalando/go-keyring"

	"github.com/sandpiper-mcp/sandpiper/internal/fault"
	"github.com/sandpiper-mcp/sandpiper/internal/privacy/vault"
	"github.com/sandpiper-mcp/sandpiper/internal/store/secret/secrettest"
)

func TestKeyringMaster(t *testing.T) {
	secrettest.Bus(t)
	secrettest.Keyring(t, "password")
	p := newTestDir(t)
	master, err := vault.OpenMaster(t.Context(), "keyring:sandpiper/vault", p.dir)
	if err != nil {
		t.Fatal(err)
	}
	inKeyring := func(c *vault.Config) { c.Master = master }
	refused := func(name, want string) {
		t.Helper()
		_, err := p.open(t, "a", inKeyring).Tokenize(t.Context(), "", []vault.Value{email("new@example.com")})
		if err == nil || !strings.Contains(fault.Message(err), want) || fault.Hint(err) == "" {
			t.Errorf("%s: %v", name, err)
		}
	}
	put := func(text string) {
		t.Helper()
		if err := keyring.Set("sandpiper", "vault", text); err != nil {
			t.Fatal(err)
		}
	}
	refused("nothing there", "contains no secret sandpiper/vault")
	put("a password")
	refused("no key", "is not a master key")
	first := base64.StdEncoding.EncodeToString([]byte(strings.Repeat("1", 32)))
	put(first + "\n")
	for _, name := range []string{"a", "b"} {
		tokens := tokenize(t, p.open(t, name, inKeyring), "", variety...)
		if got := restores(t, p.open(t, name, inKeyring), "", tokens...); got[tokens[0]] != variety[0] {
			t.Errorf("%s gives %v", tokens[0], got[tokens[0]])
		}
	}
	put(base64.StdEncoding.EncodeToString([]byte(strings.Repeat("2", 32))))
	refused("another key", "is required, but keyring entry")
	put(first)
	tokenize(t, p.open(t, "a", inKeyring), "", email("new@example.com"))
}
