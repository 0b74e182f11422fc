package config_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/sandpiper-mcp/sandpiper/internal/config"
	"github.com/sandpiper-mcp/sandpiper/internal/fault"
)

const editable = `# mine
profile: lean # fast
servers:
  # one
  a: {command: x} # a
  # two
  b:
    command: y
    # in b
    args: [1, "2"]

  c: {url: "https://ü.example/", disabled: false}
  d:
    command: z
    disabled: true # for now
# of policy
policy: {default: ask}
`

func TestEditServers(t *testing.T) {
	disable := func(name string) func([]byte) ([]byte, error) {
		return func(text []byte) ([]byte, error) { return config.SetDisabled("/d/s.yaml", text, name, true) }
	}
	enable := func(name string) func([]byte) ([]byte, error) {
		return func(text []byte) ([]byte, error) { return config.SetDisabled("/d/s.yaml", text, name, false) }
	}
	remove := func(name string) func([]byte) ([]byte, error) {
		return func(text []byte) ([]byte, error) { return config.RemoveServer("/d/s.yaml", text, name) }
	}
	for name, tc := range map[string]struct {
		change   func([]byte) ([]byte, error)
		old, new string
	}{
		"remove one line":         {remove("a"), "  a: {command: x} # a\n", ""},
		"remove a block":          {remove("b"), "  b:\n    command: y\n    # in b\n    args: [1, \"2\"]\n", ""},
		"remove the last":         {remove("d"), "  d:\n    command: z\n    disabled: true # for now\n", ""},
		"disable one line":        {disable("a"), "{command: x}", "{command: x, disabled: true}"},
		"disable a block":         {disable("b"), "  b:\n", "  b:\n    disabled: true\n"},
		"disable, with key":       {disable("c"), "disabled: false", "disabled: true"},
		"disable again":           {disable("d"), "", ""},
		"enable a block":          {enable("d"), "    disabled: true # for now\n", ""},
		"enable an enabled one":   {enable("a"), "", ""},
		"enable, with key":        {enable("c"), "", ""},
		"the end of the line \\r": {disable("a"), "{command: x}", "{command: x, disabled: true}"},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := tc.change([]byte(editable))
			if want := replaceOnce(t, editable, tc.old, tc.new); err != nil || string(got) != want {
				t.Errorf("%v (-want +got):\n%s", err, cmp.Diff(want, string(got)))
			}
		})
	}
	if got, err := disable("a")([]byte("servers:\r\n  a:\r\n    command: x\r\n")); err != nil ||
		string(got) != "servers:\r\n  a:\r\n    disabled: true\r\n    command: x\r\n" {
		t.Errorf("%q %v", got, err)
	}
	if got, err := remove("a")([]byte("servers:\n  a:\n    command: x")); err != nil || string(got) != "servers:\n" {
		t.Errorf("%q %v", got, err)
	}
}

func replaceOnce(t *testing.T, text, old, new string) string {
	t.Helper()
	before, after, ok := strings.Cut(text, old)
	if !ok {
		t.Fatalf("there is no %q", old)
	}
	return before + new + after
}

func TestEditServersInBraces(t *testing.T) {
	const lines = "profile: lean\nservers: {\n  # one\n  ü: {command: x}, # c\n  a: {command: x},  # d\n  b: {command: y}\n}\npolicy: " +
		"{default: ask}\n"
	add := func(text string) ([]byte, error) {
		return config.AddServers("/d/s.yaml", []byte(text), []config.Server{{Name: "new", Command: "z", Args: []string{"-y", "no", "a, b"},
			Dir: "/d"}})
	}
	replace := func(text string) ([]byte, error) {
		return config.ReplaceServer("/d/s.yaml", []byte(text), config.Server{Name: "a", URL: "https://x.example/", Dir: "/d"})
	}
	remove := func(text string) ([]byte, error) { return config.RemoveServer("/d/s.yaml", []byte(text), "a") }
	disable := func(text string) ([]byte, error) { return config.SetDisabled("/d/s.yaml", []byte(text), "a", true) }
	const n, quotedN = `new: {command: z, args: ["-y", "no", "a, b"]}`, `"new": {"command": "z", "args": ["-y", "no", "a, b"]}`
	for name, c := range map[string]struct {
		change   func(string) ([]byte, error)
		old, new string
	}{
		"add":               {add, "servers: {a: {command: x}}\n", "servers: {a: {command: x}, " + n + "}\n"},
		"add after a comma": {add, "servers: {a: {command: x},}\n", "servers: {a: {command: x}, " + n + "}\n"},
		"add the first":     {add, "servers: {} # none\n", "servers: {" + n + "} # none\n"},
		"add to JSON":       {add, `{"servers": {"a": {"command": "x"}}}`, `{"servers": {"a": {"command": "x"}, ` + quotedN + `}}`},
		"add to other JSON": {add, `{"profile": "lean"}`, `{"profile": "lean", "servers": {` + quotedN + `}}`},
		"add to lines":      {add, lines, strings.Replace(lines, "y}\n", "y},\n  "+n+"\n", 1)},
		"replace": {replace, "servers: {a: {command: x}, b: {command: y}} # c\n",
			"servers: {a: {url: \"https://x.example/\"}, b: {command: y}} # c\n"},
		"replace a line":  {replace, lines, strings.Replace(lines, "a: {command: x}", `a: {url: "https://x.example/"}`, 1)},
		"replace a block": {replace, editable, strings.Replace(editable, "a: {command: x}", `a: {url: "https://x.example/"}`, 1)},
		"replace a long block": {replace, "servers:\n  # one\n  a:\n    command: x\n\n  # two\n  b: {command: y}\n",
			"servers:\n  # one\n  a:\n    url: https://x.example/\n\n  # two\n  b: {command: y}\n"},
		"remove":              {remove, "servers: {a: {command: x}, b: {command: y}}\n", "servers: {b: {command: y}}\n"},
		"remove the last":     {remove, "servers: {b: {command: y}, a: {command: x}}\n", "servers: {b: {command: y}}\n"},
		"remove the only one": {remove, "servers: {a: {command: x}}\n", "servers: {}\n"},
		"remove a line":       {remove, lines, strings.Replace(lines, "  a: {command: x},  # d\n", "", 1)},
		"disable": {disable, "servers: {a: {command: x}, b: {command: y}}\n",
			"servers: {a: {command: x, disabled: true}, b: {command: y}}\n"},
		"disable in JSON": {disable, `{"servers": {"a": {"command": "x"}}}`,
			`{"servers": {"a": {"command": "x", "disabled": true}}}`},
		"the end of the line \\r": {add, "servers: {\r\n  a: {command: x}\r\n}\r\n",
			"servers: {\r\n  a: {command: x},\r\n  " + n + "\r\n}\r\n"},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := c.change(c.old)
			if d := cmp.Diff(c.new, string(got)); d != "" || err != nil {
				t.Errorf("%v (-want +got):\n%s", err, d)
			}
		})
	}
}

func TestUneditableServersAreRefused(t *testing.T) {
	for text, kind := range map[string]fault.Kind{
		"servers:\n- {name: a, command: x}\n":       fault.Unavailable,
		"servers:\n  b: {command: x}\n":             fault.NotFound,
		"servers:\n  a: &x {command: x}\n  b: *x\n": fault.Invalid,
		"servers:\n  a: {\n command: x\n}\n":        fault.Unavailable,
		"servers: [\n":                              fault.Invalid,
		"":                                          fault.NotFound,
		"servers:\n  a: {command: x}\n  a: {command: y}\n": fault.Invalid,
	} {
		if got, err := config.RemoveServer("/d/s.yaml", []byte(text), "a"); fault.KindOf(err) != kind {
			t.Errorf("%q: %q, %v", text, got, err)
		}
	}
}
