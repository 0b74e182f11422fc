package clientconfig

import (
	"bytes"
	"maps"
	"reflect"
	"strings"

	"github.com/tailscale/hujson"

	"github.com/sandpiper-mcp/sandpiper/internal/fault"
)

// Edit is what is to be different among the servers of a file.
type Edit struct {
	Put  map[string][]byte // entries as the file would hold them, see Entry and Launch
	Drop []string          // names; one that is not there is no error
}

// Launch is how a client starts a program.
type Launch struct {
	Command string
	Args    []string
}

// Entry writes a launch as an entry of the file.
func (f File) Entry(name string, l Launch) []byte {
	if f.toml {
		return launchTOML(append(f.table[:len(f.table):len(f.table)], name), l)
	}
	args := make([]string, len(l.Args))
	for i, arg := range l.Args {
		args[i] = quoted(arg)
	}
	text := "{\n"
	if f.Client.ID == "vscode" {
		text += "  \"type\": \"stdio\",\n"
	}
	return []byte(text + "  \"command\": " + quoted(l.Command) + ",\n  \"args\": [" + strings.Join(args, ", ") + "]\n}")
}

// quoted is a text in JSON, and in TOML too, without the escapes that HTML would
// need.
func quoted(s string) string { return string(hujson.String(s)) }

// Snippet is a whole file with one entry, for a person to copy.
func (f File) Snippet(name string, l Launch) []byte {
	if f.toml {
		return f.Entry(name, l)
	}
	text, err := f.Edit(nil, Edit{Put: map[string][]byte{name: f.Entry(name, l)}})
	if err != nil {
		return nil // an empty file can be edited
	}
	return text
}

// Raw returns the entry of a name as it stands in text, to be put again.
func (f File) Raw(text []byte, name string) ([]byte, bool) {
	if f.toml {
		return rawTOML(text, append(f.table[:len(f.table):len(f.table)], name))
	}
	return rawJSON(text, f.table, name)
}

// Edit returns text with other servers. All else stays byte for byte: comments,
// order, line ends. It is held against what the text means before and after; a
// text that cannot be edited so is refused.
func (f File) Edit(text []byte, e Edit) ([]byte, error) {
	before, err := f.parse(text)
	if err != nil {
		return nil, fault.New(fault.Invalid, "%s: %s", f.Path, err)
	}
	body := bytes.TrimPrefix(text, bom)
	var out []byte
	if f.toml {
		out, err = editTOML(body, f.table, e)
	} else {
		out, err = editJSON(body, f.table, e)
	}
	if err == nil {
		out = append(text[:len(text)-len(body):len(text)-len(body)], out...)
		var after document
		if after, err = f.parse(out); err == nil && f.differsOnlyIn(before.root, after.root, e) {
			return out, nil
		}
	}
	return nil, fault.Wrap(fault.Unavailable, err, "%s is written in a way that cannot be edited safely", f.Path).
		WithHint("edit it by hand")
}

// differsOnlyIn reports whether a file says after an edit what it said before,
// but for the edit.
func (f File) differsOnlyIn(before, after map[string]any, e Edit) bool {
	want := maps.Clone(tableIn(before, f.table))
	if want == nil {
		want = map[string]any{}
	}
	for _, name := range e.Drop {
		delete(want, name)
	}
	got := tableIn(after, f.table)
	for name := range e.Put {
		if _, ok := got[name].(map[string]any); !ok {
			return false
		}
		want[name] = got[name]
	}
	if len(want)+len(got) > 0 && !reflect.DeepEqual(want, got) {
		return false
	}
	return reflect.DeepEqual(without(before, f.table), without(after, f.table))
}

// without is root less a table, and less what would then be empty.
func without(root map[string]any, table []string) map[string]any {
	root = maps.Clone(root)
	if root == nil {
		root = map[string]any{}
	}
	if len(table) > 1 {
		if inner, ok := root[table[0]].(map[string]any); ok {
			if rest := without(inner, table[1:]); len(rest) > 0 {
				root[table[0]] = rest
				return root
			}
		}
	}
	delete(root, table[0])
	return root
}

// lineEnd is how the lines of text end.
func lineEnd(text []byte) string {
	if bytes.Contains(text, []byte("\r\n")) {
		return "\r\n"
	}
	return "\n"
}
