package config

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"github.com/sandpiper-mcp/sandpiper/internal/fault"
	"github.com/sandpiper-mcp/sandpiper/internal/tool/catalog/embedding/model"
)

// searchKeys are the keys of the search.
var searchKeys = map[string]key{
	"search.embeddings.provider": {
		read: func(d *draft, s setting) error {
			return embeddingProvider(&d.Search.Embeddings.Provider, s)
		},
	},
	"search.embeddings.dir": {read: func(_ *draft, s setting) error { return noONNX(s) }},
}

// Search configures the search of tools.
type Search struct {
	Embeddings model.Config  `key:"embeddings"`           // an empty Provider means keyword search only; Resolve is not set
	Learn      bool          `key:"learn" default:"true"` // rank tools higher that the tenant has used
	Timeout    time.Duration `key:"embeddings.timeout"`   // limit for the vector of a query; 0 means the default
}

// embeddings is the section of the embedding model.
const embeddings = "search.embeddings"

// embeddingProvider reads the provider of embeddings.
func embeddingProvider(to *string, s setting) error {
	if s.text == "onnx" {
		return noONNX(s)
	}
	return oneOf(to, s, noModel, model.OpenAI, model.Azure, model.Ollama, model.Local)
}

// noONNX rejects a setting of earlier versions, which could run ONNX files.
func noONNX(s setting) error {
	return fault.New(fault.Invalid, "%s: %s is %q, but ONNX files are no longer supported", s.from, s.key, s.text).
		WithHint("install the model with `sandpiper models add minilm DIRECTORY`, set provider to local, and remove dir")
}

// embeddingsFit rejects keys that do not apply to the provider, and completes an Azure
// provider from AZURE_OPENAI_ variables. Without a provider, it selects Azure only if these are
// in Sandpiper's own .env, as tasksFit does.
func (d *draft) embeddingsFit(env, dotenv map[string]string) error {
	e := &d.Search.Embeddings
	if _, given := d.given[embeddings+".provider"]; !given && d.azureInDotenv(env, dotenv, azureEmbeddings) {
		e.Provider = model.Azure
	}
	if e.Provider == noModel {
		e.Provider = ""
	}
	keys := map[string][]string{
		"":           {},
		model.OpenAI: {"url", "model", "api_key", "dimensions", "timeout"},
		model.Azure:  {"url", "model", "api_key", "dimensions", "timeout", "api_version"},
		model.Ollama: {"url", "model", "api_key", "dimensions", "timeout"},
		model.Local:  {"model", "timeout"},
	}[e.Provider]
	for _, key := range tableOf(&d.Config).within(embeddings) {
		s, given := d.given[embeddings+"."+key]
		switch {
		case !given || key == "provider" || slices.Contains(keys, key):
		case e.Provider == "":
			return fault.New(fault.Invalid, "%s: %s has no effect without %s.provider", s.from, s.key, embeddings).
				WithHint("set provider to openai, azure, ollama or local")
		default:
			return fault.New(fault.Invalid, "%s: %s does not apply to the provider %s", s.from, s.key, e.Provider).
				WithHint("its keys are %s", strings.Join(keys, ", "))
		}
	}
	if e.Provider != model.Azure {
		return nil
	}
	lookup := func(name string) string { return cmp.Or(env[name], dotenv[name]) }
	for name, to := range map[string]*string{azureEndpoint: &e.URL, azureKey: &e.Key} {
		if lookup(name) != "" && *to == "" {
			*to = "${" + name + "}"
		}
	}
	// An API version applies to the deployment interface, so take it only together
	// with the deployment.
	if name := lookup(azureEmbeddings.deployment); name != "" && e.Model == "" {
		e.Model = name
		e.APIVersion = cmp.Or(e.APIVersion, lookup(azureEmbeddings.version))
	}
	return nil
}
