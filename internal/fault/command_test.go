package fault_test

import (
	"testing"

	"github.com/sandpiper-mcp/sandpiper/internal/fault"
)

func TestCommandsAreCompleted(t *testing.T) {
	full := fault.Commands{Config: "/a b/it's.yaml", Tenant: "acme", Pages: "https://h/approve/"}
	for _, c := range []struct {
		commands   fault.Commands
		text, want string
	}{
		{fault.Commands{}, "run `sandpiper approvals approve x`", "run `sandpiper approvals approve x`"},
		{fault.Commands{Tenant: "acme"}, "ask them to " + fault.Approve("x", "y"),
			"ask them to run `sandpiper approvals approve x y --tenant acme` (or deny)"},
		{full, "ask them to " + fault.Approve("x", "y"), "ask them to open https://h/approve/x and https://h/approve/y, or run " +
			"`sandpiper approvals approve x y --config '/a b/it'\\''s.yaml' --tenant acme` (or deny)"},
		{fault.Commands{Config: "/c.yaml"}, "`sandpiper doctor` and `sandpiper stats`",
			"`sandpiper doctor --config /c.yaml` and `sandpiper stats --config /c.yaml`"},
		{fault.Commands{Config: "/c.yaml", Tenant: "a"}, "`sandpiper tenant suspend x && sandpiper skills list`",
			"`sandpiper tenant suspend x --config /c.yaml && sandpiper skills list --config /c.yaml --tenant a`"},
		{fault.Commands{Config: "/c.yaml", Tenant: "a"}, "`sandpiper exec --config /d --tenant b`",
			"`sandpiper exec --config /d --tenant b`"},
		{fault.Commands{Config: "/c.yaml"}, "`sandpiper servers add a --replace -- x -- --config y`",
			"`sandpiper servers add a --replace --config /c.yaml -- x -- --config y`"},
		{full, "`other` sandpiper exec", "`other` sandpiper exec"},
	} {
		got := c.commands.Complete(c.text)
		if got != c.want {
			t.Errorf("%q\n got %q\nwant %q", c.text, got, c.want)
		}
	}
}

func TestShellQuote(t *testing.T) {
	for name, want := range map[string]string{
		"github": "github", "my-api.v2": "my-api.v2", "": "''", "~x": "'~x'", "a#b": "'a#b'", "[a]": "'[a]'", "a\nb": "'a\nb'",
		"it's": `'it'\''s'`,
	} {
		if got := fault.ShellQuote(name); got != want {
			t.Errorf("fault.ShellQuote(%q) is %s, want %s", name, got, want)
		}
	}
}
