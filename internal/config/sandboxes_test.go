package config_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/sandpiper-mcp/sandpiper/internal/config"
	"github.com/sandpiper-mcp/sandpiper/internal/fault"
	"github.com/sandpiper-mcp/sandpiper/internal/policy"
)

// The kinds of sandboxes of features; microvm is weak with epoll.
var (
	gvisor  = policy.Sandbox{Name: "gvisor", Strength: 2}
	microvm = policy.Sandbox{Name: "microvm", Strength: 3}
)

var sandboxFeatures = []config.Section{
	{Sandbox: config.Sandbox{Sandbox: microvm, Former: "microsandbox", About: "runs each in a virtual machine",
		Weak: func(c *config.Config) bool { return c.Epoll }}},
	{Sandbox: config.Sandbox{Sandbox: gvisor}},
}

const sandboxes = `
sandbox: {package_layers: {science: {packages: [pandas]}}}
tiers:
  hard: {sandbox: {backend: gvisor}}
  soft: {sandbox: {package_layer: science}}
tenants:
  bob: {tier: hard, sandbox: {backend: process}}
  eve: {sandbox: {package_layer: science}}
`

func TestSandboxOfTenant(t *testing.T) {
	src, _ := sources(t, map[string]string{"work/sandpiper.yaml": sandboxes})
	c := load(t, src)
	for _, one := range []struct {
		uid, tier string
		want      policy.Sandbox
	}{
		{"a", "hard", gvisor}, {"a", "soft", policy.Process}, {"a", "", policy.Process}, {"bob", "", policy.Process}, {"eve", "",
			policy.Process}, {"eve", "hard", gvisor},
	} {
		if got := c.For(id(t, one.uid), one.tier).Sandbox(); got != one.want {
			t.Errorf("%s of tier %q has %s, want %s", one.uid, one.tier, got, one.want)
		}
	}
	want := []config.Environment{{gvisor, "default"}, {policy.Process, "default"}, {policy.Process, "science"}}
	if d := cmp.Diff(want, c.EnvironmentsInUse()); d != "" {
		t.Error(d)
	}
	if d := cmp.Diff(map[policy.Sandbox]string{policy.Process: "sandbox.backend", gvisor: "tiers.hard"}, c.SandboxesInUse()); d != "" {
		t.Error(d)
	}
}

func TestSandboxesOfRulesAreInUse(t *testing.T) {
	src, _ := sources(t, map[string]string{"work/sandpiper.yaml": `
sandbox: {backend: gvisor}
tenants:
  bob: {sandbox: {backend: microvm}}
  eve: {sandbox: {backend: process}}
policy:
  rules:
    - {tool: "a.*", decision: ask}
    - {server: bank, sandbox: gvisor}
    - {name: secret, server: vault, sandbox: microvm, decision: ask}
`})
	c := load(t, src)
	want := []config.Environment{{gvisor, "default"}, {microvm, "default"}, {policy.Process, "default"}}
	if d := cmp.Diff(want, c.EnvironmentsInUse()); d != "" {
		t.Error(d)
	}
	src, _ = sources(t, map[string]string{"work/sandpiper.yaml": "policy: {rules: [{server: x, decision: ask}, {server: bank, sandbox: " +
		"gvisor}, {name: secret, server: vault, sandbox: microvm}]}"})
	if d := cmp.Diff(map[policy.Sandbox]string{policy.Process: "sandbox.backend", gvisor: "rule 2 of the policy",
		microvm: "rule 3 (secret) of the policy"}, load(t, src).SandboxesInUse()); d != "" {
		t.Error(d)
	}
}

func TestProjectCanOnlyStrengthenSandbox(t *testing.T) {
	for _, tc := range []struct {
		own, project string
		want, tenant string // of the daemon, and of a tier with gvisor
		warns        bool
	}{
		{"auto", "process", "process", "gvisor", false},
		{"auto", "gvisor", "gvisor", "gvisor", false},
		{"auto", "microvm", "microvm", "microvm", false},
		{"gvisor", "process", "gvisor", "gvisor", true},
		{"gvisor", "auto", "gvisor", "gvisor", true},
		{"microvm", "gvisor", "microvm", "gvisor", true},
		{"gvisor, epoll: true", "microvm", "gvisor", "gvisor", true}, // weak, so not stronger
		{"auto, epoll: true", "microvm", "microvm", "gvisor", false},
	} {
		c := trusted(t, map[string]string{
			ownFile:               "sandbox: {backend: " + tc.own + "}\ntiers: {hard: {sandbox: {backend: gvisor}}}\n",
			"work/sandpiper.yaml": "sandbox: {backend: " + tc.project + "}\n",
		})
		got, tenant := c.Sandbox().Name, c.For(id(t, "a"), "hard").Sandbox().Name
		warns := strings.Contains(strings.Join(c.Warnings, "\n"),
			"sandbox.backend has no effect in a project: your own configuration is stricter")
		if got != tc.want || tenant != tc.tenant || warns != tc.warns {
			t.Errorf("%s and %s of a project: %s, %s of a tenant, %q", tc.own, tc.project, got, tenant, c.Warnings)
		}
	}
	c := trusted(t, map[string]string{ownFile: "", "work/sandpiper.yaml": "policy: {rules: [{server: bank, sandbox: gvisor}]}\n"})
	if d := cmp.Diff(map[policy.Sandbox]string{policy.Process: "sandbox.backend", gvisor: "project rule 1 of the policy"},
		c.SandboxesInUse()); d != "" {
		t.Error(d)
	}
}

func TestSandboxesAreChecked(t *testing.T) {
	for text, want := range map[string]string{
		"tiers:\n  hard: {sandbox: {backend: docker}}": `sandpiper.yaml line 2: sandbox.backend is "docker"; it must be auto, ` +
			`process, gvisor or microvm`,
		"policy:\n  rules:\n    - {server: bank, sandbox: ''}": "entry 1 of policy.rules sandbox",
	} {
		src, _ := sources(t, map[string]string{"work/sandpiper.yaml": text})
		if _, err := config.Load(src); fault.KindOf(err) != fault.Invalid || !strings.Contains(fault.Message(err), want) {
			t.Errorf("%s:\ngot  %v\nwant %s", text, err, want)
		}
	}
	src, _ := sources(t, map[string]string{"work/sandpiper.yaml": "sandbox: {backend: gvisor}"})
	src.Features = nil
	if _, err := config.Load(src); !strings.Contains(fault.Message(err), `sandbox.backend is "gvisor"; it must be auto or process`) {
		t.Errorf("without the feature: %v", err)
	}
}
