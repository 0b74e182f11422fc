package config

import (
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/sandpiper-mcp/sandpiper/internal/fault"
	"github.com/sandpiper-mcp/sandpiper/internal/tool/catalog/embedding/model"
)

// Search says how tools are found beside by words.
type Search struct {
	Embeddings model.Config  // a zero Provider means by words alone; Resolve is not set
	Timeout    time.Duration // how long a search waits for a vector; 0 means the default
}

// embeddings is the section that says which model.
const embeddings = "search.embeddings"

// endpoint reads a URL, which is no place for a secret.
func endpoint(to *string, s setting) error {
	u, err := url.Parse(s.text)
	named := strings.HasPrefix(s.text, "${")
	if !named && (err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" || u.User != nil || u.RawQuery != "" || u.Fragment != "") {
		return fault.New(fault.Invalid, "%s: %s must be an address that begins with http:// or https://, without user, query and fragment", s.from, s.key)
	}
	*to = s.text
	return nil
}

// reference takes the name of a secret, and never a secret.
func reference(to *string, s setting) error {
	if !strings.HasPrefix(s.text, "${") || strings.IndexByte(s.text, '}') != len(s.text)-1 {
		return fault.New(fault.Invalid, "%s: %s must name where the key stands, and not be the key", s.from, s.key).
			WithHint("write ${OPENAI_API_KEY} for a variable, or ${file:/run/secrets/key} for a file")
	}
	*to = s.text
	return nil
}

func text(to *string, s setting) error {
	if s.text == "" || len(s.text) > 1000 || strings.ContainsFunc(s.text, func(r rune) bool { return r < ' ' || r == 0x7f }) {
		return wrong(s, "a name in one line")
	}
	*to = s.text
	return nil
}

// embeddingsFit refuses keys that do not go with the provider, and fills in from
// the variables of the first users what an Azure provider lacks.
func (d *draft) embeddingsFit(lookup func(string) (string, bool)) error {
	e := &d.Search.Embeddings
	keys := map[string][]string{
		"":           {},
		model.OpenAI: {"url", "model", "api_key", "dimensions", "timeout"},
		model.Azure:  {"url", "model", "api_key", "dimensions", "timeout", "api_version"},
		model.Ollama: {"url", "model", "api_key", "dimensions", "timeout"},
		model.ONNX:   {"dir", "timeout"},
	}[e.Provider]
	for _, key := range within(embeddings) {
		s, given := d.given[embeddings+"."+key]
		switch {
		case !given || key == "provider" || slices.Contains(keys, key):
		case e.Provider == "":
			return fault.New(fault.Invalid, "%s: %s has no effect without %s.provider", s.from, s.key, embeddings).
				WithHint("set provider to openai, azure, ollama or onnx")
		default:
			return fault.New(fault.Invalid, "%s: %s has no meaning for the provider %s", s.from, s.key, e.Provider).
				WithHint("its keys are %s", strings.Join(keys, ", "))
		}
	}
	if e.Provider != model.Azure {
		return nil
	}
	for name, to := range map[string]*string{"AZURE_OPENAI_ENDPOINT": &e.URL, "AZURE_OPENAI_API_KEY": &e.Key} {
		if v, ok := lookup(name); ok && v != "" && *to == "" {
			*to = "${" + name + "}"
		}
	}
	// A version is of the interface that asks for deployments by name; it goes with
	// the deployment that is named beside it.
	if v, ok := lookup("AZURE_OPENAI_EMBEDDER_NAME"); ok && e.Model == "" {
		e.Model = v
		if v, ok := lookup("AZURE_OPENAI_EMBEDDER_VERSION"); ok && e.APIVersion == "" {
			e.APIVersion = v
		}
	}
	return nil
}
