package embedding

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/sandpiper-mcp/sandpiper/internal/config"
	"github.com/sandpiper-mcp/sandpiper/internal/fault"
	"github.com/sandpiper-mcp/sandpiper/internal/feature/embedding/model"
)

// sources returns those of files in a directory work, and of a user without other ones, with the feature.
func sources(t *testing.T, files map[string]string, environ ...string) config.Sources {
	t.Helper()
	dir := t.TempDir()
	for name, text := range files {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	home := []string{"HOME=" + dir, "USERPROFILE=" + dir, "APPDATA=" + dir, "LOCALAPPDATA=" + dir}
	return config.Sources{
		Dir:      filepath.Join(dir, "work"),
		File:     "sandpiper.yaml",
		Environ:  append(home, environ...),
		Features: []config.Section{Feature().Config},
	}
}

func load(t *testing.T, files map[string]string, environ ...string) *config.Config {
	t.Helper()
	c, err := config.Load(sources(t, files, environ...))
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// trusted loads the files of a trusted project.
func trusted(t *testing.T, files map[string]string) *config.Config {
	t.Helper()
	src := sources(t, files)
	src.File = ""
	project, err := config.Project(src)
	if err != nil {
		t.Fatal(err)
	}
	if err := config.Trust(src.Environ, project); err != nil {
		t.Fatal(err)
	}
	c, err := config.Load(src)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func TestEmbeddingsAreParsed(t *testing.T) {
	azure := []string{"AZURE_OPENAI_ENDPOINT=https://x.openai.azure.com", "AZURE_OPENAI_API_KEY=secret", "AZURE_OPENAI_EMBEDDER_NAME=ada",
		"AZURE_OPENAI_EMBEDDER_VERSION=2023-05-15"}
	azureOnly := Settings{Model: model.Config{Provider: "azure", URL: "${AZURE_OPENAI_ENDPOINT}", Model: "ada",
		Key: "${AZURE_OPENAI_API_KEY}", APIVersion: "2023-05-15"}}
	for name, c := range map[string]struct {
		yaml, dotenv string
		environ      []string
		want         Settings
	}{
		"openai": {"{provider: openai, model: m, api_key: '${OPENAI_API_KEY}', dimensions: 256, timeout: 1s}", "", nil, Settings{
			Model: model.Config{Provider: "openai", Model: "m", Key: "${OPENAI_API_KEY}", Dimensions: 256}, Timeout: time.Second}},
		"ollama": {"{provider: ollama, model: all-minilm, url: 'http://10.0.0.1:11434'}", "", azure,
			Settings{Model: model.Config{Provider: "ollama", Model: "all-minilm", URL: "http://10.0.0.1:11434"}}},
		"not configured": {"", "", azure, Settings{}},
		"azure from the environment": {"{provider: azure}", "", azure, Settings{
			Model: model.Config{Provider: "azure", URL: "${AZURE_OPENAI_ENDPOINT}", Model: "ada", Key: "${AZURE_OPENAI_API_KEY}",
				APIVersion: "2023-05-15"}}},
		"azure from .env": {"{provider: azure, model: large}", strings.Join(azure, "\n"), nil, Settings{
			Model: model.Config{Provider: "azure", URL: "${AZURE_OPENAI_ENDPOINT}", Model: "large", Key: "${AZURE_OPENAI_API_KEY}"}}},
		"azure from the file": {"{provider: azure, model: m, url: 'https://y', api_key: '${file:/k}', api_version: v}", "", azure, Settings{
			Model: model.Config{Provider: "azure", URL: "https://y", Model: "m", Key: "${file:/k}", APIVersion: "v"}}},
		"azure in short":             {"azure", "", azure, azureOnly},
		"azure of .env":              {"", strings.Join(azure, "\n"), nil, azureOnly},
		"azure of .env and the same": {"", strings.Join(azure, "\n"), azure, azureOnly},
		"azure of .env, incomplete":  {"", strings.Join(azure[:2], "\n"), azure, Settings{}},
		"none":                       {"none", strings.Join(azure, "\n"), azure, Settings{}},
		"another than azure of .env": {"{provider: ollama, model: m}", strings.Join(azure, "\n"), nil,
			Settings{Model: model.Config{Provider: "ollama", Model: "m"}}},
		"limits of azure of .env": {"{timeout: 1s}", strings.Join(azure, "\n"), nil,
			Settings{Model: azureOnly.Model, Timeout: time.Second}},
		"from variables": {"", "", []string{"SANDPIPER_SEARCH_EMBEDDINGS_PROVIDER=ollama", "SANDPIPER_SEARCH_EMBEDDINGS_MODEL=m"}, Settings{
			Model: model.Config{Provider: "ollama", Model: "m"}}},
	} {
		files := map[string]string{"work/.env": c.dotenv, "work/sandpiper.yaml": "profile: standard\n"}
		if c.yaml != "" {
			files["work/sandpiper.yaml"] = "search: {embeddings: " + c.yaml + "}"
		}
		src := sources(t, files, c.environ...)
		got, err := config.Load(src)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if d := cmp.Diff(c.want, *config.Of[Settings](got)); d != "" {
			t.Errorf("%s: %s", name, d)
		}
	}
}

// A variable that is set for another program must not redirect the queries and definitions, nor
// may a project.
func TestEnvironmentDoesNotRedirectSearch(t *testing.T) {
	dotenv := "AZURE_OPENAI_ENDPOINT=https://x.openai.azure.com\nAZURE_OPENAI_API_KEY=secret\nAZURE_OPENAI_EMBEDDER_NAME=ada\n"
	for _, other := range []string{"AZURE_OPENAI_ENDPOINT=https://other.openai.azure.com", "AZURE_OPENAI_API_KEY=other",
		"AZURE_OPENAI_EMBEDDER_NAME=x", "AZURE_OPENAI_EMBEDDER_VERSION=v", "AZURE_OPENAI_ENDPOINT="} {
		src := sources(t, map[string]string{"work/.env": dotenv, "work/sandpiper.yaml": ""}, other)
		got, err := config.Load(src)
		name, _, _ := strings.Cut(other, "=")
		if err != nil || config.Of[Settings](got).Model.Provider != "" || len(got.Warnings) != 1 || !strings.HasPrefix(got.Warnings[0],
			name+" in the environment differs from .env, so search uses no embeddings") {
			t.Errorf("%s: %+v, %v", other, got, err)
		}
	}
	got := trusted(t, map[string]string{"work/.env": dotenv, "work/sandpiper.yaml": "search: {embeddings: azure}\n"})
	if len(got.Files) != 2 || config.Of[Settings](got).Model.Provider != "" {
		t.Errorf("%+v", got)
	}
	got = trusted(t, map[string]string{"work/sandpiper.yaml": "search: {embeddings: {provider: openai, url: 'http://evil.example'}}\n"})
	if s := config.Of[Settings](got); s.Model.Provider != "" || s.Model.URL != "" ||
		!slices.Contains(got.Warnings, "sandpiper.yaml line 1: search.embeddings.url has no effect in a project; set it in your own "+
			"configuration") {
		t.Errorf("%+v, %q", s, got.Warnings)
	}
}

func TestInvalidEmbeddingsAreRejected(t *testing.T) {
	for yaml, want := range map[string]string{
		"{provider: cohere, model: m}": `search.embeddings.provider is "cohere"; it must be none, openai, ` +
			`azure, ollama or local`,
		"{model: m}": "search.embeddings.model has no effect without " +
			"search.embeddings.provider",
		"{provider: openai, api_key: sk-secret}":                 "search.embeddings.api_key must be a reference to the key",
		"{provider: openai, api_key: '${A} sk-secret'}":          "search.embeddings.api_key must be a reference to the key",
		"{provider: openai, url: 'https://u:sk-secret@x'}":       "search.embeddings.url must be a URL",
		"{provider: openai, url: 'https://x?api_key=sk-secret'}": "search.embeddings.url must be a URL",
		"{provider: openai, url: x}":                             "search.embeddings.url must be a URL",
		"{provider: ollama, api_version: v}":                     "search.embeddings.api_version does not apply to the provider ollama",
		"{provider: local, url: 'https://x'}":                    "search.embeddings.url does not apply to the provider local",
		"{provider: onnx, dir: ./m}":                             "ONNX files are no longer supported",
		"{dir: ./m}":                                             `search.embeddings.dir is "./m", but ONNX files are no longer supported`,
		"{provider: openai, dimensions: 0}":                      `search.embeddings.dimensions is "0"`,
		"{provider: openai, modle: m}":                           `did you mean "search.embeddings.model"?`,
		"{provider: openai, timeout: soon}":                      `search.embeddings.timeout is "soon"`,
		"true":                                                   `search.embeddings.provider is "true"; it must be none`,
		"[azure]":                                                "search.embeddings",
	} {
		src := sources(t, map[string]string{"work/sandpiper.yaml": "search:\n  embeddings: " + yaml})
		_, err := config.Load(src)
		if fault.KindOf(err) != fault.Invalid || !strings.Contains(fault.Message(err), want) || !strings.Contains(fault.Message(err),
			"sandpiper.yaml line 2") {
			t.Errorf("%s: %v", yaml, err)
		}
		if err != nil && strings.Contains(err.Error()+fault.Hint(err), "sk-") {
			t.Errorf("%s: the error contains the key: %v", yaml, err)
		}
	}
}

// The keys are those of one section, which a running daemon keeps.
func TestReloadKeepsTheModel(t *testing.T) {
	old := load(t, map[string]string{"work/sandpiper.yaml": "search: {embeddings: {provider: local}}\n"})
	next := load(t, map[string]string{"work/sandpiper.yaml": "search: {learn: false, embeddings: {provider: ollama, model: m, " +
		"timeout: 1s}}\n"})
	next.DataDir, next.CacheDir = old.DataDir, old.CacheDir
	if differ := next.KeepFixed(old, false); !slices.Equal(differ, []string{"search"}) || !cmp.Equal(config.Of[Settings](next),
		config.Of[Settings](old)) {
		t.Errorf("%q, %+v", differ, config.Of[Settings](next))
	}
}
