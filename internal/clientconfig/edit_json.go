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

// find returns where in obj a name stands, the last time if several times.
func find(obj *hujson.Object, name string) int {
	for i := range slices.Backward(obj.Members) {
		if nameOf(obj.Members[i]) == name {
			return i
		}
	}
	return -1
}

// objectAt follows keys; nil if they lead to no object.
func objectAt(tree *hujson.Value, keys []string) *hujson.Object {
	obj, ok := tree.Value.(*hujson.Object)
	for _, key := range keys {
		if !ok {
			return nil
		}
		i := find(obj, key)
		if i < 0 {
			return nil
		}
		obj, ok = obj.Members[i].Value.Value.(*hujson.Object)
	}
	if !ok {
		return nil
	}
	return obj
}

func rawJSON(text []byte, table []string, name string) ([]byte, bool) {
	tree, err := hujson.Parse(bytes.TrimPrefix(text, bom))
	if err != nil {
		return nil, false
	}
	obj := objectAt(&tree, table)
	if obj == nil {
		return nil, false
	}
	i := find(obj, name)
	if i < 0 {
		return nil, false
	}
	v := obj.Members[i].Value
	v.BeforeExtra, v.AfterExtra = nil, nil
	return v.Pack(), true
}

func editJSON(text []byte, table []string, e Edit) ([]byte, error) {
	if len(bytes.TrimSpace(text)) == 0 {
		text = []byte("{" + lineEnd(text) + "}" + lineEnd(text))
	}
	tree, err := hujson.Parse(text)
	if err != nil {
		return nil, err
	}
	obj, _ := tree.Value.(*hujson.Object)
	w := writer{lineEnd(text), unitOf(obj), len(obj.Members) > 0 && !bytes.Contains(bytes.TrimSpace(text), []byte("\n"))}
	if len(e.Put) == 0 && objectAt(&tree, table) == nil {
		return text, nil
	}
	for depth, key := range table {
		i := find(obj, key)
		if i < 0 {
			w.append(obj, key, []byte("{}"), depth+1)
			i = len(obj.Members) - 1
		}
		next, ok := obj.Members[i].Value.Value.(*hujson.Object)
		switch kind := obj.Members[i].Value.Value.Kind(); {
		case !ok && kind != 'n':
			return nil, &malformed{what: "holds no servers by name in " + key}
		case !ok: // null is what some write for nothing
			next = &hujson.Object{}
			obj.Members[i].Value.Value = next
		}
		obj = next
	}
	for _, name := range e.Drop {
		for i := find(obj, name); i >= 0; i = find(obj, name) {
			remove(obj, i)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(e.Put)) {
		w.put(obj, name, e.Put[name], len(table)+1)
	}
	return tree.Pack(), nil
}

// writer adds to objects in the manner of the file.
type writer struct {
	end, unit string // of a line; one step of indentation
	compact   bool   // all on one line
}

// unit is one step of indentation where the file shows none.
const unit = "  "

// unitOf is the indentation of the first member that begins a line.
func unitOf(obj *hujson.Object) string {
	if len(obj.Members) > 0 {
		if by, ok := indentation(obj.Members[0].Name.BeforeExtra); ok && by != "" {
			return by
		}
	}
	return unit
}

// indentation is the space between the last line end and what follows.
func indentation(extra hujson.Extra) (string, bool) {
	i := bytes.LastIndexByte(extra, '\n')
	return strings.TrimLeft(string(extra[i+1:]), "\r"), i >= 0
}

func (w writer) put(obj *hujson.Object, name string, raw []byte, depth int) {
	if i := find(obj, name); i >= 0 {
		by, _ := indentation(obj.Members[i].Name.BeforeExtra)
		obj.Members[i].Value.Value = w.value(raw, by)
		return
	}
	w.append(obj, name, raw, depth)
}

// append adds a member at the end, on a line of its own unless all stand on one.
func (w writer) append(obj *hujson.Object, name string, raw []byte, depth int) {
	m := hujson.ObjectMember{Name: hujson.Value{Value: hujson.String(name)}}
	n := len(obj.Members)
	if n > 0 && obj.Members[n-1].Value.AfterExtra != nil {
		m.Value.AfterExtra = hujson.Extra{} // a trailing comma stays one
	}
	if w.compact {
		m.Value.Value = w.value(raw, "")
		obj.Members = append(obj.Members, m)
		return
	}
	by := strings.Repeat(w.unit, depth)
	if n > 0 {
		if before, own := indentation(obj.Members[n-1].Name.BeforeExtra); own {
			by = before
		}
	}
	same, rest := firstLine(obj.AfterExtra)
	m.Name.BeforeExtra = append(bytes.TrimRight(same, " \t"), w.end+by...)
	m.Value.BeforeExtra, m.Value.Value = hujson.Extra(" "), w.value(raw, by)
	if !bytes.Contains(rest, []byte("\n")) {
		rest = append(rest, w.end+strings.Repeat(w.unit, depth-1)...)
	}
	obj.Members, obj.AfterExtra = append(obj.Members, m), rest
}

// value is an entry as it stands at an indentation. One that was taken out of a
// file before is indented already.
func (w writer) value(raw []byte, by string) hujson.ValueTrimmed {
	lines := strings.Split(strings.ReplaceAll(string(raw), "\r\n", "\n"), "\n")
	fresh := strings.HasPrefix(lines[len(lines)-1], "}")
	for i, line := range lines[1:] {
		text := strings.TrimLeft(line, " ")
		switch {
		case w.compact:
			lines[i+1] = text
		case fresh:
			lines[i+1] = by + strings.Repeat(w.unit, (len(line)-len(text))/len(unit)) + text
		}
	}
	end := w.end
	if w.compact {
		end = ""
	}
	v, err := hujson.Parse([]byte(strings.Join(lines, end)))
	if err != nil {
		return hujson.Literal("null")
	}
	return v.Value
}

// remove takes a member out, with the comments above it. What stands behind the
// one before it on its line belongs to that.
func remove(obj *hujson.Object, i int) {
	same, _ := firstLine(obj.Members[i].Name.BeforeExtra)
	trailing := obj.Members[i].Value.AfterExtra != nil
	obj.Members = slices.Delete(obj.Members, i, i+1)
	after := &obj.AfterExtra
	if i < len(obj.Members) {
		after = &obj.Members[i].Name.BeforeExtra
	} else if i > 0 {
		obj.Members[i-1].Value.AfterExtra = nil
		if trailing {
			obj.Members[i-1].Value.AfterExtra = hujson.Extra{}
		}
	}
	_, rest := firstLine(*after)
	*after = append(bytes.TrimRight(same, " \t"), rest...)
}

// firstLine parts what stands on the line of what came before from the rest.
func firstLine(extra hujson.Extra) (same, rest hujson.Extra) {
	extra = slices.Clone(extra)
	i := bytes.IndexByte(extra, '\n')
	switch {
	case i > 0 && extra[i-1] == '\r':
		return extra[: i-1 : i-1], extra[i-1:]
	case i >= 0:
		return extra[:i:i], extra[i:]
	case bytes.Contains(extra, []byte("/")): // a comment within the line
		return extra, nil
	}
	return nil, extra
}
