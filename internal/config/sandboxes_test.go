package config_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/sandpiper-mcp/sandpiper/internal/config"
	"github.com/sandpiper-mcp/sandpiper/internal/fault"
	"github.com/sandpiper-mcp/sandpiper/internal/policy"
)

// gvisor is the kind of sandbox of a feature.
var gvisor = policy.Sandbox{Name: "gvisor", Strength: 2}

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
		{"a", "hard", gvisor}, {"a", "soft", policy.Process}, {"a", "", policy.Process}, {"bob", "", policy.Process}, {"eve", "", policy.Process}, {"eve", "hard", gvisor},
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
	want := []config.Environment{{gvisor, "default"}, {policy.MicroVM, "default"}, {policy.Process, "default"}}
	if d := cmp.Diff(want, c.EnvironmentsInUse()); d != "" {
		t.Error(d)
	}
	src, _ = sources(t, map[string]string{"work/sandpiper.yaml": "policy: {rules: [{server: x, decision: ask}, {server: bank, sandbox: gvisor}, {name: secret, server: vault, sandbox: microvm}]}"})
	if d := cmp.Diff(map[policy.Sandbox]string{policy.Process: "sandbox.backend", gvisor: "rule 2 of the policy", policy.MicroVM: "rule 3 (secret) of the policy"}, load(t, src).SandboxesInUse()); d != "" {
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
		{"gvisor, microvm: {accel: tcg}", "microvm", "gvisor", "gvisor", true}, // emulated, so not stronger
		{"auto, microvm: {accel: tcg}", "microvm", "microvm", "gvisor", false},
	} {
		c := trusted(t, map[string]string{
			ownFile:               "sandbox: {backend: " + tc.own + "}\ntiers: {hard: {sandbox: {backend: gvisor}}}\n",
			"work/sandpiper.yaml": "sandbox: {backend: " + tc.project + "}\n",
		})
		got, tenant := c.Sandbox().Name, c.For(id(t, "a"), "hard").Sandbox().Name
		warns := strings.Contains(strings.Join(c.Warnings, "\n"), "sandbox.backend has no effect in a project: your own configuration is stricter")
		if got != tc.want || tenant != tc.tenant || warns != tc.warns {
			t.Errorf("%s and %s of a project: %s, %s of a tenant, %q", tc.own, tc.project, got, tenant, c.Warnings)
		}
	}
	c := trusted(t, map[string]string{ownFile: "", "work/sandpiper.yaml": "policy: {rules: [{server: bank, sandbox: gvisor}]}\n"})
	if d := cmp.Diff(map[policy.Sandbox]string{policy.Process: "sandbox.backend", gvisor: "project rule 1 of the policy"}, c.SandboxesInUse()); d != "" {
		t.Error(d)
	}
}

func TestSandboxesAreChecked(t *testing.T) {
	const tcg = "sandbox: {microvm: {accel: tcg}}\n"
	for text, want := range map[string]string{
		"tiers:\n  hard: {sandbox: {backend: docker}}":                                                         `sandpiper.yaml line 2: sandbox.backend is "docker"; it must be auto, process, gvisor or microvm`,
		"policy:\n  rules:\n    - {server: bank, sandbox: ''}":                                                 "entry 1 of policy.rules sandbox",
		tcg + "tiers: {vm: {sandbox: {backend: microvm}}}\npolicy: {rules: [{server: bank, sandbox: gvisor}]}": "rule 1 of the policy requires the sandbox gvisor, for which microvm (tiers.vm) would suffice, but sandbox.microvm.accel is tcg",
		tcg + "policy: {rules: [{server: bank, sandbox: gvisor}, {server: vault, sandbox: microvm}]}":          "which is not an isolation boundary",
	} {
		src, _ := sources(t, map[string]string{"work/sandpiper.yaml": text})
		if _, err := config.Load(src); fault.KindOf(err) != fault.Invalid || !strings.Contains(fault.Message(err), want) {
			t.Errorf("%s:\ngot  %v\nwant %s", text, err, want)
		}
	}
	src, _ := sources(t, map[string]string{"work/sandpiper.yaml": "sandbox: {backend: gvisor}"})
	src.Features = nil
	if _, err := config.Load(src); !strings.Contains(fault.Message(err), `sandbox.backend is "gvisor"; it must be auto, process or microvm`) {
		t.Errorf("without the feature: %v", err)
	}
	for text, warns := range map[string]bool{
		tcg + "policy: {rules: [{server: bank, sandbox: gvisor}]}":  false, // no virtual machine is used
		tcg + "policy: {rules: [{server: bank, sandbox: microvm}]}": true,
		tcg + "tenants: {bob: {sandbox: {backend: microvm}}}":       true,
	} {
		src, _ := sources(t, map[string]string{"work/sandpiper.yaml": text})
		if c := load(t, src); strings.Contains(strings.Join(c.Warnings, "\n"), "NOT AN ISOLATION BOUNDARY") != warns {
			t.Errorf("%s: %q", text, c.Warnings)
		}
	}
}
