package task

import (
	"cmp"
	"slices"
	"strings"

	"github.com/sandpiper-mcp/sandpiper/internal/config"
	"github.com/sandpiper-mcp/sandpiper/internal/config/section"
	"github.com/sandpiper-mcp/sandpiper/internal/fault"
	"github.com/sandpiper-mcp/sandpiper/internal/feature/task/model"
	"github.com/sandpiper-mcp/sandpiper/internal/feature/task/task"
)

// Settings are the settings of the feature.
type Settings struct {
	Model model.Config `key:"tasks"` // an empty Provider means none; Resolve and Sample are not set
	// Generator writes the programs instead of the model; nil means that model. Texts for it are redacted.
	Generator task.Generator
}

// noModel is the value of tasks.model without a model.
const noModel = "none"

// azure is the use of Azure by the feature.
var azure = config.AzureUse{
	Deployment: "AZURE_OPENAI_CHAT_DEPLOYMENT_NAME",
	Version:    "AZURE_OPENAI_API_VERSION",
	Key:        "tasks.model",
	Without:    "tasks use no model",
}

// Complete rejects keys that do not apply to the model, and completes an Azure model from
// AZURE_OPENAI_ variables. Without tasks.model, it selects Azure only if these are in
// Sandpiper's own .env: variables of the environment may be meant for another program.
func (s *Settings) Complete(g config.Given) error {
	m := &s.Model
	if g.HasAzure(azure) {
		m.Provider = model.Azure
	}
	if m.Provider == noModel {
		m.Provider = ""
	}
	if err := checkKeys(m.Provider, g); err != nil || m.Provider == "" {
		return err
	}
	if m.Provider == model.Azure {
		g.CompleteAzure(azure, &m.URL, &m.Key, &m.Name, &m.APIVersion)
	}
	if err := m.Check(); err != nil {
		return fault.New(fault.Invalid, "%s: %s", cmp.Or(g.From("tasks.model"), ".env"), fault.Message(err)).WithHint("%s", fault.Hint(err))
	}
	return nil
}

// checkKeys rejects keys that do not apply to a provider.
func checkKeys(provider string, g config.Given) error {
	limits := []string{"model", "max_tokens", "timeout", "budget_tokens"}
	remote := append([]string{"name", "url", "key", "budget_cost", "prices", "ask_requests", "ask_tokens"}, limits...)
	keys := map[string][]string{
		"":              {"model"},
		model.OpenAI:    remote,
		model.Anthropic: remote,
		model.Azure:     append([]string{"api_version"}, remote...),
		model.Sampling:  append([]string{"name"}, limits...),
	}[provider]
	fields := section.Fields(&Settings{})
	slices.SortFunc(fields, func(a, b section.Field) int { return cmp.Compare(a.Name, b.Name) })
	for _, f := range fields {
		key, from := f.Name, g.From(f.Name)
		switch {
		case from == "" || slices.Contains(keys, strings.TrimPrefix(key, "tasks.")):
		case provider == "":
			return fault.New(fault.Invalid, "%s: %s has no effect without tasks.model", from, key).
				WithHint("set tasks.model to openai, azure, anthropic or sampling")
		default:
			return fault.New(fault.Invalid, "%s: %s does not apply to tasks.model %s", from, key, provider).
				WithHint("its keys are %s", strings.Join(keys, ", "))
		}
	}
	return nil
}

// SetModel replaces the model by none, or by PROVIDER/NAME. Another provider than the configured
// one has its default endpoint and variable, so that no key is sent to the endpoint of another;
// limits and prices stay.
func (s *Settings) SetModel(text string) error {
	m := s.Model
	provider, name, _ := strings.Cut(text, "/")
	if text == noModel {
		s.Model = model.Config{}
		return nil
	}
	usual := map[string]model.Config{
		model.OpenAI:    {Key: "${OPENAI_API_KEY}"},
		model.Azure:     {Key: "${AZURE_OPENAI_API_KEY}", URL: "${AZURE_OPENAI_ENDPOINT}"},
		model.Anthropic: {Key: "${ANTHROPIC_API_KEY}"},
	}
	of, known := usual[provider]
	if !known || name == "" {
		return fault.New(fault.Invalid, "the model is %.60q; it must be none, openai/NAME, azure/DEPLOYMENT or anthropic/NAME", text)
	}
	if provider != m.Provider {
		m.Provider, m.URL, m.Key, m.APIVersion = provider, of.URL, of.Key, ""
	}
	m.Name = name
	if err := m.Check(); err != nil {
		return err
	}
	s.Model = m
	return nil
}
