package config_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/sandpiper-mcp/sandpiper/internal/config"
	"github.com/sandpiper-mcp/sandpiper/internal/fault"
)

// TestUnusableEntriesAreNamed loads a configuration that is valid and cannot work on this machine.
func TestUnusableEntriesAreNamed(t *testing.T) {
	src, _ := sources(t, map[string]string{"work/sandpiper.yaml": `
servers:
  good: {command: sh, env: {A: "${GIVEN}"}}
  elsewhere: {command: no-such-program, env: {PATH: /opt/x}}
  gone: {command: no-such-program}
  path: {command: /no/such/program}
  dir: {command: sh, cwd: /no/such/dir}
  env: {command: sh, args: ["${GIVEN}", "${MISSING}"], env: {A: "${OTHER}", B: "${file:/x}"}}
  header: {url: "https://example.com/", headers: {Authorization: "Bearer ${TOKEN}"}}
  off: {command: no-such-program, disabled: true}
guardrails: {hooks: [{on: before_code, command: [sh]}, {on: after_code, command: [no-such-hook]}]}
`}, "GIVEN=1", "PATH=/usr/bin:/bin")
	c, err := config.Load(src)
	if err != nil {
		t.Fatal(err)
	}
	all := config.Unusable(c)
	for _, want := range []string{`server gone: there is no program "no-such-program"`,
		`server path: there is no program "/no/such/program"`, `server dir: its cwd "/no/such/dir" is not`,
		"server env: the variable MISSING,", "server env: the variable OTHER,", "server header: the variable TOKEN,",
		`guardrails.hooks: entry 2: there is no program "no-such-hook"`} {
		if !slices.ContainsFunc(all, func(text string) bool { return strings.HasPrefix(text, want) }) {
			t.Errorf("no %q in %q", want, all)
		}
	}
	if len(all) != 7 {
		t.Errorf("%d texts: %q", len(all), all)
	}
}

// TestEntriesAreNotIgnored loads entries of servers that were read as something else without a word.
func TestEntriesAreNotIgnored(t *testing.T) {
	for text, want := range map[string]string{
		`servers: {a: {command: sh, env: [A=b]}}`:                    "line 1: server a: env must be a mapping",
		`servers: {a: {command: sh, env: x}}`:                        "line 1: server a: env must be a mapping",
		`servers: {a: {url: "http://x/", headers: [x]}}`:             "line 1: server a: headers must be a mapping",
		`servers: {a: {url: "http://x/", headers: {"bad name": x}}}`: `line 1: server a: "bad name" is no name of a header`,
		`servers: {a: {url: "http://"}}`:                             "line 1: server a: url has no host",
		`servers: {a: {command: sh, disabled: "yes"}}`: `line 1: server a: disabled is "yes"; it must be true ` +
			`or false`,
		`servers: {a: {command: sh, disabled: 1}}`: "line 1: server a: disabled is 1; it must be true " +
			"or false",
		"servers:\n- {name: a, command: sh}\n- {name: a, command: cat}":          "the server a is in line 2 already",
		`servers: {a: {command: sh, env: }}`:                                     "",
		`servers: {a: {command: sh, env: {}, headers: {}, disabled: true}}`:      "",
		`servers: {a: {url: "${URL}", headers: {Authorization: "Bearer ${T}"}}}`: "",
	} {
		src, _ := sources(t, map[string]string{"work/sandpiper.yaml": text})
		_, err := config.Load(src)
		if want == "" && err != nil || want != "" && (err == nil || !strings.Contains(fault.Message(err), want)) {
			t.Errorf("%s: %v, want %q", text, err, want)
		}
	}
}
