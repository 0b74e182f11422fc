package config_test

import (
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/sandpiper-mcp/sandpiper/internal/config"
	"github.com/sandpiper-mcp/sandpiper/internal/fault"
	"github.com/sandpiper-mcp/sandpiper/internal/guardrail"
)

func TestGuardrailsAreRead(t *testing.T) {
	src, dir := sources(t, map[string]string{"work/sandpiper.yaml": `
guardrails:
  strict_mode: true
  rate_limiting: 30
  max_code_bytes: 1000
  max_vars_bytes: 2000
  max_output_bytes: 3000
  max_execution_time: 120
  max_memory_mb: 400
  allowed_networks: []
  neutralize: false
  blocked_patterns: ['\bos\.system\b']
  blocked_paths: [/etc, "*.pem"]
  privacy_protection: true
  hooks:
  - {on: before_tool_call, tool: crm.*, command: [./check.sh, -v], timeout: 2s}
  - {on: after_code, command: [scan]}
`})
	got, err := config.Load(src)
	if err != nil {
		t.Fatal(err)
	}
	want := config.Guardrails{Loading: true, MaxOutput: 3000, Check: guardrail.Config{
		Strict:    true,
		PerMinute: 30,
		MaxCode:   1000,
		MaxVars:   2000,
		Patterns:  []string{`\bos\.system\b`},
		Paths:     []string{"/etc", "*.pem"},
		Hooks: []guardrail.HookConfig{
			{On: guardrail.BeforeCall, Tool: "crm.*", Command: []string{filepath.Join(dir, "work", "check.sh"), "-v"},
				Timeout: 2 * time.Second},
			{On: guardrail.AfterCode, Command: []string{"scan"}},
		},
	}}
	if d := cmp.Diff(want, got.Guardrails); d != "" {
		t.Error(d)
	}
	if got.Limits.MaxTimeout != 2*time.Minute || got.Limits.MaxMemoryMB != 400 || len(got.Warnings) > 0 {
		t.Errorf("%+v, %q", got.Limits, got.Warnings)
	}
}

func TestSeedGuardrailsApply(t *testing.T) {
	for name, c := range map[string]struct {
		file, env string
		want      config.Guardrails
	}{
		"nothing": {"profile: lean\n", "", config.Guardrails{}},
		"strict": {"execution: {sandbox_type: process}\nguardrails: {enabled: true, strict_mode: true, security_checks: true}\n", "",
			config.Guardrails{Check: guardrail.Config{Strict: true}}},
		"off": {"profile: lean\n", "GUARDRAILS_ENABLED=False", config.Guardrails{Off: true}},
		"env": {"profile: lean\n", "GUARDRAILS_STRICT_MODE=1", config.Guardrails{Check: guardrail.Config{Strict: true}}},
		"ours": {"profile: lean\n", "SANDPIPER_GUARDRAILS_STRICT_MODE=true",
			config.Guardrails{Check: guardrail.Config{Strict: true}}},
		"checks off": {"guardrails: {security_checks: false, content_filtering: false}\n", "",
			config.Guardrails{Unfiltered: true, Check: guardrail.Config{SkipInput: true}}},
		"a usual rate":  {"guardrails: {rate_limiting: true}\n", "", config.Guardrails{Check: guardrail.Config{PerMinute: 60}}},
		"no rate":       {"guardrails: {rate_limiting: false}\n", "", config.Guardrails{}},
		"empty section": {"guardrails:\n", "", config.Guardrails{}},
	} {
		src, _ := sources(t, map[string]string{"work/sandpiper.yaml": c.file}, c.env)
		got, err := config.Load(src)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if d := cmp.Diff(c.want, got.Guardrails); d != "" || len(got.Warnings) > 0 {
			t.Errorf("%s: %s %q", name, d, got.Warnings)
		}
	}
}

func TestUnknownGuardrailKeyIsAnError(t *testing.T) {
	const text = "guardrails: {enabled: true, new_key: 1}\n"
	src, _ := sources(t, map[string]string{"work/sandpiper.yaml": text})
	if _, err := config.Load(src); fault.KindOf(err) != fault.Invalid {
		t.Errorf("sandpiper.yaml: %v", err)
	}
	src, _ = sources(t, map[string]string{"work/config.yaml": text})
	if _, err := config.Load(src); fault.KindOf(err) != fault.Invalid || !strings.Contains(fault.Message(err),
		`there is no key "guardrails.new_key"`) {
		t.Errorf("config.yaml: %v", err)
	}
}

func TestGuardrailKeysWithoutEffectWarn(t *testing.T) {
	for text, want := range map[string]string{
		"guardrails: {pii_detection: false}": "guardrails.pii_detection has no effect as false",
		"guardrails: {tokenization: false}":  "guardrails.tokenization has no effect as false",
		"guardrails: {enabled: false, hooks: [{on: after_code, command: [x]}]}": "guardrails.hooks has no effect: guardrails.enabled " +
			"is false",
	} {
		src, _ := sources(t, map[string]string{"work/sandpiper.yaml": text})
		got, err := config.Load(src)
		if err != nil || len(got.Warnings) != 1 || !strings.Contains(got.Warnings[0], "sandpiper.yaml line 1: "+want) {
			t.Errorf("%s: %+v, %v", text, got, err)
		}
	}
	src, _ := sources(t, nil, "GUARDRAILS_ENABLED=perhaps")
	if got, err := config.Load(src); err != nil || len(got.Warnings) != 1 || !strings.Contains(got.Warnings[0], "it is ignored") {
		t.Errorf("%+v, %v", got, err)
	}
}

func TestInvalidGuardrailsAreRejected(t *testing.T) {
	for text, want := range map[string]string{
		"guardrails: {allowed_networks: [10.0.0.0/8]}": "sandpiper.yaml line 1: guardrails.allowed_networks is " +
			"not available",
		"guardrails: {allowed_networks: all}": "guardrails.allowed_networks is not available",
		"guardrails: {blocked_patterns: [ok, '(']}": `sandpiper.yaml line 1: guardrails.blocked_patterns: ` +
			`entry 2, "(", is not a regular expression`,
		"guardrails: {blocked_patterns: x}":                                   "must be a list",
		"guardrails: {blocked_paths: [/]}":                                    `entry 1, "/", names no path`,
		"guardrails: {rate_limiting: sometimes}":                              "true, false or a number of executions per minute",
		"guardrails: {rate_limiting: 0}":                                      "true, false or a number of executions per minute",
		"guardrails: {max_code_bytes: 0}":                                     "a whole number from 1",
		"guardrails: {enabled: perhaps}":                                      "true or false",
		"guardrails: {hooks: [{on: before_code}]}":                            "entry 1 has no command",
		"guardrails: {hooks: [{on: soon, command: [x]}]}":                     `entry 1 has on: "soon"`,
		"guardrails: {hooks: [{on: before_code, command: [x], tool: a}]}":     "conflicts with on: before_code",
		"guardrails: {hooks: [{when: before_code, command: [x]}]}":            `has no key "when"`,
		"guardrails: {hooks: [{on: before_code, command: [x], timeout: 2m}]}": "use at most 1m0s",
		"guardrails: {pii_detection: true}\npii: {mode: off}": "sandpiper.yaml line 1: guardrails.pii_detection is true, " +
			"and sandpiper.yaml line 2: pii.mode is off",
		"guardrails: {enabeld: true}": `did you mean "guardrails.enabled"?`,
	} {
		src, _ := sources(t, map[string]string{"work/sandpiper.yaml": text})
		if got, err := config.Load(src); err == nil || !strings.Contains(fault.Message(err), want) {
			t.Errorf("%s: %+v, %v", text, got, err)
		}
	}
}
