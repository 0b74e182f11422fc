package config

import (
	"bytes"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/goccy/go-yaml"
	"github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/sandpiper-mcp/sandpiper/internal/config/section"
	"github.com/sandpiper-mcp/sandpiper/internal/guardrail"
	"github.com/sandpiper-mcp/sandpiper/internal/policy"
	"github.com/sandpiper-mcp/sandpiper/internal/privacy/detect"
	"github.com/sandpiper-mcp/sandpiper/internal/privacy/redact"
)

// inDocuments are the configurations in a document: those blocks of YAML that begin
// with a key of ours.
func inDocuments(t *testing.T, file string) (all []string) {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range regexp.MustCompile("(?ms)^```yaml\n(.*?)^```").FindAllStringSubmatch(string(text), -1) {
		if strings.Contains(m[1], "one of these") {
			continue
		}
		first := regexp.MustCompile(`(?m)^([a-z_]+):`).FindStringSubmatch(m[1])
		if first != nil && (core.known(first[1])) {
			all = append(all, m[1])
		}
	}
	return all
}

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

func TestDocumentExamplesLoad(t *testing.T) {
	files, err := filepath.Glob("../../docs/*.md")
	if err != nil || len(files) == 0 {
		t.Fatal(files, err)
	}
	schema := compileSchema(t)
	n := 0
	for _, f := range append(files, "../../README.md") {
		for _, text := range inDocuments(t, f) {
			n++
			if c, err := loads(t, text); err != nil || len(c.Warnings) > 0 {
				t.Errorf("%s: %v %+v\n%s", f, err, c, text)
			}
			var value any
			if err := yaml.Unmarshal([]byte(text), &value); err != nil {
				t.Fatal(err)
			}
			if err := schema.Validate(value); err != nil {
				t.Errorf("%s: %v\n%s", f, err, text)
			}
		}
	}
	if n < 15 {
		t.Errorf("only %d examples were found", n)
	}
}

// compileSchema compiles the JSON Schema of a configuration file.
func compileSchema(t *testing.T) *jsonschema.Schema {
	t.Helper()
	text, err := JSONSchema(nil)
	if err != nil {
		t.Fatal(err)
	}
	value, err := jsonschema.UnmarshalJSON(bytes.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	c := jsonschema.NewCompiler()
	if err := c.AddResource(SchemaFile, value); err != nil {
		t.Fatal(err)
	}
	return c.MustCompile(SchemaFile)
}

func TestEveryKeyIsDocumented(t *testing.T) {
	all := inDocuments(t, "../../docs/configuration.md")
	if len(all) != 1 {
		t.Fatalf("%d configurations", len(all))
	}
	var names []string
	for _, m := range []map[string]bool{partsOf(scheduleKeys), partsOf(targetKeys)} {
		names = append(names, slices.Collect(maps.Keys(m))...)
	}
	for _, entry := range []any{&policy.Rule{}, &policy.Budget{}, &guardrail.HookConfig{}, &redact.Flow{}, &detect.Pattern{}} {
		for _, f := range section.Fields(entry) {
			names = append(names, f.Name)
		}
	}
	for k := range core.keys {
		names = append(names, k[strings.LastIndexByte(k, '.')+1:])
	}
	for _, k := range names {
		if _, seed := seedKeys[k]; seed || k == "dir" || k == "api_version" { // rejected, or of one provider, in search.md
			continue
		}
		if !regexp.MustCompile(`(?m)(^|[ {])` + regexp.QuoteMeta(k) + `:`).MatchString(all[0]) {
			t.Errorf("docs/configuration.md has no %s", k)
		}
	}
}

func partsOf[T any](p parsers[T]) map[string]bool {
	all := map[string]bool{}
	for k := range p {
		all[k] = true
	}
	return all
}

// The configuration that the project was designed with.
func TestReadmeConfigurationLoads(t *testing.T) {
	c, err := loads(t, `profile: standard
sandbox: {backend: auto, timeout: 30s, memory_mb: 500, restricted: false, max_timeout: 300s, max_memory_mb: 2048}
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
