package clientconfig

import (
	"bytes"
	"maps"
	"slices"
	"strings"

	"github.com/pelletier/go-toml/v2/unstable"
)

// section is a part of a TOML text: the header of a table with the comments
// above it, up to the next section.
type section struct {
	table    []string
	from, to int
}

// sections splits a valid TOML text. The first section has no header.
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
		start := -1
		for key := e.Key(); key.Next(); {
			n := key.Node()
			if start < 0 {
				start = int(n.Raw.Offset)
			}
			s.table = append(s.table, string(n.Data))
		}
		s.from = commentsAbove(text, bytes.LastIndexByte(text[:max(start, 0)], '\n')+1)
		list[len(list)-1].to = s.from
		list = append(list, s)
	}
	list[len(list)-1].to = len(text)
	return list
}

// commentsAbove returns the offset of the comment lines directly above a line,
// or the line's offset if there are none.
func commentsAbove(text []byte, line int) int {
	for line > 0 {
		previous := bytes.LastIndexByte(text[:line-1], '\n') + 1
		if !bytes.HasPrefix(bytes.TrimLeft(text[previous:line], " \t"), []byte("#")) {
			return line
		}
		line = previous
	}
	return line
}

// within reports whether the section is in a table or in one of its subtables.
func (s section) within(table []string) bool {
	return len(s.table) >= len(table) && slices.Equal(s.table[:len(table)], table)
}

// editTOML removes and appends whole sections.
func editTOML(text []byte, table []string, e Edit) []byte {
	end := lineEnd(text)
	removed := append(slices.Collect(maps.Keys(e.Put)), e.Drop...)
	var out []byte
	for _, s := range sections(text) {
		if !slices.ContainsFunc(removed, func(name string) bool { return s.within(append(slices.Clone(table), name)) }) {
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
		out = append(out, tableTOML(append(slices.Clone(table), name), e.Put[name], end)...)
	}
	return out
}

// tableTOML returns an entry in the format of Codex.
func tableTOML(table []string, l Launch, end string) string {
	header := make([]string, len(table))
	for i, key := range table {
		header[i] = key
		if strings.Trim(key, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-") != "" || key == "" {
			header[i] = quoted(key)
		}
	}
	args := make([]string, len(l.Args))
	for i, arg := range l.Args {
		args[i] = quoted(arg)
	}
	text := "[" + strings.Join(header, ".") + "]" + end + "command = " + quoted(l.Command) + end +
		"args = [" + strings.Join(args, ", ") + "]" + end
	if l.Approved {
		text += Approval + " # codex exec refuses the tools otherwise" + end
	}
	return text
}

// Approval is the setting of an entry with which Codex calls all its tools without asking.
const Approval = `default_tools_approval_mode = "approve"`
