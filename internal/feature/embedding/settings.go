package embedding

import (
	"slices"
	"strings"
	"time"

	"github.com/sandpiper-mcp/sandpiper/internal/config"
	"github.com/sandpiper-mcp/sandpiper/internal/fault"
	"github.com/sandpiper-mcp/sandpiper/internal/feature/embedding/model"
)

// Settings are the keys of the feature.
type Settings struct {
	// an empty Provider means keyword search only; Resolve and Dir are not set
	Model   model.Config  `key:"search.embeddings"`
	Timeout time.Duration `key:"search.embeddings.timeout,restart"` // limit for the vector of a query; 0 means the default
}

// section is the name of the section of the keys.
const section = "search.embeddings"

// azure is the use of Azure by the feature.
var azure = config.AzureUse{
	Deployment: "AZURE_OPENAI_EMBEDDER_NAME",
	Version:    "AZURE_OPENAI_EMBEDDER_VERSION",
	Key:        section + ".provider",
	Without:    "search uses no embeddings",
}

// Complete rejects keys that do not apply to the provider, and completes an Azure provider from AZURE_OPENAI_
// variables. Without a provider, it selects Azure only if these are in Sandpiper's own .env, as tasks do.
func (s *Settings) Complete(g config.Given) error {
	m := &s.Model
	if g.HasAzure(azure) {
		m.Provider = model.Azure
	}
	if m.Provider == model.None {
		m.Provider = ""
	}
	keys := map[model.Provider][]string{
		"":           {},
		model.OpenAI: {"url", "model", "api_key", "dimensions", "timeout"},
		model.Azure:  {"url", "model", "api_key", "dimensions", "timeout", "api_version"},
		model.Ollama: {"url", "model", "api_key", "dimensions", "timeout"},
		model.Local:  {"model", "timeout"},
	}[m.Provider]
	for _, name := range []string{"api_key", "api_version", "dimensions", "model", "timeout", "url"} {
		key := section + "." + name
		from := g.From(key)
		switch {
		case from == "" || slices.Contains(keys, name):
		case m.Provider == "":
			return fault.New(fault.Invalid, "%s: %s has no effect without %s.provider", from, key, section).
				WithHint("set provider to openai, azure, ollama or local")
		default:
			return fault.New(fault.Invalid, "%s: %s does not apply to the provider %s", from, key, m.Provider).
				WithHint("its keys are %s", strings.Join(keys, ", "))
		}
	}
	if m.Provider == model.Azure {
		g.CompleteAzure(azure, &m.URL, &m.Key, &m.Model, &m.APIVersion)
	}
	return nil
}
