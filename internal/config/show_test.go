package config_test

import (
	"encoding/json"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/sandpiper-mcp/sandpiper/internal/config"
)

func TestShownSettingsHaveSourcesAndNoSecrets(t *testing.T) {
	cfg, err := config.Load(config.Sources{
		Dir: "/work", Text: "profile: lean\nsandbox:\n  timeout: 5\n  packages: [pandas, numpy]\nhttp:\n  token: " +
			"s3cr3t-of-the-operator\npii:\n  tokens: 500\nservers:\n  crm: {command: crm, env: {KEY: abc}}\n",
		Environ: []string{"HOME=/nowhere", "SANDPIPER_PROFILE=full"},
	})
	if err != nil {
		t.Fatal(err)
	}
	want := []config.Setting{
		{Key: "http.token", Value: "(hidden)", From: "configuration line 6"}, {Key: "pii.tokens", Value: "500",
			From: "configuration line 8"},
		{Key: "profile", Value: "full", From: "SANDPIPER_PROFILE"}, {Key: "sandbox.packages", Value: "pandas, numpy",
			From: "configuration line 4"},
		{Key: "sandbox.timeout", Value: "5", From: "configuration line 3"}, {Key: "servers", Value: "crm", From: "configuration line 9"},
	}
	if d := cmp.Diff(want, cfg.Given); d != "" {
		t.Error(d)
	}
}

func TestJSONSchemaDescribesKeys(t *testing.T) {
	text, err := config.JSONSchema([]config.Section{{Profile: config.Profile{Name: "own"}}})
	if err != nil {
		t.Fatal(err)
	}
	type node struct {
		Type       any
		Enum       []string
		Properties map[string]node
		Additional any `json:"additionalProperties"`
	}
	var root node
	if err := json.Unmarshal(text, &root); err != nil {
		t.Fatal(err)
	}
	sandbox := root.Properties["sandbox"].Properties
	if d := cmp.Diff([]string{"lean", "standard", "full", "own"}, root.Properties["profile"].Enum); d != "" {
		t.Error(d)
	}
	if sandbox["epoll"].Type != "boolean" || cmp.Diff([]any{"integer", "string"}, sandbox["memory_mb"].Type) != "" ||
		cmp.Diff([]any{"string", "number"}, sandbox["timeout"].Type) != "" {
		t.Errorf("%+v", sandbox)
	}
	if root.Additional != false || root.Properties["servers"].Additional.(map[string]any)["properties"].(map[string]any)["command"] == nil || root.Properties["data_dir"].Type != "string" {
		t.Errorf("%s", text)
	}
}
