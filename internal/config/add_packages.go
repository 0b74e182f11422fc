package config

import (
	"bytes"
	"slices"
	"strconv"
	"strings"

	"github.com/goccy/go-yaml/ast"

	"github.com/sandpiper-mcp/sandpiper/internal/config/section"
	"github.com/sandpiper-mcp/sandpiper/internal/fault"
)

// SetPackages replaces the lists sandbox.packages and sandbox.preload in the text of a configuration
// file at path, and keeps all other bytes. It parses the result to verify it. An empty list is left
// as it is.
func SetPackages(path string, text []byte, names, preload []string) ([]byte, error) {
	before, err := core.settingsIn(path, text)
	if err != nil {
		return nil, err
	}
	out := text
	want := map[string][]string{"packages": names, "preload": preload}
	for _, key := range []string{"preload", "packages"} { // the last one that is inserted comes first
		if list := want[key]; len(list) > 0 {
			if out = setList(out, key, list); out == nil {
				return nil, fixedPackages(path)
			}
		}
	}
	after, err := core.settingsIn(path, out)
	keys := []string{"sandbox.packages", "sandbox.preload"}
	if err != nil || !slices.Equal(others(before, keys...), others(after, keys...)) {
		return nil, fixedPackages(path)
	}
	for key, list := range want {
		if len(list) > 0 && !slices.Equal(listIn(after, "sandbox."+key), list) {
			return nil, fixedPackages(path)
		}
	}
	return out, nil
}

func fixedPackages(path string) error {
	return fault.New(fault.Unavailable, "packages cannot be added to %s: its format cannot be edited safely", path).
		WithHint("add them to sandbox.packages by hand, then run `sandpiper packages lock` and `sandpiper packages install`")
}

// listIn returns the list of a key.
func listIn(all []setting, key string) (list []string) {
	for _, s := range all {
		if seq, ok := s.node.(*ast.SequenceNode); ok && s.key == key {
			list = nil
			for _, v := range seq.Values {
				list = append(list, v.GetToken().Value)
			}
		}
	}
	return list
}

// setList sets a list of the block sandbox, and adds what is missing; nil if it cannot.
func setList(text []byte, key string, list []string) []byte {
	end := "\n"
	if bytes.Contains(text, []byte("\r\n")) {
		end = "\r\n"
	}
	quoted := make([]string, len(list))
	for i, name := range list {
		if quoted[i] = name; !plainName.MatchString(name) {
			quoted[i] = strconv.Quote(name)
		}
	}
	if f, root, ok := flowSection(text, "sandbox"); ok {
		return f.setList(key, list, root)
	}
	line := key + ": [" + strings.Join(quoted, ", ") + "]" + end
	file, err := parseText(text)
	if err != nil {
		return nil
	}
	lines := strings.SplitAfter(string(text), "\n")
	if n := len(lines); lines[n-1] != "" {
		lines[n-1] += end
	}
	var top []*ast.MappingValueNode
	if len(file.Docs) > 0 && file.Docs[0].Body != nil {
		top = section.Members(file.Docs[0].Body)
	}
	i := slices.IndexFunc(top, func(v *ast.MappingValueNode) bool { return v.Key.GetToken().Value == "sandbox" })
	if i < 0 {
		return []byte(strings.Join(lines, "") + "sandbox:" + end + "  " + line)
	}
	at := top[i].Key.GetToken().Position.Line // the line after it
	inner := section.Members(top[i].Value)
	if len(inner) == 0 || inner[0].Key.GetToken().Position.Line == at {
		return nil // empty, or in braces
	}
	column := inner[0].Key.GetToken().Position.Column
	stop := at
	for _, m := range inner {
		if m.Key.GetToken().Value == key {
			at = m.Key.GetToken().Position.Line - 1
			stop = at + 1
			for stop < len(lines) && strings.TrimSpace(lines[stop]) != "" && (indentedBy(lines[stop], column) || isItem(lines[stop],
				column-1)) {
				stop++
			}
		}
	}
	return []byte(strings.Join(slices.Replace(lines, at, stop, strings.Repeat(" ", column-1)+line), ""))
}

// setList sets a list of a section in braces; nil if it cannot.
func (f flowText) setList(key string, list []string, root bool) []byte {
	value := flowValue(list, f.quoted)
	entry := flowValue(key, f.quoted) + ": " + value
	if root {
		entry = flowValue("sandbox", f.quoted) + ": {" + entry + "}"
	} else if i := f.find(key); i >= 0 {
		seq, ok := f.node.Values[i].Value.(*ast.SequenceNode)
		if !ok || !seq.IsFlowStyle || seq.Start == nil || seq.End == nil {
			return nil
		}
		return []byte(string(f.text[:f.at(seq.Start)]) + value + string(f.text[f.at(seq.End)+1:]))
	}
	out, ok := f.add([]string{entry})
	if !ok {
		return nil
	}
	return []byte(out)
}

// isItem reports whether a line is an item of a list, or the end of one, at an indentation.
func isItem(line string, indent int) bool {
	rest := strings.TrimLeft(line, " ")
	return len(line)-len(rest) == indent && (strings.HasPrefix(rest, "- ") || strings.HasPrefix(rest, "]"))
}
