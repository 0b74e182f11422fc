package config

import (
	"cmp"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/sandpiper-mcp/sandpiper/internal/fault"
	"github.com/sandpiper-mcp/sandpiper/internal/task/model"
)

// noModel is the value of tasks.model without a model.
const noModel = "none"

// azureChat is the use of Azure by tasks.
var azureChat = AzureUse{
	Deployment: "AZURE_OPENAI_CHAT_DEPLOYMENT_NAME",
	Version:    "AZURE_OPENAI_API_VERSION",
	Key:        "tasks.model",
	Without:    "tasks use no model",
}

// taskKeys are the keys of the model that writes programs for tasks.
var taskKeys = map[string]key{
	"tasks.ask_requests": {read: askRequests},
	"tasks.budget_cost":  {read: func(d *draft, s setting) error { return amount(&d.Tasks.BudgetCost, s) }},
}

// askRequests reads a maximum of which 0 means that code cannot ask.
func askRequests(d *draft, s setting) error {
	var n int
	if err := whole(&n, s, 0, 1<<20); err != nil {
		return err
	}
	if d.Tasks.AskRequests = n; n == 0 {
		d.Tasks.AskRequests = -1
	}
	return nil
}

func amount(to *float64, s setting) error {
	v, err := strconv.ParseFloat(s.text, 64)
	if err != nil || !(v > 0) || math.IsInf(v, 0) {
		return wrong(s, "a number above 0")
	}
	*to = v
	return nil
}

// tasksFit rejects keys that do not apply to the model, and completes an Azure model from
// AZURE_OPENAI_ variables. Without tasks.model, it selects Azure only if these are in
// Sandpiper's own .env: variables of the environment may be meant for another program.
func (d *draft) tasksFit(g Given) error {
	m := &d.Tasks
	if g.HasAzure(azureChat) {
		m.Provider = model.Azure
	}
	if m.Provider == noModel {
		m.Provider = ""
	}
	if err := d.taskKeysFit(); err != nil || m.Provider == "" {
		return err
	}
	if m.Provider == model.Azure {
		g.CompleteAzure(azureChat, &m.URL, &m.Key, &m.Name, &m.APIVersion)
	}
	if err := m.Check(); err != nil {
		return fault.New(fault.Invalid, "%s: %s", cmp.Or(d.given["tasks.model"].from, ".env"), fault.Message(err)).WithHint("%s", fault.Hint(err))
	}
	return nil
}

// SetTaskModel replaces the model of tasks by none, or by PROVIDER/NAME. Another provider than the
// configured one has its default endpoint and variable, so that no key is sent to the endpoint of
// another; limits and prices stay.
func (c *Config) SetTaskModel(text string) error {
	m := c.Tasks
	provider, name, _ := strings.Cut(text, "/")
	if text == noModel {
		c.Tasks = model.Config{}
		return nil
	}
	usual := map[string]model.Config{
		model.OpenAI:    {Key: "${OPENAI_API_KEY}"},
		model.Azure:     {Key: "${" + azureKey + "}", URL: "${" + azureEndpoint + "}"},
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
	c.Tasks = m
	return nil
}

// taskKeysFit rejects keys that do not apply to the model.
func (d *draft) taskKeysFit() error {
	limits := []string{"model", "max_tokens", "timeout", "budget_tokens"}
	remote := append([]string{"name", "url", "key", "budget_cost", "prices", "ask_requests", "ask_tokens"}, limits...)
	keys := map[string][]string{
		"":              {"model"},
		model.OpenAI:    remote,
		model.Anthropic: remote,
		model.Azure:     append([]string{"api_version"}, remote...),
		model.Sampling:  append([]string{"name"}, limits...),
	}[d.Tasks.Provider]
	for _, key := range tableOf(&d.Config).within("tasks") {
		s, given := d.given["tasks."+key]
		switch {
		case !given || slices.Contains(keys, key):
		case d.Tasks.Provider == "":
			return fault.New(fault.Invalid, "%s: %s has no effect without tasks.model", s.from, s.key).
				WithHint("set tasks.model to openai, azure, anthropic or sampling")
		default:
			return fault.New(fault.Invalid, "%s: %s does not apply to tasks.model %s", s.from, s.key, d.Tasks.Provider).
				WithHint("its keys are %s", strings.Join(keys, ", "))
		}
	}
	return nil
}
