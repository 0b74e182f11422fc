package clientconfig

import (
	"bytes"
	"maps"
	"slices"
	"strings"

	"github.com/pelletier/go-toml/v2/unstable"
)

// section is a part of a TOML text that begins with the header of a table, or
// the comments above it, and ends where the next begins.
type section struct {
	table    []string
	from, to int
}

// sections parts a text that is valid. The part before the first header has
// none.
func sections(text []byte) []section {
	list := []section{{}}
	var p unstable.Parser
	p.Reset(text)
	for p.NextExpression() {
		e := p.Expression()
		if e.Kind != unstable.Table && e.Kind != unstable.ArrayTable {
			continue
		}
		var s section
		at := -1
		for key := e.Key(); key.Next(); {
			n := key.Node()
			if at < 0 {
				at = int(n.Raw.Offset)
			}
			s.table = append(s.table, string(n.Data))
		}
		s.from = above(text, bytes.LastIndexByte(text[:max(at, 0)], '\n')+1)
		list[len(list)-1].to = s.from
		list = append(list, s)
	}
	list[len(list)-1].to = len(text)
	return list
}

// above is where the comments directly above a line begin.
func above(text []byte, line int) int {
	for line > 0 {
		before := bytes.LastIndexByte(text[:line-1], '\n') + 1
		if !bytes.HasPrefix(bytes.TrimLeft(text[before:line], " \t"), []byte("#")) {
			return line
		}
		line = before
	}
	return line
}

func (s section) within(table []string) bool {
	return len(s.table) >= len(table) && slices.Equal(s.table[:len(table)], table)
}

// rawTOML returns the sections of a table and of those in it.
func rawTOML(text []byte, table []string) ([]byte, bool) {
	var raw []byte
	for _, s := range sections(bytes.TrimPrefix(text, bom)) {
		if s.within(table) {
			raw = append(raw, text[s.from:s.to]...)
		}
	}
	return raw, raw != nil
}

// editTOML takes whole sections out and puts whole sections in, so that nothing
// else of the text is touched.
func editTOML(text []byte, table []string, e Edit) ([]byte, error) {
	end := lineEnd(text)
	var out []byte
	for _, s := range sections(text) {
		gone := slices.ContainsFunc(append(slices.Collect(maps.Keys(e.Put)), e.Drop...), func(name string) bool {
			return s.within(append(slices.Clone(table), name))
		})
		if !gone {
			out = append(out, text[s.from:s.to]...)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(e.Put)) {
		if len(out) > 0 && out[len(out)-1] != '\n' {
			out = append(out, end...)
		}
		if len(bytes.TrimSpace(out)) > 0 && !bytes.HasSuffix(out, []byte(end+end)) {
			out = append(out, end...)
		}
		out = append(out, bytes.ReplaceAll(bytes.ReplaceAll(e.Put[name], []byte("\r\n"), []byte("\n")), []byte("\n"), []byte(end))...)
	}
	return out, nil
}

// launchTOML writes a table in the manner of Codex.
func launchTOML(table []string, l Launch) []byte {
	header := make([]string, len(table))
	for i, key := range table {
		header[i] = key
		if strings.Trim(key, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-") != "" || key == "" {
			header[i] = quoted(key) // a basic string is what JSON has
		}
	}
	args := make([]string, len(l.Args))
	for i, arg := range l.Args {
		args[i] = quoted(arg)
	}
	return []byte("[" + strings.Join(header, ".") + "]\ncommand = " + quoted(l.Command) + "\nargs = [" + strings.Join(args, ", ") + "]\n")
}
