package clientconfig

import (
	"bytes"
	"encoding/json"
	"slices"
	"strconv"
	"strings"

	"github.com/tailscale/hujson"

	"github.com/sandpiper-mcp/sandpiper/internal/lazyregexp"
)

// parseJSON parses JSON with comments and trailing commas, which clients accept.
func parseJSON(text []byte) (document, error) {
	tree, err := hujson.Parse(text)
	if err != nil {
		return document{}, &syntaxError{lineOf(err), "is not JSON"}
	}
	if objectAt(&tree, nil) == nil {
		return document{}, &syntaxError{message: "does not contain a JSON object"}
	}
	plain := tree.Clone()
	plain.Standardize()
	d := document{names: func(table []string) (names []string) {
		if obj := objectAt(&tree, table); obj != nil {
			for _, m := range obj.Members { // the last of two members with the same name counts
				names = append(slices.DeleteFunc(names, func(n string) bool { return n == nameOf(m) }), nameOf(m))
			}
		}
		return names
	}}
	dec := json.NewDecoder(bytes.NewReader(plain.Pack()))
	dec.UseNumber()
	if err := dec.Decode(&d.root); err != nil {
		return document{}, &syntaxError{message: "is not JSON"}
	}
	return d, nil
}

// lineOf returns the line in an error of hujson. The rest of that error may
// quote the file.
func lineOf(err error) int {
	_, rest, _ := strings.Cut(err.Error(), "line ")
	number, _, _ := strings.Cut(rest, ",")
	line, _ := strconv.Atoi(number)
	return line
}

// pointer returns a path of keys as a JSON pointer.
func pointer(keys ...string) (text string) {
	for _, key := range keys {
		text += "/" + strings.NewReplacer("~", "~0", "/", "~1").Replace(key)
	}
	return text
}

// objectAt returns the object at a path of keys, nil if there is none.
func objectAt(tree *hujson.Value, keys []string) *hujson.Object {
	if v := tree.Find(pointer(keys...)); v != nil {
		obj, _ := v.Value.(*hujson.Object)
		return obj
	}
	return nil
}

func nameOf(m hujson.ObjectMember) string {
	name, _ := m.Name.Value.(hujson.Literal)
	return name.String()
}

// memberIndex returns the index of the last member with a name, which counts, or -1.
func memberIndex(obj *hujson.Object, name string) int {
	if obj != nil {
		for i := range slices.Backward(obj.Members) {
			if nameOf(obj.Members[i]) == name {
				return i
			}
		}
	}
	return -1
}

// editJSON edits a text and keeps its white space and comments. entry is the text of e.Put.
func editJSON(text []byte, table []string, e Edit, entry string) ([]byte, error) {
	if len(bytes.TrimSpace(text)) == 0 {
		text = []byte("{" + lineEnd(text) + "}" + lineEnd(text))
	}
	tree, err := hujson.Parse(text)
	if err != nil {
		return nil, err
	}
	for _, name := range e.Drop {
		for obj := objectAt(&tree, table); memberIndex(obj, name) >= 0; {
			removeMember(obj, memberIndex(obj, name))
		}
	}
	if e.Put != nil {
		if put := tree.Find(pointer(append(slices.Clone(table), EntryName)...)); put != nil {
			put.Value = hujson.Literal(entry)
			entry = ""
		}
	}
	text = tree.Pack()
	for _, name := range e.Back {
		member, after := memberText(bytes.TrimPrefix(e.Original, bom), table, name)
		if text, err = insertMember(text, table, member, after); err != nil {
			return nil, err
		}
	}
	if entry != "" {
		return insertMember(text, table, quoted(EntryName)+": "+entry, "")
	}
	return text, nil
}

// memberText returns the text of a member with the comments above it, and the comment after it.
func memberText(text []byte, table []string, name string) (member, after string) {
	tree, _ := hujson.Parse(text)
	obj := objectAt(&tree, table)
	i := memberIndex(obj, name)
	if i < 0 {
		return "", ""
	}
	m, rest := &obj.Members[i], obj.AfterExtra
	if i+1 < len(obj.Members) {
		rest = obj.Members[i+1].Name.BeforeExtra
	}
	_, above := splitAbove(m.Name.BeforeExtra)
	sameLine, _, _ := bytes.Cut(rest, []byte("\n"))
	if beforeComma := bytes.TrimSpace(m.Value.AfterExtra); len(beforeComma) > 0 {
		sameLine = slices.Concat([]byte(" "), beforeComma, []byte(lineEnd(text)), sameLine)
	}
	return string(bytes.TrimLeft(above, " \t\r\n")) + string(text[m.Name.StartOffset:m.Value.EndOffset]),
		string(bytes.TrimRight(sameLine, " \t\r"))
}

// insertMember adds a member and the comment after it to the start of a table, on a line of its own unless
// all is on one line. It adds the tables that are missing.
func insertMember(text []byte, table []string, added, after string) ([]byte, error) {
	tree, err := hujson.Parse(text)
	if err != nil {
		return nil, err
	}
	depth, v := 0, &tree
	for depth < len(table) && v.Find(pointer(table[depth])) != nil {
		v = v.Find(pointer(table[depth]))
		depth++
	}
	if v.Value.Kind() == 'n' { // some clients write null for no servers
		v.Value = hujson.Literal("{}")
		return insertMember(tree.Pack(), table, added, after)
	}
	obj, ok := v.Value.(*hujson.Object)
	if !ok {
		return nil, &syntaxError{message: strings.Join(table[:depth], ".") + " is not a table of servers"}
	}
	end, unit, first := lineEnd(text), "  ", obj.AfterExtra
	if indent, ownLine := indentation(tree.Value.(*hujson.Object)); ownLine && indent != "" {
		unit = indent
	}
	indent, ownLine := indentation(obj)
	if !ownLine {
		indent = strings.Repeat(unit, depth+1)
	}
	if !bytes.Contains(bytes.TrimSpace(text), []byte("\n")) && !strings.Contains(added, "\n") && after == "" {
		end, indent, unit = "", "", ""
	}
	for i := len(table) - 1; i >= depth; i-- {
		outer := indent + strings.Repeat(unit, i-depth)
		added, after = quoted(table[i])+": {"+end+outer+unit+added+after+end+outer+"}", ""
	}
	if len(obj.Members) > 0 {
		first = obj.Members[0].Name.BeforeExtra
		added += ","
	}
	at := bytes.Index(first, []byte(end)) // after a comment on the line of the brace
	if at < 0 {
		after += end + indent
		if len(obj.Members) == 0 {
			after = strings.TrimSuffix(after, unit)
		}
	}
	at = v.StartOffset + 1 + max(0, at)
	return slices.Concat(text[:at], []byte(end+indent+added+after), text[at:]), nil
}

// indentation returns the white space before the first member of an object; false if it is not at
// the start of a line.
func indentation(obj *hujson.Object) (string, bool) {
	if len(obj.Members) == 0 {
		return "", false
	}
	extra := obj.Members[0].Name.BeforeExtra
	i := bytes.LastIndexByte(extra, '\n')
	return strings.TrimLeft(string(extra[i+1:]), "\r"), i >= 0
}

var blankLine = lazyregexp.New(`\n[ \t\r]*\n`)

// splitAbove splits what precedes a member before the lines directly above it.
func splitAbove(extra hujson.Extra) (others, above hujson.Extra) {
	at := bytes.IndexByte(extra, '\n') + 1
	for _, m := range blankLine().FindAllIndex(extra, -1) {
		at = max(at, m[1])
	}
	return extra[:at:at], extra[at:]
}

// removeMember removes a member with the comments directly above it and on its line.
func removeMember(obj *hujson.Object, i int) {
	last := len(obj.Members) - 1
	after, comma := &obj.AfterExtra, obj.Members[last].Value.AfterExtra
	if i < last {
		after = &obj.Members[i+1].Name.BeforeExtra
	}
	before := obj.Members[i].Name.BeforeExtra
	kept, _ := splitAbove(before) // ends with a line end, or is empty
	if _, rest, ok := bytes.Cut(*after, []byte("\n")); ok {
		*after = slices.Concat(kept, rest)
	} else { // what follows is on the line of the member, and takes its place
		*after = slices.Concat(kept, before[len(bytes.TrimRight(before, " \t")):], bytes.TrimLeft(*after, " \t"))
	}
	obj.Members = slices.Delete(obj.Members, i, i+1)
	if i == last && i > 0 {
		obj.Members[i-1].Value.AfterExtra = nil
		if comma != nil {
			obj.Members[i-1].Value.AfterExtra = hujson.Extra{}
		}
	}
}
