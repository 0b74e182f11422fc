package all_test

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"go.yaml.in/yaml/v3"

	"github.com/sandpiper-mcp/sandpiper/internal/config"
	"github.com/sandpiper-mcp/sandpiper/internal/config/section"
	"github.com/sandpiper-mcp/sandpiper/internal/daemon"
	"github.com/sandpiper-mcp/sandpiper/internal/feature"
	"github.com/sandpiper-mcp/sandpiper/internal/feature/all"
	"github.com/sandpiper-mcp/sandpiper/internal/feature/schedule"
	"github.com/sandpiper-mcp/sandpiper/internal/guardrail"
	"github.com/sandpiper-mcp/sandpiper/internal/policy"
	"github.com/sandpiper-mcp/sandpiper/internal/privacy/detect"
	"github.com/sandpiper-mcp/sandpiper/internal/privacy/redact"
)

// schema is the JSON Schema of the configuration with all features.
func schema(t *testing.T) []byte {
	t.Helper()
	text, err := config.JSONSchema(daemon.Sections(feature.OfDaemon(all.Features())))
	if err != nil {
		t.Fatal(err)
	}
	return text
}

// keys returns the names of all keys, without those of their sections; of sections also the names at the
// root of the file.
func keys(t *testing.T) (names []string, roots map[string]json.RawMessage) {
	t.Helper()
	type node struct{ Properties map[string]json.RawMessage }
	var add func(name string, text json.RawMessage)
	add = func(name string, text json.RawMessage) {
		var n node
		if err := json.Unmarshal(text, &n); err != nil {
			t.Fatal(err)
		}
		if len(n.Properties) == 0 {
			names = append(names, name)
		}
		for part, text := range n.Properties {
			add(strings.TrimPrefix(name+"."+part, "."), text)
		}
		if name == "" {
			roots = n.Properties
		}
	}
	add("", schema(t))
	return names, roots
}

// inDocuments are the configurations in a document: those blocks of YAML that begin
// with a key of ours.
func inDocuments(t *testing.T, file string) (all []string) {
	t.Helper()
	_, roots := keys(t)
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range regexp.MustCompile("(?ms)^```yaml\n(.*?)^```").FindAllStringSubmatch(string(text), -1) {
		if strings.Contains(m[1], "one of these") {
			continue
		}
		first := regexp.MustCompile(`(?m)^([a-z_]+):`).FindStringSubmatch(m[1])
		if first != nil && roots[first[1]] != nil {
			all = append(all, m[1])
		}
	}
	return all
}

// loads loads a configuration as a person would have it.
func loads(t *testing.T, text string) (*config.Config, error) {
	t.Helper()
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "sandpiper.yaml"), []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	environ := []string{"HOME=" + dir, "USERPROFILE=" + dir, "APPDATA=" + dir, "LOCALAPPDATA=" + dir}
	for _, m := range regexp.MustCompile(`\$\{([A-Z_]+)\}`).FindAllStringSubmatch(text, -1) {
		environ = append(environ, m[1]+"="+m[1]+"_and_enough_letters_for_a_token")
	}
	return config.Load(config.Sources{Dir: dir, File: "sandpiper.yaml", Environ: environ,
		Features: daemon.Sections(feature.OfDaemon(all.Features()))})
}

func TestDocumentExamplesLoad(t *testing.T) {
	files, err := filepath.Glob("../../../docs/*.md")
	if err != nil || len(files) == 0 {
		t.Fatal(files, err)
	}
	schema := compileSchema(t)
	n := 0
	for _, f := range append(files, "../../../README.md") {
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
	value, err := jsonschema.UnmarshalJSON(bytes.NewReader(schema(t)))
	if err != nil {
		t.Fatal(err)
	}
	c := jsonschema.NewCompiler()
	if err := c.AddResource(config.SchemaFile, value); err != nil {
		t.Fatal(err)
	}
	return c.MustCompile(config.SchemaFile)
}

func TestEveryKeyIsDocumented(t *testing.T) {
	blocks := inDocuments(t, "../../../docs/configuration.md")
	if len(blocks) != 1 {
		t.Fatalf("%d configurations", len(blocks))
	}
	names, _ := keys(t)
	var documented map[string]any
	instead := regexp.MustCompile(`(?m)^( *)# ([a-z_]+: [\[{])`) // a key that excludes another
	if err := yaml.Unmarshal(instead.ReplaceAll([]byte(blocks[0]), []byte("$1$2")), &documented); err != nil {
		t.Fatal(err)
	}
	for _, k := range names {
		// rejected, or of one provider, in search.md
		if last := k[strings.LastIndexByte(k, '.')+1:]; last == "dir" || last == "api_version" {
			continue
		}
		at, found := any(documented), true
		for _, part := range strings.Split(k, ".") {
			m, _ := at.(map[string]any)
			at, found = m[part]
		}
		if !found {
			t.Errorf("docs/configuration.md has no %s", k)
		}
	}
	names = nil
	for _, entry := range []any{&policy.Rule{}, &policy.Budget{}, &guardrail.HookConfig{}, &redact.Flow{}, &detect.Pattern{},
		&schedule.Entry{}} {
		for _, f := range section.Fields(entry) {
			names = append(names, f.Name[strings.LastIndexByte(f.Name, '.')+1:])
		}
	}
	for _, k := range names {
		if !regexp.MustCompile(`(?m)(^|[ {])` + regexp.QuoteMeta(k) + `:`).MatchString(blocks[0]) {
			t.Errorf("docs/configuration.md has no %s", k)
		}
	}
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
