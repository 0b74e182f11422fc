package clientconfig

import (
	"bytes"
	"maps"
	"reflect"
	"slices"
	"strings"

	"github.com/sandpiper-mcp/sandpiper/internal/fault"
	"github.com/sandpiper-mcp/sandpiper/internal/lazyregexp"
)

// Read returns the text of the file, nil if it does not exist.
func (f File) Read() ([]byte, error) {
	text, err := readFile(f.Path)
	if err != nil {
		return nil, fault.Wrap(fault.Unavailable, err, "%s %s", f.Path, err)
	}
	return text, nil
}

// document reads and parses the file; an absent file is empty.
func (f File) document() (document, error) {
	text, err := readFile(f.Path)
	if err != nil {
		return document{}, &syntaxError{message: err.Error()}
	}
	return f.parse(text)
}

// parse parses the text of the file.
func (f File) parse(text []byte) (document, error) {
	text = bytes.TrimPrefix(text, bom)
	if len(bytes.TrimSpace(text)) == 0 {
		return document{names: func([]string) []string { return nil }}, nil
	}
	if nesting(text, f.toml) > maxDepth {
		return document{}, &syntaxError{message: "is nested too deeply"}
	}
	if f.toml {
		return parseTOML(text)
	}
	return parseJSON(text)
}

// jsonToken matches a string or a comment of JSON.
var jsonToken = lazyregexp.New(`(?s)"(?:[^"\\]|\\.)*"|//[^\n]*|/\*.*?\*/`)

// nesting returns the greatest depth of brackets outside strings and comments.
// In TOML it counts those in strings as well, which makes the limit approximate.
func nesting(text []byte, toml bool) (deepest int) {
	if !toml {
		text = jsonToken().ReplaceAll(text, nil)
	}
	depth := 0
	for _, c := range text {
		switch c {
		case '[', '{':
			depth++
			deepest = max(deepest, depth)
		case ']', '}':
			depth--
		}
	}
	return deepest
}

// Snippet returns a whole file with the entry of Sandpiper, to be copied by hand.
func (f File) Snippet(l Launch) []byte {
	text, _ := f.Edit(nil, Edit{Put: &l}) // an empty file can be edited
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
		out = editTOML(body, f.table, e, f.entryText(e.Put, lineEnd(body)))
	} else {
		out, err = editJSON(body, f.table, e, f.entryText(e.Put, ""))
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
	names := slices.Concat(e.Drop, e.Back)
	if e.Put != nil {
		names = append(names, EntryName)
	}
	a, b := others(before, f.table, names), others(after, f.table, names)
	got := tableAt(after, f.table)
	original, _ := f.parse(e.Original)
	for _, name := range e.Back {
		if !reflect.DeepEqual(got[name], tableAt(original.root, f.table)[name]) {
			return false
		}
	}
	return (len(a)+len(b) == 0 || reflect.DeepEqual(a, b)) && (e.Put == nil || got[EntryName] != nil)
}

// others returns root without some servers of a table and without the tables that are empty then.
func others(root map[string]any, table, servers []string) map[string]any {
	root = maps.Clone(root)
	if len(table) == 0 {
		maps.DeleteFunc(root, func(name string, _ any) bool { return slices.Contains(servers, name) })
	} else if inner, ok := root[table[0]].(map[string]any); ok || root[table[0]] == nil {
		delete(root, table[0])
		if rest := others(inner, table[1:], servers); len(rest) > 0 {
			root[table[0]] = rest
		}
	}
	return root
}

// entryText returns an entry in the format of the client.
func (f File) entryText(l *Launch, end string) string {
	if l == nil {
		return ""
	}
	program := `"command": ` + quoted(l.Command) + `, "args": ` + quotedList(l.Args...) + "}"
	switch {
	case f.toml:
		text := "[" + strings.Join(f.table, ".") + "." + EntryName + "]" + end + "command = " + quoted(l.Command) + end + "args = " +
			quotedList(l.Args...) + end
		if l.Approved {
			text += Approval + " # codex exec refuses the tools otherwise" + end
		}
		return text
	case f.Client.ID == "vscode":
		return `{"type": "stdio", ` + program
	case f.Client.ID == "zed":
		return `{"source": "custom", ` + program
	case f.Client.ID == "opencode":
		return `{"type": "local", "command": ` + quotedList(append([]string{l.Command}, l.Args...)...) + "}"
	}
	return "{" + program
}
