package config

import (
	"bytes"
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/goccy/go-yaml"
	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/parser"
	yamltoken "github.com/goccy/go-yaml/token"

	"github.com/sandpiper-mcp/sandpiper/internal/config/section"
)

// flowText is a text with a mapping in braces, such as servers: {a: {command: x}}.
type flowText struct {
	text   []rune
	starts []int // of the lines
	node   *ast.MappingNode
	quoted bool // its keys are quoted, as in JSON
	end    string
}

// parseText parses a text. The parser counts the lines of comments that end with \r\n wrongly, and counts columns
// and lines that end with \n rightly.
func parseText(text []byte) (*ast.File, error) {
	return parser.ParseBytes(bytes.ReplaceAll(text, []byte("\r\n"), []byte("\n")), 0)
}

// flowSection returns a section of a text, such as servers, if it is in braces, or if the whole text is and does
// not have it; then root is true.
func flowSection(text []byte, key string) (f flowText, root, ok bool) {
	file, err := parseText(text)
	if err != nil || len(file.Docs) == 0 {
		return f, false, false
	}
	node, _ := file.Docs[0].Body.(*ast.MappingNode)
	root = node != nil && node.IsFlowStyle
	for _, top := range section.Members(file.Docs[0].Body) {
		if top.Key.GetToken().Value == key {
			node, _ = top.Value.(*ast.MappingNode)
			root = false
		}
	}
	if node == nil || !node.IsFlowStyle || node.End == nil {
		return f, false, false
	}
	f = newFlowText(text)
	f.node, f.quoted = node, quotedKey(file.Docs[0].Body) || quotedKey(node)
	return f, root, true
}

func newFlowText(text []byte) flowText {
	f := flowText{text: []rune(string(text)), starts: []int{0}, end: "\n"}
	for i, r := range f.text {
		if r == '\n' {
			f.starts = append(f.starts, i+1)
		}
	}
	if strings.Contains(string(text), "\r\n") {
		f.end = "\r\n"
	}
	return f
}

// quotedKey reports whether the first key of a mapping is quoted.
func quotedKey(n ast.Node) bool {
	all := section.Members(n)
	return len(all) > 0 && all[0].Key.GetToken().Type == yamltoken.DoubleQuoteType
}

// at returns the index of a token in the text.
func (f flowText) at(t *yamltoken.Token) int {
	return f.starts[t.Position.Line-1] + t.Position.Column - 1
}

// after returns the index after a server's value; false if it is not in braces.
func (f flowText) after(m *ast.MappingValueNode) (int, bool) {
	value, ok := m.Value.(*ast.MappingNode)
	if !ok || !value.IsFlowStyle || value.End == nil {
		return 0, false
	}
	return f.at(value.End) + 1, true
}

// lineOf returns the start and the end of the line of an index, which includes its line end.
func (f flowText) lineOf(i int) (start, end int) {
	for _, s := range f.starts {
		if s > i {
			return start, s
		}
		start = s
	}
	return start, len(f.text)
}

// comma returns the index after the comma that follows an index; false if none does on the line.
func (f flowText) comma(i int) (int, bool) {
	_, end := f.lineOf(i)
	for ; i < end; i++ {
		switch f.text[i] {
		case ' ', '\t':
		case ',':
			return i + 1, true
		default:
			return i, false
		}
	}
	return i, false
}

func blank(text []rune) bool {
	s := strings.TrimSpace(string(text))
	return s == "" || strings.HasPrefix(s, "#")
}

// add returns the text with more entries at the end of the mapping.
func (f flowText) add(entries []string) (string, bool) {
	if len(f.node.Values) == 0 {
		at := f.at(f.node.Start) + 1
		return string(f.text[:at]) + strings.Join(entries, ", ") + string(f.text[f.at(f.node.End):]), true
	}
	last := f.node.Values[len(f.node.Values)-1]
	value, ok := f.after(last)
	if !ok { // another setting than a server
		value = f.at(f.node.End)
		for value > 0 && strings.ContainsRune(" \t\r\n", f.text[value-1]) {
			value--
		}
	}
	after, has := f.comma(value)
	if !has {
		after = value
	}
	key := f.at(last.Key.GetToken())
	line, _ := f.lineOf(key)
	_, next := f.lineOf(value)
	between, rest := ", ", after
	ending := ""
	if blank(f.text[line:key]) && blank(f.text[after:next]) && next < len(f.text) { // each on lines of its own
		indent := string(f.text[line:key])
		between, rest = ","+f.end+indent, next
		entries[0], ending = indent+entries[0], f.end
		if has { // a comma at the end, as before
			ending = "," + f.end
		}
	} else if has {
		between = " "
		entries[0] = " " + entries[0]
	} else {
		entries[0] = " " + entries[0]
	}
	return string(f.text[:value]) + "," + string(f.text[after:rest]) + strings.Join(entries, between) + ending + string(f.text[rest:]), true
}

// find returns the index of an entry; -1 if there is none.
func (f flowText) find(name string) int {
	return slices.IndexFunc(f.node.Values, func(m *ast.MappingValueNode) bool { return m.Key.GetToken().Value == name })
}

// remove returns the text without an entry, and without its lines if nothing else is on them.
func (f flowText) remove(i int) (string, bool) {
	m := f.node.Values[i]
	key := f.at(m.Key.GetToken())
	value, ok := f.after(m)
	if !ok {
		return "", false
	}
	after, has := f.comma(value)
	line, _ := f.lineOf(key)
	_, next := f.lineOf(value)
	head, tail := f.text[:key], f.text[value:]
	switch own := blank(f.text[line:key]) && blank(f.text[after:next]) && next < len(f.text); {
	case own:
		head, tail = f.text[:line], f.text[next:]
	case i+1 < len(f.node.Values):
		tail = f.text[f.at(f.node.Values[i+1].Key.GetToken()):]
	}
	if i > 0 && i+1 == len(f.node.Values) && !has { // the comma before it
		before, ok := f.after(f.node.Values[i-1])
		if !ok {
			return "", false
		}
		if end, there := f.comma(before); there {
			if end > len(head) {
				return "", false
			}
			return string(f.text[:before]) + strings.TrimRight(string(head[end:]), " ") + string(tail), true
		}
	}
	return string(head) + string(tail), true
}

// plainName matches what YAML reads as a string without quotes, also in a list.
var plainName = regexp.MustCompile(`^[A-Za-z][A-Za-z0-9._-]*$`)

// reservedWords are texts that YAML does not read as texts, in some version.
var reservedWords = []string{"y", "n", "yes", "no", "on", "off", "true", "false", "null"}

// flowValue returns a value in braces: in JSON, or as a person writes it in YAML.
func flowValue(v any, quoted bool) string {
	var parts []string
	switch v := v.(type) {
	case yaml.MapSlice:
		for _, item := range v {
			parts = append(parts, flowValue(item.Key, quoted)+": "+flowValue(item.Value, quoted))
		}
		return "{" + strings.Join(parts, ", ") + "}"
	case map[string]string:
		keys := make([]string, 0, len(v))
		for key := range v {
			keys = append(keys, key)
		}
		slices.Sort(keys)
		for _, key := range keys {
			parts = append(parts, flowValue(key, quoted)+": "+flowValue(v[key], quoted))
		}
		return "{" + strings.Join(parts, ", ") + "}"
	case []string:
		for _, one := range v {
			parts = append(parts, flowValue(one, quoted))
		}
		return "[" + strings.Join(parts, ", ") + "]"
	case string:
		if !quoted && plainName.MatchString(v) && !slices.Contains(reservedWords, strings.ToLower(v)) {
			return v
		}
		var b strings.Builder
		enc := json.NewEncoder(&b)
		enc.SetEscapeHTML(false)
		if err := enc.Encode(v); err != nil {
			panic(err) // not reached: it is a string
		}
		return strings.TrimSuffix(b.String(), "\n")
	}
	return fmt.Sprint(v)
}
