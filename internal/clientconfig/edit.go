package clientconfig

import (
	"bytes"
	"maps"
	"reflect"

	"github.com/tailscale/hujson"

	"github.com/sandpiper-mcp/sandpiper/internal/fault"
)

// Edit is a change to the servers of a file.
type Edit struct {
	Put  map[string]Launch // servers to add or replace
	Drop []string          // servers to remove, if they exist
}

// Launch is the command line with which a client starts a server.
type Launch struct {
	Command  string
	Args     []string
	Approved bool // the client calls its tools without asking; ignored in files of JSON
}

// Snippet returns a whole file with one server, to be copied by hand.
func (f File) Snippet(name string, l Launch) []byte {
	text, err := f.Edit(nil, Edit{Put: map[string]Launch{name: l}})
	if err != nil {
		return nil // not reached: an empty file can be edited
	}
	return text
}

// Edit applies e to the text of a file. All other text stays byte for byte:
// comments, order, indentation and line ends. Edit parses the result and compares
// it with the original; it refuses a text that it cannot edit in this way.
func (f File) Edit(text []byte, e Edit) ([]byte, error) {
	before, err := f.parse(text)
	if err != nil {
		return nil, fault.New(fault.Invalid, "%s: %s", f.Path, err)
	}
	body := bytes.TrimPrefix(text, bom)
	var out []byte
	if f.toml {
		out = editTOML(body, f.table, e)
	} else {
		out, err = f.editJSON(body, e)
	}
	if err == nil {
		out = append(text[:len(text)-len(body):len(text)-len(body)], out...)
		var after document
		if after, err = f.parse(out); err == nil && f.differOnlyBy(e, before.root, after.root) {
			return out, nil
		}
	}
	return nil, fault.Wrap(fault.Unavailable, err, "%s cannot be edited without changing other parts of it", f.Path).
		WithHint("edit it by hand")
}

// differOnlyBy reports whether e is the only difference between two contents of
// the file.
func (f File) differOnlyBy(e Edit, before, after map[string]any) bool {
	want := maps.Clone(tableAt(before, f.table))
	if want == nil {
		want = map[string]any{}
	}
	for _, name := range e.Drop {
		delete(want, name)
	}
	got := tableAt(after, f.table)
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

// without returns root without a table and without the parents that it leaves
// empty.
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

// quoted returns s as a JSON string, which is also a TOML basic string, without
// escapes for HTML.
func quoted(s string) string { return string(hujson.String(s)) }

// lineEnd returns the line end of a text.
func lineEnd(text []byte) string {
	if bytes.Contains(text, []byte("\r\n")) {
		return "\r\n"
	}
	return "\n"
}
