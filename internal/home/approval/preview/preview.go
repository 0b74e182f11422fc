// Package preview describes the arguments of a call, and code, so that a person can judge them:
// it shortens long texts, shows the first rows of long lists, as a table if they are objects, and
// states how much is left out.
//
// Texts of code and servers cannot imitate the description: each is quoted as JSON on one line,
// and characters that are not visible as themselves are escaped. All lines begin with four
// spaces, so that Markdown renders them verbatim.
//
// The package decides nothing, stores nothing, and knows no approvals. Its functions are safe for
// concurrent use.
package preview

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
)

// Limits of a preview. 0 means no limit.
type Limits struct {
	Text int // bytes of a text
	Rows int // elements of a list, and of them keys of an object times keysPerRow
	Size int // bytes of the preview
}

// keysPerRow is how many keys of an object are shown for each row of a list: they have names, and
// are judged one by one.
const keysPerRow = 8

// Indent begins each line.
const Indent = "    "

// Object is an object whose members are shown in their order.
type Object []Member

// Member is a member of an Object.
type Member struct {
	Name  string
	Value any
}

// Of describes a value as encoding/json decodes it with UseNumber; it may contain Objects. left
// reports whether something is left out.
func Of(v any, l Limits) (text string, left bool) {
	p := printer{limits: l}
	p.value(v, Indent, "")
	lines := strings.Split(Indent+p.out.String(), "\n")
	for i, line := range lines {
		lines[i] = Escape(line)
	}
	text = strings.Join(lines, "\n")
	if l.Size > 0 && len(text) > l.Size {
		text, p.left = strings.ToValidUTF8(text[:l.Size], ""), true
	}
	return text, p.left
}

type printer struct {
	limits Limits
	out    strings.Builder
	left   bool
}

// value prints a value that begins in a line with an indent; name is that of its key, or "".
func (p *printer) value(v any, indent, name string) {
	switch v := v.(type) {
	case Object:
		p.object(v, indent)
	case map[string]any:
		var o Object
		for _, k := range slices.Sorted(maps.Keys(v)) {
			o = append(o, Member{k, v[k]})
		}
		p.object(o, indent)
	case []any:
		p.list(v, indent, name)
	case []Object: // never long: each is a call
		p.elements(len(v), indent, func(i int) any { return v[i] })
	case string:
		p.out.WriteString(p.quote(v, p.limits.Text))
	default:
		p.out.WriteString(encode(v))
	}
}

func (p *printer) object(o Object, indent string) {
	if len(o) == 0 {
		p.out.WriteString("{}")
		return
	}
	most := p.limits.Rows * keysPerRow
	p.out.WriteString("{\n")
	for i, m := range o {
		if most > 0 && i == most {
			p.left = true
			fmt.Fprintf(&p.out, "%s  … %s more keys\n", indent, Number(len(o)-i))
			break
		}
		p.out.WriteString(indent + "  " + p.quote(m.Name, p.limits.Text) + ": ")
		p.value(m.Value, indent+"  ", m.Name)
		if i < len(o)-1 {
			p.out.WriteByte(',')
		}
		p.out.WriteByte('\n')
	}
	p.out.WriteString(indent + "}")
}

// list prints a list; a long one as a table, if its elements are objects.
func (p *printer) list(list []any, indent, name string) {
	most := p.limits.Rows
	if most == 0 || len(list) <= most {
		p.elements(len(list), indent, func(i int) any { return list[i] })
		return
	}
	p.left = true
	fmt.Fprintf(&p.out, "%s; the first %d:\n", Count(len(list), name), most)
	if columns := columnsOf(list); columns != nil {
		p.table(list[:most], columns, indent+"  ")
	} else {
		for _, v := range list[:most] {
			p.out.WriteString(indent + "  " + p.cell(v, 4*maxCell) + "\n")
		}
	}
	fmt.Fprintf(&p.out, "%s  … %s more", indent, Number(len(list)-most))
}

// elements prints all elements of a list.
func (p *printer) elements(n int, indent string, element func(int) any) {
	if n == 0 {
		p.out.WriteString("[]")
		return
	}
	p.out.WriteString("[\n")
	for i := range n {
		p.out.WriteString(indent + "  ")
		p.value(element(i), indent+"  ", "")
		if i < n-1 {
			p.out.WriteByte(',')
		}
		p.out.WriteByte('\n')
	}
	p.out.WriteString(indent + "]")
}

// quote returns a text as JSON, with its length if it is shortened.
func (p *printer) quote(s string, most int) string {
	if most == 0 || len(s) <= most {
		return encode(s)
	}
	p.left = true
	return fmt.Sprintf("%s… (%d bytes)", encode(strings.ToValidUTF8(s[:most], "")), len(s))
}

// encode returns a value as one line of JSON.
func encode(v any) string {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil { // values of encoding/json only
		return strconv.Quote(fmt.Sprint(v))
	}
	return strings.TrimSuffix(b.String(), "\n")
}

// Count returns the number of elements of a list with a noun: the name of the list, if that is
// like a plural, and "items" otherwise.
func Count(n int, name string) string {
	noun := "items"
	if isPlural(name) {
		noun = strings.ToLower(strings.ReplaceAll(name, "_", " "))
	}
	return Number(n) + " " + noun
}

// isPlural reports whether a name, which may come from code, is a word of letters that ends like a
// plural.
func isPlural(name string) bool {
	for _, r := range name {
		if r != '_' && (r < 'A' || r > 'Z') && (r < 'a' || r > 'z') {
			return false
		}
	}
	return len(name) > 2 && len(name) <= 30 && strings.HasSuffix(name, "s") && !strings.HasSuffix(name, "ss") || name == "people" ||
		name == "children"
}

// Number returns n with a comma between thousands.
func Number(n int) string {
	s := strconv.Itoa(n)
	for i := len(s) - 3; i > 0; i -= 3 {
		s = s[:i] + "," + s[i:]
	}
	return s
}
