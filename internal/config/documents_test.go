package config

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// loads loads a configuration as a person would have it.
func loads(t *testing.T, text string) (*Config, error) {
	t.Helper()
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "sandpiper.yaml"), []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	environ := []string{"HOME=" + dir, "USERPROFILE=" + dir, "APPDATA=" + dir, "LOCALAPPDATA=" + dir}
	for _, m := range regexp.MustCompile(`\$\{([A-Z_]+)\}`).FindAllStringSubmatch(text, -1) {
		environ = append(environ, m[1]+"="+m[1]+"_and_enough_letters_for_a_token")
	}
	return Load(Sources{Dir: dir, File: "sandpiper.yaml", Environ: environ})
}

// The configuration that the project was designed with.
func TestReadmeConfigurationLoads(t *testing.T) {
	c, err := loads(t, `profile: standard
sandbox: {backend: auto, timeout: 30s, memory_mb: 500, max_timeout: 300s, max_memory_mb: 2048}
servers:                      # same shape as clients' mcpServers: command/args/env or url/headers
  github: {command: npx, args: [-y, "@modelcontextprotocol/server-github"], env: {GITHUB_TOKEN: "${GITHUB_TOKEN}"}, category: dev}
catalog: [./tools_registry/full_catalog.json, {openapi: ./github.yaml, name: github_rest}]
pii: {mode: egress, flows: [{types: [EMAIL], to: "crm.*", decision: allow}]}
policy: {rules: [{tool: "*.delete_*", decision: ask}, {when: "tool.destructive && tenant != 'ops'", decision: ask}], default: allow}
`)
	if err != nil || len(c.Warnings) > 0 {
		t.Fatal(c, err)
	}
	if len(c.Policy.Rules) != 2 || c.Policy.Default != "allow" || len(c.PII.Flows) != 1 || len(c.Servers) != 2 {
		t.Errorf("%+v", c)
	}
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
