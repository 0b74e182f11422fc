package config_test

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/sandpiper-mcp/sandpiper/internal/config"
	"github.com/sandpiper-mcp/sandpiper/internal/fault"
	"github.com/sandpiper-mcp/sandpiper/internal/tool/catalog/embedding/model"
)

func TestEmbeddingsAreParsed(t *testing.T) {
	azure := []string{"AZURE_OPENAI_ENDPOINT=https://x.openai.azure.com", "AZURE_OPENAI_API_KEY=secret", "AZURE_OPENAI_EMBEDDER_NAME=ada", "AZURE_OPENAI_EMBEDDER_VERSION=2023-05-15"}
	azureOnly := config.Search{Embeddings: model.Config{Provider: "azure", URL: "${AZURE_OPENAI_ENDPOINT}", Model: "ada", Key: "${AZURE_OPENAI_API_KEY}", APIVersion: "2023-05-15"}}
	for name, c := range map[string]struct {
		yaml, dotenv string
		environ      []string
		want         config.Search
	}{
		"openai": {"{provider: openai, model: m, api_key: '${OPENAI_API_KEY}', dimensions: 256, timeout: 1s}", "", nil, config.Search{
			Embeddings: model.Config{Provider: "openai", Model: "m", Key: "${OPENAI_API_KEY}", Dimensions: 256}, Timeout: time.Second}},
		"ollama":         {"{provider: ollama, model: all-minilm, url: 'http://10.0.0.1:11434'}", "", azure, config.Search{Embeddings: model.Config{Provider: "ollama", Model: "all-minilm", URL: "http://10.0.0.1:11434"}}},
		"not configured": {"", "", azure, config.Search{}},
		"azure from the environment": {"{provider: azure}", "", azure, config.Search{
			Embeddings: model.Config{Provider: "azure", URL: "${AZURE_OPENAI_ENDPOINT}", Model: "ada", Key: "${AZURE_OPENAI_API_KEY}", APIVersion: "2023-05-15"}}},
		"azure from .env": {"{provider: azure, model: large}", strings.Join(azure, "\n"), nil, config.Search{
			Embeddings: model.Config{Provider: "azure", URL: "${AZURE_OPENAI_ENDPOINT}", Model: "large", Key: "${AZURE_OPENAI_API_KEY}"}}},
		"azure from the file": {"{provider: azure, model: m, url: 'https://y', api_key: '${file:/k}', api_version: v}", "", azure, config.Search{
			Embeddings: model.Config{Provider: "azure", URL: "https://y", Model: "m", Key: "${file:/k}", APIVersion: "v"}}},
		"azure in short":             {"azure", "", azure, azureOnly},
		"azure of .env":              {"", strings.Join(azure, "\n"), nil, azureOnly},
		"azure of .env and the same": {"", strings.Join(azure, "\n"), azure, azureOnly},
		"azure of .env, incomplete":  {"", strings.Join(azure[:2], "\n"), azure, config.Search{}},
		"none":                       {"none", strings.Join(azure, "\n"), azure, config.Search{}},
		"another than azure of .env": {"{provider: ollama, model: m}", strings.Join(azure, "\n"), nil, config.Search{Embeddings: model.Config{Provider: "ollama", Model: "m"}}},
		"limits of azure of .env":    {"{timeout: 1s}", strings.Join(azure, "\n"), nil, config.Search{Embeddings: azureOnly.Embeddings, Timeout: time.Second}},
		"from variables": {"", "", []string{"SANDPIPER_SEARCH_EMBEDDINGS_PROVIDER=ollama", "SANDPIPER_SEARCH_EMBEDDINGS_MODEL=m"}, config.Search{
			Embeddings: model.Config{Provider: "ollama", Model: "m"}}},
	} {
		files := map[string]string{"work/.env": c.dotenv, "work/sandpiper.yaml": "profile: standard\n"}
		if c.yaml != "" {
			files["work/sandpiper.yaml"] = "search: {embeddings: " + c.yaml + "}"
		}
		src, _ := sources(t, files, c.environ...)
		got, err := config.Load(src)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		c.want.Learn = true
		if d := cmp.Diff(c.want, got.Search); d != "" {
			t.Errorf("%s: %s", name, d)
		}
	}
}

func TestLearningIsTurnedOff(t *testing.T) {
	src, _ := sources(t, map[string]string{"work/sandpiper.yaml": "search: {learn: false}\n"})
	if got, err := config.Load(src); err != nil || got.Search.Learn {
		t.Errorf("%+v, %v", got, err)
	}
	src, _ = sources(t, map[string]string{"work/sandpiper.yaml": "search: {learn: sometimes}\n"})
	if _, err := config.Load(src); fault.KindOf(err) != fault.Invalid || !strings.Contains(fault.Message(err), "search.learn") {
		t.Errorf("%v", err)
	}
}

// A variable that is set for another program must not redirect the queries and definitions, nor
// may a project.
func TestEnvironmentDoesNotRedirectSearch(t *testing.T) {
	dotenv := "AZURE_OPENAI_ENDPOINT=https://x.openai.azure.com\nAZURE_OPENAI_API_KEY=secret\nAZURE_OPENAI_EMBEDDER_NAME=ada\n"
	for _, other := range []string{"AZURE_OPENAI_ENDPOINT=https://other.openai.azure.com", "AZURE_OPENAI_API_KEY=other", "AZURE_OPENAI_EMBEDDER_NAME=x", "AZURE_OPENAI_EMBEDDER_VERSION=v", "AZURE_OPENAI_ENDPOINT="} {
		src, _ := sources(t, map[string]string{"work/.env": dotenv, "work/sandpiper.yaml": ""}, other)
		got, err := config.Load(src)
		name, _, _ := strings.Cut(other, "=")
		if err != nil || got.Search.Embeddings.Provider != "" || len(got.Warnings) != 1 || !strings.HasPrefix(got.Warnings[0], name+" in the environment differs from .env, so search uses no embeddings") {
			t.Errorf("%s: %+v, %v", other, got, err)
		}
	}
	got := trusted(t, map[string]string{"work/.env": dotenv, "work/sandpiper.yaml": "search: {embeddings: azure}\n"})
	if len(got.Files) != 2 || got.Search.Embeddings.Provider != "" {
		t.Errorf("%+v", got)
	}
}

func TestInvalidEmbeddingsAreRejected(t *testing.T) {
	for yaml, want := range map[string]string{
		"{provider: cohere, model: m}":                           `search.embeddings.provider is "cohere"; it must be none, openai, azure, ollama or local`,
		"{model: m}":                                             "search.embeddings.model has no effect without search.embeddings.provider",
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
		src, _ := sources(t, map[string]string{"work/sandpiper.yaml": "search:\n  embeddings: " + yaml})
		_, err := config.Load(src)
		if fault.KindOf(err) != fault.Invalid || !strings.Contains(fault.Message(err), want) || !strings.Contains(fault.Message(err), "sandpiper.yaml line 2") {
			t.Errorf("%s: %v", yaml, err)
		}
		if err != nil && strings.Contains(err.Error()+fault.Hint(err), "sk-") {
			t.Errorf("%s: the error contains the key: %v", yaml, err)
		}
	}
}
