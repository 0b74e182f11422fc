//go:build linux

package worker_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/sandpiper-mcp/sandpiper/internal/sandbox"
	"github.com/sandpiper-mcp/sandpiper/internal/sandbox/worker"
)

func TestToolsOfSkills(t *testing.T) {
	w := open(t, worker.Limits{})
	for _, row := range []struct{ name, code, want string }{
		{"none", "def f(): return 1", `[]`},
		{"imported", "from servers.github import list_issues as l, get_issue\ndef f(): return l()",
			`[{"server":"github","function":"get_issue","by_name":false},{"server":"github","function":"list_issues","by_name":false}]`},
		{"of a module, in a function", "def f():\n    import servers.github as g\n    return g.list_issues(repo='x')",
			`[{"server":"github","function":"list_issues","by_name":false}]`},
		{"awaited", "from servers.github.aio import list_issues", `[{"server":"github","function":"list_issues","by_name":false}]`},
		{"by name", "def f(): return call_tool('git-hub', 'list-issues')",
			`[{"server":"git-hub","function":"list-issues","by_name":true}]`},
		{"by a variable", "def f(name): return call_tool('git-hub', name)", `[]`},
		{"resources", "from servers.github import resources, prompts", `[]`},
		{"another package", "from servant.github import list_issues", `[]`},
	} {
		o := w.program(t, sandbox.Program{Code: "from sandpiper import literals\nresult = literals.checked(source, {})['tools']",
			Vars: variables(t, map[string]any{"source": row.code})}, newHost())
		if string(o.Result) != row.want {
			t.Errorf("%s: %s, %s", row.name, o.Result, o.Error)
		}
	}
}

func TestUsedSkillsAreReportedOnce(t *testing.T) {
	w := open(t, worker.Limits{})
	h := newHost()
	code := "save_skill('a', 'def a(): return 1')\nsave_skill('b', 'from skills import a\\nc = 1')\nsave_skill('unused', 'x = 1')\n" +
		"from skills import a, b\nimport skills.a\nsave_skill('a', 'def a(): return 2')\nfrom skills import a\na()"
	for range 2 { // a live interpreter
		if o := w.program(t, sandbox.Program{Code: code}, h); string(o.Result) != "2" {
			t.Fatal(o)
		}
	}
	if diff := cmp.Diff([]string{"a", "b", "a", "b"}, h.used); diff != "" {
		t.Error(diff)
	}
}
