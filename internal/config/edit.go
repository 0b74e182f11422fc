package config

import (
	"bytes"
	"path/filepath"
	"slices"
	"strings"

	"github.com/goccy/go-yaml/ast"

	"github.com/sandpiper-mcp/sandpiper/internal/config/section"
	"github.com/sandpiper-mcp/sandpiper/internal/fault"
)

// File returns the path of the user's own configuration file, which may not exist: that of
// Sources.File or SANDPIPER_CONFIG, or else sandpiper.yaml in the user's configuration directory.
func File(src Sources) (string, error) {
	l := &loader{src: src, env: environment(src.Environ)}
	if path, _ := l.named(); path != "" {
		return path, nil
	}
	dir := directories(l.env).config
	if dir == "" {
		return "", fault.New(fault.Invalid, "there is no configuration directory").WithHint("set HOME, or name a file with --config")
	}
	return filepath.Join(dir, "sandpiper.yaml"), nil
}

// Entry is the entry of a server in a configuration file.
type Entry struct {
	Server
	Disabled bool
}

// RemoveServer removes the entry of a server from the text of a configuration file at path. All
// other bytes, and comments above the entry, are kept.
func RemoveServer(path string, text []byte, name string, features ...Section) ([]byte, error) {
	return edit(path, text, name, features, func(all []Entry) []Entry {
		return slices.DeleteFunc(all, func(e Entry) bool { return e.Name == name })
	}, func(lines []string, at entryPlace) []string {
		if f, _, ok := flowSection(text, "servers"); ok {
			out, _ := f.remove(f.find(name))
			return []string{out}
		}
		return slices.Delete(lines, at.first, at.end)
	})
}

// ReplaceServer replaces the entry of a server in the text of a configuration file at path. All other
// bytes are kept, also comments above the entry and after an entry in braces.
func ReplaceServer(path string, text []byte, s Server, features ...Section) ([]byte, error) {
	dir := filepath.Dir(path)
	block, err := s.yaml(dir)
	if err != nil {
		return nil, err
	}
	return edit(path, text, s.Name, features, func(all []Entry) []Entry {
		for i := range all {
			if all[i].Name == s.Name {
				all[i] = Entry{Server: s}
			}
		}
		return all
	}, func(lines []string, at entryPlace) []string {
		if m, ok := at.value.(*ast.MappingNode); ok && m.IsFlowStyle && m.End != nil {
			f := newFlowText(text)
			_, entry, _ := strings.Cut(s.flow(dir, quotedKey(m)), ": ")
			return []string{string(f.text[:f.at(m.Start)]) + entry + string(f.text[f.at(m.End)+1:])}
		}
		indent := strings.Repeat(" ", at.column-1)
		var with []string
		for line := range strings.Lines(block) {
			with = append(with, indent+strings.TrimSuffix(line, "\n")+at.newline)
		}
		return slices.Replace(lines, at.first, at.end, with...)
	})
}

// SetDisabled disables or enables a server in the text of a configuration file at path, and
// keeps its entry and all other bytes.
func SetDisabled(path string, text []byte, name string, off bool, features ...Section) ([]byte, error) {
	return edit(path, text, name, features, func(all []Entry) []Entry {
		for i := range all {
			if all[i].Name == name {
				all[i].Disabled = off
			}
		}
		return all
	}, func(lines []string, at entryPlace) []string { return at.setDisabled(lines, off) })
}

// edit changes one entry of a file. It parses the result, which must differ as want changes the
// entries, and in nothing else.
func edit(path string, text []byte, name string, features []Section, want func([]Entry) []Entry,
	change func([]string, entryPlace) []string) ([]byte, error) {
	before, err := core.settingsIn(path, text)
	if err != nil {
		return nil, err
	}
	entries, err := EntriesIn(path, text, features...)
	if err != nil {
		return nil, err
	}
	if !slices.ContainsFunc(entries, func(e Entry) bool { return e.Name == name }) {
		return nil, noServer(path, name, entries)
	}
	at, ok := find(text, name)
	if !ok {
		return nil, uneditable(path, name)
	}
	out := []byte(strings.Join(change(strings.SplitAfter(string(text), "\n"), at), ""))
	wanted := want(slices.Clone(entries))
	got, err := EntriesIn(path, out, features...)
	if err != nil || !slices.EqualFunc(wanted, got, func(a, b Entry) bool { return a.Equal(b.Server) && a.Disabled == b.Disabled }) {
		return nil, uneditable(path, name)
	}
	after, err := core.settingsIn(path, out)
	if err != nil || !slices.Equal(others(before, "servers"), others(after, "servers")) {
		return nil, uneditable(path, name)
	}
	return out, nil
}

// noServer reports a missing entry, with the names of others.
func noServer(path, name string, entries []Entry) error {
	e := fault.New(fault.NotFound, "there is no server %q in %s", name, path)
	var names []string
	for _, one := range entries {
		names = append(names, one.Name)
	}
	if near := fault.Nearest(name, names, 1); near != nil {
		return e.WithHint("did you mean %s?", near[0])
	}
	if len(names) == 0 {
		return e.WithHint("it has no servers; `sandpiper servers add` adds one")
	}
	return e.WithHint("its servers are %s", strings.Join(names, ", "))
}

func uneditable(path, name string) error {
	return fault.New(fault.Unavailable, "the entry of server %q in %s cannot be edited safely", name, path).
		WithHint("edit the file by hand, or write servers: as a block, each server on lines of its own")
}

// entryPlace is where an entry is in a text.
type entryPlace struct {
	first, end int // its lines; end is the line after the last one
	column     int // of its key, from 1
	value      ast.Node
	newline    string
}

// find finds the entry of a server in servers: written as a block or in braces.
func find(text []byte, name string) (p entryPlace, ok bool) {
	file, err := parseText(text)
	if err != nil || len(file.Docs) == 0 {
		return p, false
	}
	p.newline = "\n"
	if bytes.Contains(text, []byte("\r\n")) {
		p.newline = "\r\n"
	}
	lines := strings.SplitAfter(string(text), "\n")
	for _, top := range section.Members(file.Docs[0].Body) {
		if top.Key.GetToken().Value != "servers" {
			continue
		}
		for _, m := range section.Members(top.Value) {
			key := m.Key.GetToken()
			if key.Value != name {
				continue
			}
			p.first, p.value, p.column = key.Position.Line-1, m.Value, key.Position.Column
			p.end = p.first + 1
			for i := p.end; i < len(lines); i++ {
				if blank := strings.TrimSpace(lines[i]) == ""; !blank && !indentedBy(lines[i], key.Position.Column) {
					break
				} else if !blank {
					p.end = i + 1
				}
			}
			return p, true
		}
	}
	return p, false
}

// setDisabled changes, adds or removes the key disabled.
func (p entryPlace) setDisabled(lines []string, off bool) []string {
	all := section.Members(p.value)
	if len(all) == 0 {
		return lines
	}
	flow := false
	if m, ok := p.value.(*ast.MappingNode); ok {
		flow = m.IsFlowStyle
		if end := m.End; flow && off && end != nil && !slices.ContainsFunc(all, isDisabled) {
			return insertAt(lines, end.Position.Line-1, end.Position.Column-1, ", "+flowValue("disabled", quotedKey(m))+": true")
		}
	}
	if i := slices.IndexFunc(all, isDisabled); i >= 0 {
		if at := all[i].Value.GetToken().Position; flow || off {
			line := []rune(lines[at.Line-1])
			word := len([]rune(all[i].Value.GetToken().Value))
			lines[at.Line-1] = string(slices.Concat(line[:at.Column-1], []rune(map[bool]string{true: "true", false: "false"}[off]),
				line[at.Column-1+word:]))
			return lines
		}
		at := all[i].Key.GetToken().Position.Line - 1
		return slices.Delete(lines, at, at+1)
	}
	if !off {
		return lines
	}
	indent := strings.Repeat(" ", all[0].Key.GetToken().Position.Column-1)
	return slices.Insert(lines, p.first+1, indent+"disabled: true"+p.newline)
}

func isDisabled(m *ast.MappingValueNode) bool { return m.Key.GetToken().Value == "disabled" }

func insertAt(lines []string, line, column int, text string) []string {
	if r := []rune(lines[line]); column <= len(r) {
		lines[line] = string(r[:column]) + text + string(r[column:])
	}
	return lines
}
