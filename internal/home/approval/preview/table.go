package preview

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"unicode/utf8"
)

// Limits of a table. What exceeds them is counted.
const (
	maxCell    = 30 // characters of a text in a cell
	maxColumns = 6
)

// columnsOf returns the keys of all elements of a list, those of its first element first; nil if one is no
// object. A key that only a later row has is among them: otherwise nothing would show that there is one.
func columnsOf(list []any) (columns []string) {
	seen := map[string]bool{}
	for _, v := range list {
		o, ok := v.(map[string]any)
		if !ok {
			return nil
		}
		for _, k := range slices.Sorted(maps.Keys(o)) {
			if !seen[k] {
				seen[k] = true
				columns = append(columns, k)
			}
		}
	}
	return columns
}

// table prints rows, which are objects, with as many of the columns as fit.
func (p *printer) table(rows []any, columns []string, indent string) {
	shown := columns[:min(len(columns), maxColumns)]
	cells := [][]string{make([]string, 0, len(shown))}
	for _, c := range shown {
		cells[0] = append(cells[0], p.quote(c, maxCell))
	}
	for _, row := range rows {
		var line []string
		for _, c := range shown {
			cell := "-" // no value of JSON
			if v, ok := row.(map[string]any)[c]; ok {
				cell = p.cell(v, maxCell)
			}
			line = append(line, cell)
		}
		cells = append(cells, line)
	}
	p.rows(cells, indent)
	if more := columns[len(shown):]; len(more) > 0 {
		names := make([]string, 0, maxColumns)
		for _, c := range more[:min(len(more), maxColumns)] {
			names = append(names, p.quote(c, maxCell))
		}
		if len(more) > maxColumns {
			names = append(names, "…")
		}
		fmt.Fprintf(&p.out, "%s… %s more columns: %s\n", indent, Number(len(more)), strings.Join(names, ", "))
	}
}

// rows prints lines of cells in columns that are as wide as their widest cell.
func (p *printer) rows(cells [][]string, indent string) {
	widths := make([]int, len(cells[0]))
	for _, line := range cells {
		for i, c := range line {
			widths[i] = max(widths[i], utf8.RuneCountInString(c))
		}
	}
	for _, line := range cells {
		var b strings.Builder
		b.WriteString(indent)
		for i, c := range line {
			b.WriteString(c + strings.Repeat(" ", widths[i]-utf8.RuneCountInString(c)+2))
		}
		p.out.WriteString(strings.TrimRight(b.String(), " ") + "\n")
	}
}

// cell describes a value on one line; of an object or a list its size.
func (p *printer) cell(v any, most int) string {
	switch v := v.(type) {
	case map[string]any:
		if len(v) == 0 {
			return "{}"
		}
		p.left = true
		return "{" + Number(len(v)) + " keys}"
	case []any:
		if len(v) == 0 {
			return "[]"
		}
		p.left = true
		return "[" + Number(len(v)) + " items]"
	case string:
		return p.quote(v, most)
	}
	return encode(v)
}
