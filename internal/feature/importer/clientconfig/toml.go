package clientconfig

import (
	"bytes"
	"errors"
	"maps"
	"slices"

	"github.com/pelletier/go-toml/v2"
	"github.com/pelletier/go-toml/v2/unstable"

	"github.com/sandpiper-mcp/sandpiper/internal/lazyregexp"
)

func parseTOML(text []byte) (document, error) {
	var d document
	if err := toml.Unmarshal(text, &d.root); err != nil {
		invalid := &syntaxError{message: "is not TOML"}
		if e, ok := errors.AsType[*toml.DecodeError](err); ok {
			invalid.line, _ = e.Position()
		}
		return document{}, invalid
	}
	d.names = func(table []string) []string {
		first := map[string]int{}
		for i, s := range slices.Backward(sections(text)) {
			if s.within(table) && len(s.table) > len(table) {
				first[s.table[len(table)]] = i
			}
		}
		names := slices.Sorted(maps.Keys(tableAt(d.root, table)))
		slices.SortStableFunc(names, func(a, b string) int { return first[a] - first[b] })
		return names
	}
	return d, nil
}

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
func editTOML(text []byte, table []string, e Edit, entry string) []byte {
	removed, end := append(slices.Clone(e.Drop), e.Back...), lineEnd(text)
	added := string(sectionsOf(bytes.TrimPrefix(e.Original, bom), table, e.Back, true))
	if e.Put != nil {
		removed = append(removed, EntryName)
		added += entry
	}
	out := sectionsOf(text, table, removed, false)
	if added == "" || len(bytes.TrimSpace(out)) == 0 {
		return append(out, added...)
	}
	for !bytes.HasSuffix(out, []byte(end+end)) {
		out = append(out, end...)
	}
	return append(out, added...)
}

// sectionsOf returns the sections of a text that are within the named tables of a table, or the others.
// Comments at the end of a section belong to the others.
func sectionsOf(text []byte, table, names []string, within bool) (out []byte) {
	for _, s := range sections(text) {
		part := text[s.from:s.to]
		settings := len(part)
		if end := trailing().FindIndex(part); end != nil && bytes.ContainsRune(part[end[0]:], '#') {
			settings = end[0]
		}
		switch named := slices.ContainsFunc(names, func(name string) bool { return s.within(append(slices.Clone(table), name)) }); {
		case within && named:
			out = append(out, part[:settings]...)
		case !within && !named:
			out = append(out, part...)
		case !within:
			out = append(out, part[settings:]...)
		}
	}
	return out
}

// trailing matches the lines without settings at the end of a section.
var trailing = lazyregexp.New(`(?:(?m:^)[ \t]*(?:#[^\n]*)?(?:\n|\r\n|$))+$`)
