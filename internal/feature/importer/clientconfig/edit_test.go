package clientconfig

import (
	"bytes"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/sandpiper-mcp/sandpiper/internal/fault"
)

var (
	inJSON = File{Client: Client{ID: "cursor"}, Path: "mcp.json", table: []string{"mcpServers"}}
	inTOML = File{Client: Client{ID: "codex"}, Path: "config.toml", table: []string{"mcp_servers"}, toml: true}
	launch = Launch{Command: "sandpiper", Args: []string{"serve"}}
)

// Each case is a text, the text with Sandpiper added, and the text with Sandpiper
// added and server x dropped; "" means equal to put, "-" means an error.
var edits = []struct {
	name             string
	file             File
	text, put, dropX string
}{
	{"empty file", inJSON, "", "{\n  \"mcpServers\": {\n    \"sandpiper\": {\"command\": \"sandpiper\", \"args\": [\"serve\"]}\n  }\n}\n",
		""},
	{"other keys, tabs and CRLF", inJSON, "{\r\n\t\"a\": 1\r\n}\r\n",
		"{\r\n\t\"mcpServers\": {\r\n\t\t\"sandpiper\": {\"command\": \"sandpiper\", \"args\": [\"serve\"]}\r\n\t},\r\n\t\"a\": 1\r\n}\r\n",
		""},
	{"comments and trailing commas", inJSON,
		"// mine\n{\n  \"mcpServers\": {\n    \"a\": {}, // of a\n    // above x\n    \"x\": {\"k\": 1,}, // of x\n    \"b\": {}, // of " +
			"b\n  },\n}\n",
		"// mine\n{\n  \"mcpServers\": {\n    \"sandpiper\": {\"command\": \"sandpiper\", \"args\": [\"serve\"]},\n    \"a\": {}, // of " +
			"a\n    // above x\n    \"x\": {\"k\": 1,}, // of x\n    \"b\": {}, // of b\n  },\n}\n",
		"// mine\n{\n  \"mcpServers\": {\n    \"sandpiper\": {\"command\": \"sandpiper\", \"args\": [\"serve\"]},\n    \"a\": {}, // of " +
			"a\n    \"b\": {}, // of b\n  },\n}\n"},
	{"the last entry is dropped", inJSON,
		"{\"mcpServers\": {\n  \"a\": {}, // of a\n  \"x\": {} // of x\n}}",
		"{\"mcpServers\": {\n  \"sandpiper\": {\"command\": \"sandpiper\", \"args\": [\"serve\"]},\n  \"a\": {}, // of a\n  \"x\": {} // " +
			"of x\n}}",
		"{\"mcpServers\": {\n  \"sandpiper\": {\"command\": \"sandpiper\", \"args\": [\"serve\"]},\n  \"a\": {} // of a\n}}"},
	{"compact JSON", inJSON, `{"mcpServers":{"x":{"command":"x"}}}`,
		"{\"mcpServers\":{\"sandpiper\": {\"command\": \"sandpiper\", \"args\": [\"serve\"]},\"x\":{\"command\":\"x\"}}}",
		"{\"mcpServers\":{\"sandpiper\": {\"command\": \"sandpiper\", \"args\": [\"serve\"]}}}"},
	{"duplicate name", inJSON, "{\"mcpServers\": {\"x\": {\"a\": 1}, \"x\": {\"b\": 1}}}",
		"{\"mcpServers\": {\"sandpiper\": {\"command\": \"sandpiper\", \"args\": [\"serve\"]},\"x\": {\"a\": 1}, \"x\": {\"b\": 1}}}",
		"{\"mcpServers\": {\"sandpiper\": {\"command\": \"sandpiper\", \"args\": [\"serve\"]}}}"},
	{"an older entry of Sandpiper", inJSON, "{\n  \"mcpServers\": {\n    \"sandpiper\": {\"command\": \"old\"} // ours\n  }\n}\n",
		"{\n  \"mcpServers\": {\n    \"sandpiper\": {\"command\": \"sandpiper\", \"args\": [\"serve\"]} // ours\n  }\n}\n", ""},
	{"a byte order mark", inJSON, "\ufeff{\"a\":1}", "\ufeff{\"mcpServers\": {\"sandpiper\": {\"command\": \"sandpiper\", \"args\": " +
		"[\"serve\"]}},\"a\":1}", ""},
	{"not an object", inJSON, `[1]`, "-", "-"},
	{"invalid JSON", inJSON, `{"a": }`, "-", "-"},
	{"servers are not a table", inJSON, `{"mcpServers": 7}`, "-", "-"},
	{"empty TOML", inTOML, "", "[mcp_servers.sandpiper]\ncommand = \"sandpiper\"\nargs = [\"serve\"]\n", ""},
	{"TOML with comments", inTOML,
		"# mine\nmodel = 'o'\n\n# of x\n[mcp_servers.x]\ncommand = \"x\"\n[mcp_servers.x.env]\nA = \"\"\"\n[mcp_servers.no]\n\"\"\"\n\n# " +
			"of tui\n[tui]\nn = 1 # end",
		"# mine\nmodel = 'o'\n\n# of x\n[mcp_servers.x]\ncommand = \"x\"\n[mcp_servers.x.env]\nA = \"\"\"\n[mcp_servers.no]\n\"\"\"\n\n# " +
			"of tui\n[tui]\nn = 1 # end\n\n[mcp_servers.sandpiper]\ncommand = \"sandpiper\"\nargs = [\"serve\"]\n",
		"# mine\nmodel = 'o'\n\n# of tui\n[tui]\nn = 1 # end\n\n[mcp_servers.sandpiper]\ncommand = \"sandpiper\"\nargs = [\"serve\"]\n"},
	{"TOML with CRLF", inTOML, "a = 1\r\n", "a = 1\r\n\r\n[mcp_servers.sandpiper]\r\ncommand = \"sandpiper\"\r\nargs = [\"serve\"]\r\n",
		""},
	{"TOML inline tables", inTOML, "mcp_servers = {x = {command = \"x\"}}\n", "-", "-"},
	{"invalid TOML", inTOML, "a = \n", "-", "-"},
}

func TestEditKeepsAllOtherText(t *testing.T) {
	for _, tc := range edits {
		t.Run(tc.name, func(t *testing.T) {
			put := &launch
			for _, step := range []struct {
				want string
				edit Edit
			}{{tc.put, Edit{Put: put}}, {tc.dropX, Edit{Put: put, Drop: []string{"x"}}}} {
				if step.want == "" {
					step.want = tc.put
				}
				out, err := tc.file.Edit([]byte(tc.text), step.edit)
				if step.want == "-" {
					if err == nil || fault.Message(err) == "" {
						t.Errorf("Edit returned %q, %v; want an error with a message", out, err)
					}
					continue
				}
				if d := cmp.Diff(step.want, string(out)); d != "" || err != nil {
					t.Errorf("%v (-want +got):\n%s", err, d)
				}
			}
		})
	}
}

func TestEntryFormatOfEachClient(t *testing.T) {
	vscode := File{Client: Client{ID: "vscode"}, table: []string{"servers"}}
	if got := string(vscode.Snippet(launch)); got != "{\n  \"servers\": {\n    \"sandpiper\": {\"type\": \"stdio\", \"command\": "+
		"\"sandpiper\", \"args\": [\"serve\"]}\n  }\n}\n" {
		t.Error(got)
	}
	unusual := Launch{Command: `C:\Tools\sand "piper".exe`, Args: []string{"a\tb", "ü<&>"}}
	for _, f := range []File{inJSON, inTOML, vscode} {
		text, err := f.Edit(nil, Edit{Put: &unusual})
		if err != nil {
			t.Fatal(err)
		}
		d, err := f.parse(text)
		if err != nil {
			t.Fatal(err)
		}
		got := tableAt(d.root, append(f.table[:1:1], EntryName))
		if got["command"] != unusual.Command || !cmp.Equal(texts(got["args"]), unusual.Args) {
			t.Errorf("%s contains %v", text, got)
		}
	}
}

// FuzzEdit checks that adding Sandpiper keeps all comments and that dropping it
// again restores the text, apart from white space.
func FuzzEdit(f *testing.F) {
	for _, tc := range edits {
		f.Add(tc.file.toml, []byte(tc.text))
	}
	f.Fuzz(func(t *testing.T, asTOML bool, text []byte) {
		file := inJSON
		if asTOML {
			file = inTOML
		}
		before, err := file.parse(text)
		if err != nil {
			return
		}
		if _, ok := tableAt(before.root, file.table)["sandpiper"]; ok {
			return
		}
		with, err := file.Edit(text, Edit{Put: &launch})
		if err != nil {
			return
		}
		if got, want := bytes.Count(with, []byte("//")), bytes.Count(text, []byte("//")); !asTOML && got != want {
			t.Errorf("%q became %q with %d comments, want %d", text, with, got, want)
		}
		without, err := file.Edit(with, Edit{Drop: []string{"sandpiper"}})
		if err != nil {
			t.Fatalf("%q became %q, from which Sandpiper cannot be dropped: %v", text, with, err)
		}
		squeeze := func(b []byte) string { return strings.Join(strings.Fields(string(b)), "") }
		if len(tableAt(before.root, file.table)) > 0 && squeeze(without) != squeeze(text) {
			t.Errorf("%q became %q, and after the drop %q", text, with, without)
		}
	})
}

// codex exec refuses the tools of an entry without an approval mode. The entry has it only if the
// person agreed.
func TestApprovedEntryOfCodex(t *testing.T) {
	approved := launch
	approved.Approved = true
	out, err := inTOML.Edit([]byte("model = \"o\"\r\n"), Edit{Put: &approved})
	const want = "model = \"o\"\r\n\r\n[mcp_servers.sandpiper]\r\ncommand = \"sandpiper\"\r\nargs = [\"serve\"]\r\n" +
		"default_tools_approval_mode = \"approve\" # codex exec refuses the tools otherwise\r\n"
	if d := cmp.Diff(want, string(out)); d != "" || err != nil {
		t.Errorf("%v (-want +got):\n%s", err, d)
	}
}
