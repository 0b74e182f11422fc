package clientconfig

import (
	"bytes"
	"maps"
	"slices"
	"strings"

	"github.com/tailscale/hujson"
)

func nameOf(m hujson.ObjectMember) string {
	name, _ := m.Name.Value.(hujson.Literal)
	return name.String()
}

// memberIndex returns the index of the last member with a name, or -1.
func memberIndex(obj *hujson.Object, name string) int {
	for i := range slices.Backward(obj.Members) {
		if nameOf(obj.Members[i]) == name {
			return i
		}
	}
	return -1
}

// objectAt returns the object at a path of keys, nil if there is none.
func objectAt(tree *hujson.Value, keys []string) *hujson.Object {
	obj, _ := tree.Value.(*hujson.Object)
	for _, key := range keys {
		if obj == nil {
			return nil
		}
		i := memberIndex(obj, key)
		if i < 0 {
			return nil
		}
		obj, _ = obj.Members[i].Value.Value.(*hujson.Object)
	}
	return obj
}

// editJSON edits the syntax tree of a file, which keeps white space and comments.
func (f File) editJSON(text []byte, e Edit) ([]byte, error) {
	if len(bytes.TrimSpace(text)) == 0 {
		text = []byte("{" + lineEnd(text) + "}" + lineEnd(text))
	}
	tree, err := hujson.Parse(text)
	if err != nil {
		return nil, err
	}
	if len(e.Put) == 0 && objectAt(&tree, f.table) == nil {
		return text, nil
	}
	obj, _ := tree.Value.(*hujson.Object)
	w := jsonWriter{lineEnd(text), unitOf(obj), len(obj.Members) > 0 && !bytes.Contains(bytes.TrimSpace(text), []byte("\n"))}
	for depth, key := range f.table {
		i := memberIndex(obj, key)
		if i < 0 {
			w.append(obj, key, nil, depth+1)
			i = len(obj.Members) - 1
		}
		next, ok := obj.Members[i].Value.Value.(*hujson.Object)
		if !ok {
			if obj.Members[i].Value.Value.Kind() != 'n' { // some clients write null for no servers
				return nil, &syntaxError{message: key + " is not a table of servers"}
			}
			next = &hujson.Object{}
			obj.Members[i].Value.Value = next
		}
		obj = next
	}
	for _, name := range e.Drop {
		for i := memberIndex(obj, name); i >= 0; i = memberIndex(obj, name) {
			remove(obj, i)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(e.Put)) {
		w.put(obj, name, f.members(e.Put[name]), len(f.table)+1)
	}
	return tree.Pack(), nil
}

// members returns the members of an entry.
func (f File) members(l Launch) []string {
	args := make([]string, len(l.Args))
	for i, arg := range l.Args {
		args[i] = quoted(arg)
	}
	list := []string{`"command": ` + quoted(l.Command), `"args": [` + strings.Join(args, ", ") + "]"}
	switch f.Client.ID {
	case "vscode":
		return slices.Insert(list, 0, `"type": "stdio"`)
	case "zed":
		return slices.Insert(list, 0, `"source": "custom"`)
	case "opencode":
		return []string{`"type": "local"`, `"command": [` + strings.Join(slices.Insert(args, 0, quoted(l.Command)), ", ") + "]"}
	}
	return list
}

// jsonWriter adds members to objects in the format of the file.
type jsonWriter struct {
	end, unit string // line end, one step of indentation
	compact   bool   // the file is one line
}

// unitOf returns the indentation of the first member, or two spaces.
func unitOf(obj *hujson.Object) string {
	if len(obj.Members) > 0 {
		if indent, ok := indentation(obj.Members[0].Name.BeforeExtra); ok && indent != "" {
			return indent
		}
	}
	return "  "
}

// indentation returns the white space after the last line end in extra; false if
// it has no line end.
func indentation(extra hujson.Extra) (string, bool) {
	i := bytes.LastIndexByte(extra, '\n')
	return strings.TrimLeft(string(extra[i+1:]), "\r"), i >= 0
}

// put replaces the member with a name or appends it.
func (w jsonWriter) put(obj *hujson.Object, name string, members []string, depth int) {
	if i := memberIndex(obj, name); i >= 0 {
		indent, _ := indentation(obj.Members[i].Name.BeforeExtra)
		obj.Members[i].Value.Value = w.object(members, indent)
		return
	}
	w.append(obj, name, members, depth)
}

// append adds a member on a line of its own, unless the file is one line.
func (w jsonWriter) append(obj *hujson.Object, name string, members []string, depth int) {
	m := hujson.ObjectMember{Name: hujson.Value{Value: hujson.String(name)}}
	n := len(obj.Members)
	if n > 0 && obj.Members[n-1].Value.AfterExtra != nil {
		m.Value.AfterExtra = hujson.Extra{} // keeps the trailing comma
	}
	if w.compact {
		m.Value.Value = w.object(members, "")
		obj.Members = append(obj.Members, m)
		return
	}
	indent := strings.Repeat(w.unit, depth)
	if n > 0 {
		if last, ownLine := indentation(obj.Members[n-1].Name.BeforeExtra); ownLine {
			indent = last
		}
	}
	sameLine, rest := splitLine(obj.AfterExtra)
	m.Name.BeforeExtra = append(bytes.TrimRight(sameLine, " \t"), w.end+indent...)
	m.Value.BeforeExtra, m.Value.Value = hujson.Extra(" "), w.object(members, indent)
	if !bytes.Contains(rest, []byte("\n")) {
		rest = append(rest, w.end+strings.Repeat(w.unit, depth-1)...)
	}
	obj.Members, obj.AfterExtra = append(obj.Members, m), rest
}

// object returns an object with members at an indentation.
func (w jsonWriter) object(members []string, indent string) hujson.ValueTrimmed {
	before, after := w.end+indent+w.unit, w.end+indent
	if w.compact || len(members) == 0 {
		before, after = "", ""
	}
	v, err := hujson.Parse([]byte("{" + before + strings.Join(members, ","+before) + after + "}"))
	if err != nil {
		return hujson.Literal("null")
	}
	return v.Value
}

// remove removes a member and the comments above it. A comment on the line of
// the previous member stays.
func remove(obj *hujson.Object, i int) {
	sameLine, _ := splitLine(obj.Members[i].Name.BeforeExtra)
	trailingComma := obj.Members[i].Value.AfterExtra != nil
	obj.Members = slices.Delete(obj.Members, i, i+1)
	after := &obj.AfterExtra
	if i < len(obj.Members) {
		after = &obj.Members[i].Name.BeforeExtra
	} else if i > 0 {
		obj.Members[i-1].Value.AfterExtra = nil
		if trailingComma {
			obj.Members[i-1].Value.AfterExtra = hujson.Extra{}
		}
	}
	_, rest := splitLine(*after)
	*after = append(bytes.TrimRight(sameLine, " \t"), rest...)
}

// splitLine splits extra before its first line end. Without a line end, a
// comment belongs to the first part and white space to neither.
func splitLine(extra hujson.Extra) (sameLine, rest hujson.Extra) {
	extra = slices.Clone(extra)
	i := bytes.IndexByte(extra, '\n')
	switch {
	case i > 0 && extra[i-1] == '\r':
		return extra[: i-1 : i-1], extra[i-1:]
	case i >= 0:
		return extra[:i:i], extra[i:]
	case bytes.Contains(extra, []byte("/")):
		return extra, nil
	}
	return nil, extra
}
