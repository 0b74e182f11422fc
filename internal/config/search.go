package config

import (
	"cmp"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/sandpiper-mcp/sandpiper/internal/fault"
	"github.com/sandpiper-mcp/sandpiper/internal/tool/catalog/embedding/model"
)

// searchKeys are the keys of the search.
var searchKeys = map[string]key{
	"search.learn": {read: func(d *draft, s setting) error { return boolean(&d.Search.Learn, s) }},
	"search.embeddings.provider": {
		read: func(d *draft, s setting) error {
			return embeddingProvider(&d.Search.Embeddings.Provider, s)
		},
	},
	"search.embeddings.url":         {read: func(d *draft, s setting) error { return endpoint(&d.Search.Embeddings.URL, s) }},
	"search.embeddings.model":       {read: func(d *draft, s setting) error { return text(&d.Search.Embeddings.Model, s) }},
	"search.embeddings.api_key":     {read: func(d *draft, s setting) error { return reference(&d.Search.Embeddings.Key, s) }},
	"search.embeddings.api_version": {read: func(d *draft, s setting) error { return text(&d.Search.Embeddings.APIVersion, s) }},
	"search.embeddings.dimensions": {
		read: func(d *draft, s setting) error {
			return whole(&d.Search.Embeddings.Dimensions, s, 1, model.MaxDimensions)
		},
	},
	"search.embeddings.dir":     {read: func(_ *draft, s setting) error { return noONNX(s) }},
	"search.embeddings.timeout": {read: func(d *draft, s setting) error { return duration(&d.Search.Timeout, s) }},
}

// Search configures the search of tools.
type Search struct {
	Embeddings model.Config  // an empty Provider means keyword search only; Resolve is not set
	Learn      bool          // rank tools higher that the tenant has used
	Timeout    time.Duration // limit for the vector of a query; 0 means the default
}

// embeddings is the section of the embedding model.
const embeddings = "search.embeddings"

// endpoint reads a URL without credentials.
func endpoint(to *string, s setting) error {
	u, err := url.Parse(s.text)
	named := strings.HasPrefix(s.text, "${")
	if !named && (err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" || u.User != nil || u.RawQuery != "" || u.Fragment != "") {
		return fault.New(fault.Invalid, "%s: %s must be a URL with http:// or https:// and without user, query and fragment", s.from, s.key)
	}
	*to = s.text
	return nil
}

// reference reads a reference to a secret, and rejects a literal secret.
func reference(to *string, s setting) error {
	if !strings.HasPrefix(s.text, "${") || strings.IndexByte(s.text, '}') != len(s.text)-1 {
		return fault.New(fault.Invalid, "%s: %s must be a reference to the key, not the key", s.from, s.key).
			WithHint("write ${OPENAI_API_KEY} for a variable, or ${file:/run/secrets/key} for a file")
	}
	*to = s.text
	return nil
}

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

func text(to *string, s setting) error {
	if s.text == "" || len(s.text) > 1000 || strings.ContainsFunc(s.text, func(r rune) bool { return r < ' ' || r == 0x7f }) {
		return wrong(s, "a name on one line")
	}
	*to = s.text
	return nil
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
	for _, key := range within(embeddings) {
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
