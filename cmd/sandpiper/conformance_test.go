package main

import (
	"slices"
	"strings"
	"testing"

	"github.com/sandpiper-mcp/sandpiper/internal/longtest"
	"github.com/sandpiper-mcp/sandpiper/internal/mcpserver/wire/wiretest"
)

// fixtureFree lists the scenarios that need no fixtures, with their checks of our server.
// The others need tools, prompts and resources of a fixture: see package wire.
var fixtureFree = map[string]map[string]int{
	"0.1": {
		"server-initialize": 1, "ping": 1, "tools-list": 1, "resources-list": 1,
		"server-sse-multiple-streams": 2, "dns-rebinding-protection": 2, "logging-set-level": 1,
	},
	"0.2-2025-11-25": {
		"server-initialize": 3, "ping": 2, "tools-list": 3, "resources-list": 2,
		"server-sse-multiple-streams": 2, "dns-rebinding-protection": 2, "server-session-lifecycle": 3, "logging-set-level": 2,
	},
	"0.2-2026-07-28": {
		"server-stateless": 24, "tools-list": 4, "resources-list": 2, "sep-2164-resource-not-found": 4, "caching": 6,
		"server-sse-multiple-streams": 2, "dns-rebinding-protection": 2, "http-header-validation": 14,
	},
}

// TestConformance runs the public conformance suites against the built program.
func TestConformance(t *testing.T) {
	t.Parallel()
	wiretest.Installed(t)
	needSandbox(t)
	d := startServing(t, build(t), "")
	for _, suite := range wiretest.Suites() {
		t.Run(suite.Name, func(t *testing.T) {
			tallies := suite.Run(t, d.url)
			for name, want := range fixtureFree[suite.Name] {
				got := tallies[name]
				failed := slices.DeleteFunc(slices.Clone(got.Failed), missesFixture)
				if got.Passed < want || len(failed) > 0 {
					t.Errorf("%s: %d checks passed, want %d; failed: %q", name, got.Passed, want, failed)
				}
			}
			for name, got := range tallies {
				if _, named := fixtureFree[suite.Name][name]; !named {
					t.Logf("%s: %d checks passed, failed for want of fixtures: %q", name, got.Passed, got.Failed)
				}
			}
		})
	}
}

// skillScenarios lists the scenarios of the skills extension, with their checks by revision. Those
// of directories are optional: one check, that they are not declared, is skipped.
var skillScenarios = map[string]map[string]int{
	"2025-11-25": {"sep-2640-skills-enumeration": 27, "sep-2640-skills-manifest": 4},
	"2026-07-28": {"sep-2640-skills-enumeration": 29, "sep-2640-skills-manifest": 4},
}

// TestSkillsConformance runs the scenarios of the skills extension against the built program, with
// private values in the skills: digests are those of the redacted files.
func TestSkillsConformance(t *testing.T) {
	longtest.SkipSlow(t)
	t.Parallel()
	wiretest.Installed(t)
	needSandbox(t)
	d := startServing(t, build(t), "")
	v := d.visit()
	for _, name := range []string{"high_risk", "Other", "x"} {
		v.value(`save_skill("` + name + `", "y = 'ada@example.org'", 'Mail ada@example.org about "x": a # b', tags=["a,b", "c"])`)
	}
	for revision, scenarios := range skillScenarios {
		for name, want := range scenarios {
			if got := wiretest.RunScenario(t, d.url, name, revision); got.Passed < want || len(got.Failed) > 0 {
				t.Errorf("%s %s: %d checks passed, want %d; failed: %q", revision, name, got.Passed, want, got.Failed)
			}
		}
	}
}

// missesFixture reports whether a check failed because a tool or prompts do not exist, such as
// the tool with which a suite changes the list of tools.
func missesFixture(failed string) bool {
	return strings.Contains(failed, "Not testable") || strings.Contains(failed, "Mutated the tool list") || strings.Contains(failed,
		`method not found: "prompts/list"`)
}
