package config

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// loads loads a configuration as a person would have it.
func loads(t *testing.T, text string, features ...Section) (*Config, error) {
	t.Helper()
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "sandpiper.yaml"), []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	environ := []string{"HOME=" + dir, "USERPROFILE=" + dir, "APPDATA=" + dir, "LOCALAPPDATA=" + dir}
	for _, m := range regexp.MustCompile(`\$\{([A-Z_]+)\}`).FindAllStringSubmatch(text, -1) {
		environ = append(environ, m[1]+"="+m[1]+"_and_enough_letters_for_a_token")
	}
	return Load(Sources{Dir: dir, File: "sandpiper.yaml", Environ: environ, Features: features})
}

func TestEmptySectionIsAllowed(t *testing.T) {
	for k := range core.keys {
		if section, _, found := strings.Cut(k, "."); found && section != "execution" {
			if _, err := loads(t, section+":\n"); err != nil {
				t.Error(err)
			}
		}
	}
}

func TestTenantConcurrencyDefault(t *testing.T) {
	for name, c := range map[string]struct {
		text string
		want int
	}{
		"alone":     {"http: {token: 0123456789abcdef}\n", 0},
		"of two":    {"http: {token: 0123456789abcdef, tokens: {bob: fedcba9876543210}}\n", 6},
		"of few":    {"http: {tokens: {ann: 0123456789abcdef, bob: fedcba9876543210}}\nsandbox: {concurrency: 2}\n", 1},
		"as said":   {"http: {tokens: {ann: 0123456789abcdef, bob: fedcba9876543210}}\nsandbox: {tenant_concurrency: 3}\n", 3},
		"said once": {"sandbox: {tenant_concurrency: 2}\n", 2},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := loads(t, c.text)
			if err != nil {
				t.Fatal(err)
			}
			if got.Admit.PerOwner != c.want {
				t.Errorf("%d slots, want %d", got.Admit.PerOwner, c.want)
			}
		})
	}
}
