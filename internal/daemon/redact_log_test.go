package daemon_test

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/pem"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/sandpiper-mcp/sandpiper/internal/config"
	"github.com/sandpiper-mcp/sandpiper/internal/daemon"
)

// keyText is a private key in as many lines as one has.
func keyText(t *testing.T, large bool) string {
	t.Helper()
	var key any
	var err error
	if key, err = ecdsa.GenerateKey(elliptic.P256(), rand.Reader); large && err == nil {
		key, err = rsa.GenerateKey(rand.Reader, 2048)
	}
	if err != nil {
		t.Fatal(err)
	}
	der, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	return string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der}))
}

// What a program writes to stderr may hold values of any tenant. It is shown to all
// tenants, in the log and to the operator.
func TestServerStderrIsRedacted(t *testing.T) {
	dir := t.TempDir()
	small, large := keyText(t, false), keyText(t, true) // the large one begins before the lines that are shown
	words := "cannot mail ada.lovelace@example.org, SSN 457-55-5462\n" + small + strings.Repeat("more\n", 5) +
		"card 4111 1111 1111 1111\n" + large + "the end\n"
	file := filepath.Join(dir, "words")
	if err := os.WriteFile(file, []byte(words), 0o600); err != nil {
		t.Fatal(err)
	}
	log := filepath.Join(dir, "log")
	cfg := config.Config{DataDir: filepath.Join(dir, "data")}
	cfg.Log.File, cfg.Log.Level = log, slog.LevelDebug
	cfg.Servers = []config.Server{{Name: "crm", Command: "sh", Args: []string{"-c", "cat " + file + " >&2; exit 3"}}}
	d := start(t, daemon.Config{Config: cfg})
	_, err := d.Servers.List(t.Context(), "crm")
	if err == nil {
		t.Fatal("a server that ended was listed")
	}
	shown := err.Error()
	for _, s := range d.Servers.Set.States() {
		if len(s.Stderr) == 0 || s.Stderr[len(s.Stderr)-1] != "the end" {
			t.Errorf("%+v", s)
		}
		shown += strings.Join(s.Stderr, "\n")
	}
	logged, err := os.ReadFile(log)
	if err != nil || !strings.Contains(string(logged), "the end") {
		t.Errorf("%s %v", logged, err)
	}
	secrets := []string{"ada.lovelace@example.org", "457-55-5462", "4111 1111 1111 1111"}
	for _, key := range []string{small, large} {
		lines := strings.Split(strings.TrimSpace(key), "\n")
		secrets = append(secrets, lines[1:len(lines)-1]...)
	}
	for _, s := range secrets {
		if strings.Contains(shown, s) {
			t.Errorf("%q is shown:\n%s", s, shown)
		}
		if strings.Contains(string(logged), s) {
			t.Errorf("%q is in the log", s)
		}
	}
}

// The log redacts texts wherever they come from.
func TestLogIsRedacted(t *testing.T) {
	file := filepath.Join(t.TempDir(), "log")
	cfg := config.Config{DataDir: filepath.Join(t.TempDir(), "data"), Warnings: []string{"ask ada.lovelace@example.org"}}
	cfg.Log.File = file
	start(t, daemon.Config{Config: cfg})
	b, err := os.ReadFile(file)
	if err != nil || !strings.Contains(string(b), "ask [EMAIL_withheld]") {
		t.Errorf("%s %v", b, err)
	}
}

// Whoever serves a daemon over HTTP learns which setting lets a model see values.
func TestRefusedRestoreNamesSetting(t *testing.T) {
	for _, c := range []struct {
		served  bool
		restore string
		refused bool
	}{{true, "", true}, {true, "auto", true}, {true, "allow", false}, {false, "", false}, {false, "deny", true}} {
		cfg := config.Config{DataDir: filepath.Join(t.TempDir(), "data")}
		cfg.PII.Restore = c.restore
		s := serve(t, t.Context(), start(t, daemon.Config{Config: cfg, Served: c.served}))
		s.ask(hello)
		got := s.ask(call("restore_pii", `{"text":"none"}`))
		if strings.Contains(got, "refused: the setting pii.restore ") != c.refused || strings.Contains(got, "restored_text") == c.refused {
			t.Errorf("%+v: %s", c, got)
		}
	}
}
