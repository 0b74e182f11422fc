package config

import (
	"bytes"
	"fmt"
	"path/filepath"
	"reflect"
	"slices"
	"strings"

	"github.com/goccy/go-yaml"
	"github.com/goccy/go-yaml/ast"

	"github.com/sandpiper-mcp/sandpiper/internal/config/section"
	"github.com/sandpiper-mcp/sandpiper/internal/fault"
)

// ServersIn returns the servers in the text of a configuration file at path, including
// disabled ones.
func ServersIn(path string, text []byte, features ...Section) ([]Server, error) {
	entries, err := EntriesIn(path, text, features...)
	var all []Server
	for _, e := range entries {
		all = append(all, e.Server)
	}
	return all, err
}

// EntriesIn returns the entries of servers in the text of a configuration file at path.
func EntriesIn(path string, text []byte, features ...Section) ([]Entry, error) {
	settings, err := core.settingsIn(path, text)
	if err != nil {
		return nil, err
	}
	t := newTable(features)
	var all []Entry
	for _, s := range settings {
		if s.key != "servers" || s.node == nil {
			continue
		}
		entries, err := named(s)
		if err != nil {
			return nil, err
		}
		for _, e := range entries {
			one := Entry{Server: Server{Name: e.name, Dir: s.dir}}
			if one.Disabled, err = one.fill(e.node, fmt.Sprintf("%s line %d", filepath.Base(path), e.line), s.dir, t); err != nil {
				return nil, err
			}
			if !strings.HasPrefix(one.Dir, "~") {
				one.Dir = absolute(one.Dir, s.dir, nil)
			}
			all = append(all, one)
		}
	}
	return all, nil
}

// AddServers adds servers to the text of a configuration file at path and keeps all
// other bytes. It parses the result to verify it, and returns an error if the text
// cannot be edited this way.
func AddServers(path string, text []byte, more []Server, features ...Section) ([]byte, error) {
	had, err := ServersIn(path, text, features...)
	if err != nil {
		return nil, err
	}
	before, err := core.settingsIn(path, text)
	if err != nil {
		return nil, err
	}
	if alone, err := insert(nil, more, filepath.Dir(path)); err != nil {
		return nil, err
	} else if _, err := ServersIn(path, alone, features...); err != nil { // the servers are invalid, not the file
		return nil, err
	}
	out, err := insert(text, more, filepath.Dir(path))
	if err != nil {
		return nil, err
	}
	has, err := ServersIn(path, out, features...)
	if err == nil && sameServers(append(had, more...), has) {
		after, err := core.settingsIn(path, out)
		if err == nil && slices.Equal(others(before, "servers"), others(after, "servers")) {
			return out, nil
		}
	}
	return nil, unaddable(path)
}

func unaddable(path string) error {
	return fault.New(fault.Unavailable, "servers cannot be added to %s: its format cannot be edited safely", path).
		WithHint("write servers: as a block, each server on lines of its own")
}

func sameServers(want, got []Server) bool {
	return slices.EqualFunc(want, got, func(a, b Server) bool { return a.Equal(b) })
}

// Equal reports whether two servers have equal settings. Empty and nil lists are equal.
func (s Server) Equal(o Server) bool {
	for _, one := range []*Server{&s, &o} {
		if len(one.Args) == 0 {
			one.Args = nil
		}
		if len(one.Env) == 0 {
			one.Env = nil
		}
		if len(one.Headers) == 0 {
			one.Headers = nil
		}
	}
	return reflect.DeepEqual(s, o)
}

// others returns the settings except those of some keys, without positions.
func others(all []setting, except ...string) (list []string) {
	for _, s := range all {
		switch {
		case slices.Contains(except, s.key):
		case s.node != nil:
			list = append(list, s.key+"="+s.node.String())
		default:
			list = append(list, s.key+"="+s.text)
		}
	}
	return list
}

// insert adds the lines of servers after the last one in text, or their entries to those in braces.
func insert(text []byte, more []Server, dir string) ([]byte, error) {
	if f, root, ok := flowSection(text, "servers"); ok && len(more) > 0 {
		var entries []string
		for _, s := range more {
			entries = append(entries, s.flow(dir, f.quoted))
		}
		if root {
			entries = []string{flowValue("servers", f.quoted) + ": {" + strings.Join(entries, ", ") + "}"}
		}
		if out, ok := f.add(entries); ok {
			return []byte(out), nil
		}
	}
	end := "\n"
	if bytes.Contains(text, []byte("\r\n")) {
		end = "\r\n"
	}
	lines := strings.SplitAfter(string(text), "\n")
	if last := len(lines) - 1; lines[last] == "" {
		lines = lines[:last]
	} else {
		lines[last] += end
	}
	at, by, there, err := gap(text, lines)
	if err != nil {
		return nil, err
	}
	var added strings.Builder
	if !there {
		if at > 0 && strings.TrimSpace(lines[at-1]) != "" {
			added.WriteString(end)
		}
		added.WriteString("servers:" + end)
	}
	for _, s := range more {
		block, err := s.yaml(dir)
		if err != nil {
			return nil, err
		}
		for line := range strings.Lines(block) {
			added.WriteString(strings.Repeat(" ", by) + strings.TrimSuffix(line, "\n") + end)
		}
	}
	return []byte(strings.Join(slices.Insert(lines, at, added.String()), "")), nil
}

// gap returns the line to insert servers before, their indentation, and whether the key
// servers exists.
func gap(text []byte, lines []string) (at, by int, there bool, err error) {
	file, err := parseText(text)
	if err != nil {
		return 0, 0, false, err
	}
	var top []*ast.MappingValueNode
	if len(file.Docs) > 0 && file.Docs[0].Body != nil {
		top = section.Members(file.Docs[0].Body)
	}
	i := slices.IndexFunc(top, func(v *ast.MappingValueNode) bool { return v.Key.GetToken().Value == "servers" })
	if i < 0 {
		return len(lines), 2, false, nil
	}
	at, by = len(lines), 2
	if i+1 < len(top) {
		at = top[i+1].Key.GetToken().Position.Line - 1
	}
	if all := section.Members(top[i].Value); len(all) > 0 {
		by = all[0].Key.GetToken().Position.Column - 1
	}
	for at > 0 && !indentedBy(lines[at-1], by) {
		at--
		if strings.HasPrefix(lines[at], "servers:") {
			return at + 1, by, true, nil
		}
	}
	return at, by, true, nil
}

// indentedBy reports whether a line belongs to an indented block.
func indentedBy(line string, by int) bool {
	text := strings.TrimLeft(line, " ")
	return strings.TrimSpace(text) != "" && len(line)-len(text) >= by
}

// entry returns the settings of a server, without keys that have zero values.
func (s Server) entry(dir string) (entry yaml.MapSlice) {
	say := func(key string, value any, there bool) {
		if there {
			entry = append(entry, yaml.MapItem{Key: key, Value: value})
		}
	}
	say("command", s.Command, s.Command != "")
	say("args", s.Args, len(s.Args) > 0)
	say("env", s.Env, len(s.Env) > 0)
	say("cwd", s.Dir, s.Dir != "" && s.Dir != dir)
	say("url", s.URL, s.URL != "")
	say("headers", s.Headers, len(s.Headers) > 0)
	say("type", s.Transport, s.Transport != "")
	say("category", s.Category, s.Category != "")
	say("trusted", true, s.Trusted)
	say("review", true, s.Review)
	say("timeout", s.Timeout.String(), s.Timeout > 0)
	return entry
}

// flow returns the entry of a server in braces.
func (s Server) flow(dir string, quoted bool) string {
	return flowValue(s.Name, quoted) + ": " + flowValue(s.entry(dir), quoted)
}

// yaml returns the entry of a server as a block.
func (s Server) yaml(dir string) (string, error) {
	text, err := yaml.MarshalWithOptions(yaml.MapSlice{{Key: s.Name, Value: s.entry(dir)}}, yaml.Indent(2), yaml.IndentSequence(true))
	if err != nil {
		return "", fmt.Errorf("write server %s: %w", s.Name, err)
	}
	return string(text), nil
}
