package task

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/sandpiper-mcp/sandpiper/internal/config"
	"github.com/sandpiper-mcp/sandpiper/internal/fault"
	"github.com/sandpiper-mcp/sandpiper/internal/feature/task/model"
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

var azureChat = []string{"AZURE_OPENAI_ENDPOINT=https://x.openai.azure.com", "AZURE_OPENAI_API_KEY=secret",
	"AZURE_OPENAI_CHAT_DEPLOYMENT_NAME=gpt-4o-mini", "AZURE_OPENAI_API_VERSION=2024-08-01-preview", "AZURE_OPENAI_EMBEDDER_NAME=ada"}

func TestTasksAreParsed(t *testing.T) {
	azure := model.Config{Provider: "azure", URL: "${AZURE_OPENAI_ENDPOINT}", Name: "gpt-4o-mini", Key: "${AZURE_OPENAI_API_KEY}",
		APIVersion: "2024-08-01-preview"}
	for name, c := range map[string]struct {
		yaml    string
		dotenv  []string
		environ []string
		want    model.Config
	}{
		"not configured": {},
		"none":           {yaml: "{model: none}", dotenv: azureChat},
		"openai": {yaml: "{model: openai, name: m, key: '${file:/k}', url: 'http://10.0.0.1/v1', max_tokens: 4000, timeout: 30s, " +
			"budget_tokens: 50000, budget_cost: 0.5, prices: {m: {input: 0.15, output: 0.6}, n: {input: 1, output: 2}}}",
			want: model.Config{Provider: "openai", Name: "m", Key: "${file:/k}", URL: "http://10.0.0.1/v1", MaxTokens: 4000,
				Timeout: 30 * time.Second, Budget: 50000, BudgetCost: 0.5,
				Prices: map[string]model.Price{"m": {Input: 0.15, Output: 0.6}, "n": {Input: 1, Output: 2}}}},
		"openai ignores Azure": {yaml: "{model: openai, name: m, key: '${K}'}", dotenv: azureChat, environ: azureChat,
			want: model.Config{Provider: "openai", Name: "m", Key: "${K}"}},
		"anthropic": {yaml: "{model: anthropic, name: m, key: '${K}'}",
			want: model.Config{Provider: "anthropic", Name: "m", Key: "${K}"}},
		"sampling": {yaml: "{model: sampling, budget_tokens: 5000}",
			want: model.Config{Provider: "sampling", Budget: 5000}},
		"Azure in the environment":     {environ: azureChat}, // of another program
		"azure from the environment":   {yaml: "{model: azure}", environ: azureChat, want: azure},
		"azure from .env":              {dotenv: azureChat, want: azure},
		"azure from .env and the same": {dotenv: azureChat, environ: azureChat, want: azure},
		"azure from .env, incomplete":  {dotenv: azureChat[:2], environ: azureChat},
		"limits of azure from .env": {yaml: "{timeout: 5s}", dotenv: azureChat,
			want: model.Config{Provider: "azure", URL: azure.URL, Name: azure.Name, Key: azure.Key, APIVersion: azure.APIVersion,
				Timeout: 5 * time.Second}},
		"azure from the file": {yaml: "{model: azure, name: m, url: 'https://y', key: '${file:/k}', api_version: v}", environ: azureChat,
			want: model.Config{Provider: "azure", URL: "https://y", Name: "m", Key: "${file:/k}", APIVersion: "v"}},
		"from variables": {environ: []string{"SANDPIPER_TASKS_MODEL=openai", "SANDPIPER_TASKS_NAME=m", "SANDPIPER_TASKS_KEY=${K}"},
			want: model.Config{Provider: "openai", Name: "m", Key: "${K}"}},
	} {
		files := map[string]string{"work/.env": strings.Join(c.dotenv, "\n"), "work/sandpiper.yaml": "profile: standard\n"}
		if c.yaml != "" {
			files["work/sandpiper.yaml"] = "tasks: " + c.yaml
		}
		src := sources(t, files, c.environ...)
		got, err := config.Load(src)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if d := cmp.Diff(c.want, config.Of[Settings](got).Model); d != "" || len(got.Warnings) > 0 {
			t.Errorf("%s: %s%q", name, d, got.Warnings)
		}
	}
}

// A variable that is set for another program must not redirect the data of tasks.
func TestEnvironmentDoesNotRedirectTasks(t *testing.T) {
	for _, other := range []string{"AZURE_OPENAI_ENDPOINT=https://other.openai.azure.com", "AZURE_OPENAI_API_KEY=other",
		"AZURE_OPENAI_API_VERSION=v"} {
		src := sources(t, map[string]string{"work/.env": strings.Join(azureChat[:4], "\n"), "work/sandpiper.yaml": ""}, other)
		got, err := config.Load(src)
		name, value, _ := strings.Cut(other, "=")
		if err != nil || config.Of[Settings](got).Model.Provider != "" || len(got.Warnings) != 1 || !strings.HasPrefix(got.Warnings[0],
			name+" in the environment differs from .env") || strings.Contains(got.Warnings[0], value) && value != "v" {
			t.Errorf("%s: %+v, %v", other, got, err)
		}
	}
}

// A project cannot choose where the data of tasks is sent.
func TestProjectsCannotConfigureTasks(t *testing.T) {
	got := trusted(t, map[string]string{
		"work/sandpiper.yaml": "tasks: {model: openai, name: m, url: 'https://other.example', key: '${K}'}\n",
		"work/.env":           strings.Join(azureChat, "\n"),
	})
	if len(got.Files) != 2 || config.Of[Settings](got).Model.Provider != "" || !strings.Contains(strings.Join(got.Warnings, "\n"),
		"tasks.model has no effect in a project") {
		t.Errorf("%+v", got)
	}
}

func TestInvalidTasksAreRejected(t *testing.T) {
	for yaml, want := range map[string]string{
		"{model: cohere}": `tasks.model is "cohere"; it must be none, openai, azure, anthropic ` +
			`or sampling`,
		"{name: m}":                                                 "tasks.name has no effect without tasks.model",
		"{model: none, name: m}":                                    "tasks.name has no effect without tasks.model",
		"{model: openai, key: '${K}'}":                              "tasks.name is missing",
		"{model: openai, name: m}":                                  "tasks.key is missing; https://api.openai.com/v1 requires a key",
		"{model: azure, name: m, key: '${K}'}":                      "tasks.url is missing",
		"{model: sampling, key: '${K}'}":                            "tasks.key does not apply to tasks.model sampling",
		"{model: anthropic, api_version: v}":                        "tasks.api_version does not apply to tasks.model anthropic",
		"{model: openai, key: sk-secret}":                           "tasks.key must be a reference to the key",
		"{model: openai, url: 'https://x?k=sk-se'}":                 "tasks.url must be a URL",
		"{model: openai, max_tokens: 5}":                            `tasks.max_tokens is "5"`,
		"{model: openai, budget_tokens: 5}":                         `tasks.budget_tokens is "5"`,
		"{model: openai, budget_cost: free}":                        `tasks.budget_cost is "free"; it must be a number above 0`,
		"{model: openai, budget_cost: .inf}":                        "tasks.budget_cost",
		"{model: openai, prices: 5}":                                "tasks.prices must be a mapping of names to values",
		"{model: openai, prices: {m: {input: x}}}":                  "tasks.prices m input must be a number of at least 0",
		"{model: openai, prices: {m: {in: 5}}}":                     `tasks.prices m has no key "in"; its keys are input, output`,
		"{model: openai, prices: {m: {input: -1}}}":                 "tasks.prices m input must be",
		"{model: openai, name: m, url: 'http://x', budget_cost: 1}": `tasks.budget_cost has no effect without a price of the model "m"`,
		"{model: openai, nmae: m}":                                  `did you mean "tasks.name"?`,
	} {
		src := sources(t, map[string]string{"work/sandpiper.yaml": "tasks: " + yaml + "\n"})
		_, err := config.Load(src)
		if fault.KindOf(err) != fault.Invalid || !strings.Contains(fault.Message(err), want) || !strings.Contains(fault.Message(err),
			"sandpiper.yaml line ") {
			t.Errorf("%s: %v", yaml, err)
		}
		if err != nil && strings.Contains(err.Error()+fault.Hint(err), "sk-") {
			t.Errorf("%s: the error contains the key: %v", yaml, err)
		}
	}
}
