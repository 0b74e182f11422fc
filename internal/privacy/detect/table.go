package detect

import (
	"slices"
	"strings"
	"unicode/utf8"
)

// columns returns the candidates in columns of tables whose names are keys: rows separated
// by commas, semicolons, tabs or bars, as in files, and right-aligned columns, as data
// frames are printed.
func columns(keys *keyTable, text string) (found []Finding) {
	for start := 0; start < len(text); {
		end := lineEnd(text, start)
		if t, ok := parseHeader(keys, text, start, end); ok {
			found, start = t.rows(found, keys, text, end+1)
			continue
		}
		if start < end && text[start] == '|' {
			found = addLabelled(found, keys, text, start, end)
		}
		start = end + 1
	}
	return found
}

// addLabelled adds the findings in cells of a line after a cell that is a key with a colon, as in
// "| Surname: | Lovelace |". A remark in parentheses after the key is ignored.
func addLabelled(found []Finding, keys *keyTable, text string, start, end int) []Finding {
	label, labels := "", false
	cells(text[start:end], '|', func(from, to int) {
		if labels {
			have := len(found)
			found = keys.addHinted(found, text, label, start+from, start+to)
			if have < len(found) && found[have].Type == nameInObject {
				found[have].Type = nameInLine
			}
		}
		label, labels = strings.CutSuffix(text[start+from:start+to], ":")
		if i := strings.Index(label, " ("); i > 0 {
			label = label[:i]
		}
	})
	return found
}

// table is a parsed header line.
type table struct {
	sep   byte     // between cells; 0 if they are right-aligned with the names
	names []string // of columns, "" for those that are not keys
	ends  []int    // of columns, in runes; only if sep is 0
}

const maxHeader = 4 << 10 // bytes

// parseHeader parses a line as a header, if one of its names is a key.
func parseHeader(keys *keyTable, text string, start, end int) (table, bool) {
	line := strings.TrimSuffix(text[start:end], "\r")
	if len(line) > maxHeader || end >= len(text)-1 || !mayHaveKey(keys, line) {
		return table{}, false
	}
	for _, sep := range []byte(",;\t|") {
		if strings.IndexByte(line, sep) < 0 {
			continue
		}
		t := table{sep: sep}
		cells(line, sep, func(from, to int) { t.names = append(t.names, line[from:to]) })
		if hasKeyColumn(keys, t.names) {
			return t, true
		}
	}
	t := table{}
	for i := 0; i < len(line); {
		if line[i] == ' ' {
			i++
			continue
		}
		to := len(line)
		if n := strings.IndexByte(line[i:], ' '); n >= 0 {
			to = i + n
		}
		t.names, t.ends = append(t.names, line[i:to]), append(t.ends, utf8.RuneCountInString(line[:to]))
		i = to
	}
	return t, hasKeyColumn(keys, t.names)
}

// mayHaveKey reports whether one of the words of a line is a key. It quickly rejects
// most lines.
func mayHaveKey(keys *keyTable, line string) bool {
	from := 0
	for i := 0; i <= len(line); i++ {
		if i < len(line) && strings.IndexByte(" ,;\t|\"", line[i]) < 0 {
			continue
		}
		if _, ok := keys.find(line[from:i]); ok {
			return true
		}
		from = i + 1
	}
	return false
}

// hasKeyColumn reports whether names is a header with a key. It requires two non-empty
// names, since a word before a comma is not a header. It clears the names that are not keys.
func hasKeyColumn(keys *keyTable, names []string) bool {
	cells, found := 0, false
	for i, n := range names {
		if n != "" {
			cells++
		}
		if len(n) > maxKey || strings.ContainsAny(n, "@:{}[]<>=()") {
			return false
		}
		if _, ok := keys.find(n); ok {
			found = true
		} else {
			names[i] = ""
		}
	}
	return found && cells > 1
}

// rows adds the findings in the lines from start that are rows of the table, and
// returns the end of the last.
func (t table) rows(found []Finding, keys *keyTable, text string, start int) ([]Finding, int) {
	persons := slices.ContainsFunc(t.names, func(n string) bool { h, _ := keys.find(n); return h.evidence == personKey })
	for start < len(text) {
		end := lineEnd(text, start)
		line := strings.TrimSuffix(text[start:end], "\r")
		if t.isRule(line) {
			start = end + 1
			continue
		}
		all, ok := t.row(line)
		if !ok {
			break
		}
		for i, c := range all {
			if t.names[i] != "" {
				have := len(found)
				found = keys.addHinted(found, text, t.names[i], start+c[0], start+c[1])
				if have < len(found) && found[have].Type == nameInObject {
					if found[have].Type = nameInRow; persons {
						found[have].Type = Name
					}
				}
			}
		}
		start = end + 1
	}
	return found, start
}

// isRule reports whether a line only separates rows, as in "+---+".
func (t table) isRule(line string) bool {
	return t.sep == '|' && strings.HasPrefix(line, "+") && strings.Trim(line, "+-=") == ""
}

// row returns the ranges of a line's cells, if their number is that of the columns.
func (t table) row(line string) (all [][2]int, ok bool) {
	if t.sep != 0 {
		cells(line, t.sep, func(from, to int) { all = append(all, [2]int{from, to}) })
		return all, len(all) == len(t.names)
	}
	from, runes, column := 0, 0, 0
	for at := 0; at <= len(line); runes++ {
		if column < len(t.ends) && runes == t.ends[column] {
			cell := strings.TrimRight(line[from:at], " ")
			begin := from + strings.LastIndex(cell, "  ") + 2 // after the row number
			if begin < from+2 {
				begin = from
			}
			all, from, column = append(all, [2]int{begin, at}), at, column+1
		}
		if at == len(line) {
			break
		}
		_, size := utf8.DecodeRuneInString(line[at:])
		at += size
	}
	return all, column == len(t.ends) && runes == t.ends[column-1]
}

// cells calls f with the range of each cell of a line, without spaces and quotes
// around it.
func cells(line string, sep byte, f func(from, to int)) {
	from, quoted := 0, false
	for i := 0; i <= len(line); i++ {
		switch {
		case i < len(line) && line[i] == '"':
			quoted = !quoted
		case i == len(line) || line[i] == sep && !quoted:
			a, b := from, i
			for a < b && (line[a] == ' ' || line[a] == '"') {
				a++
			}
			for b > a && (line[b-1] == ' ' || line[b-1] == '"') {
				b--
			}
			f(a, b)
			from = i + 1
		}
	}
}

func lineEnd(text string, start int) int {
	if i := strings.IndexByte(text[start:], '\n'); i >= 0 {
		return start + i
	}
	return len(text)
}
