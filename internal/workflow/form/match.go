package form

import (
	"fmt"
	"slices"
	"strings"
)

// leaf is one value of the data.
type leaf struct {
	path   string // as code writes it: address.city, items[0].name
	keys   []string
	row    int // from 1, if it is in a list of objects
	group  []string
	column []string
	value  any
	used   bool
}

// Limits of the data.
const (
	maxLeaves = 20_000
	maxDepth  = 20
)

// flatten returns the values of data, in a stable order.
func flatten(data map[string]any) []*leaf {
	var all []*leaf
	var walk func(v any, at leaf, depth int)
	walk = func(v any, at leaf, depth int) {
		if len(all) >= maxLeaves || depth > maxDepth {
			return
		}
		switch v := v.(type) {
		case nil:
		case map[string]any:
			for _, key := range slices.Sorted(mapsKeys(v)) {
				next := at
				next.path = strings.TrimPrefix(at.path+"."+key, ".")
				next.keys = append(slices.Clone(at.keys), key)
				if at.row > 0 {
					next.column = append(slices.Clone(at.column), key)
				}
				walk(v[key], next, depth+1)
			}
		case []any:
			if !slices.ContainsFunc(v, func(x any) bool { _, ok := x.(map[string]any); return ok }) {
				at.value = v
				all = append(all, &at)
				return
			}
			for i, x := range v {
				next := at
				next.path = fmt.Sprintf("%s[%d]", at.path, i)
				if at.row == 0 {
					next.row, next.group, next.column = i+1, at.keys, nil
				}
				walk(x, next, depth+1)
			}
		default:
			if s, ok := v.(string); ok && strings.TrimSpace(s) == "" {
				return
			}
			at.value = v
			all = append(all, &at)
		}
	}
	walk(data, leaf{}, 0)
	return all
}

func (l *leaf) last() string { return l.keys[len(l.keys)-1] }

// whole returns the canonical name of the whole path.
func (l *leaf) whole() string { return canonical(words(strings.Join(l.keys, " "))) }

// short returns the canonical name of the last key.
func (l *leaf) short() string { return canonical(words(l.last())) }

// match assigns to each field that has no value yet the value of the data that has its name.
// More specific rules come first, and each value is used by the fields of the first rule that
// applies to it. A rule never guesses between two values.
func match(fields []*Field, all []*leaf, taken map[*Field]*leaf) {
	free := func(f *Field) bool { return taken[f] == nil && !f.Repeats }
	take := func(f *Field, l *leaf) { taken[f], l.used = l, true }
	byPath, byKey, byWhole, byShort := map[string][]*leaf{}, map[string][]*leaf{}, map[string][]*leaf{}, map[string][]*leaf{}
	for _, l := range all {
		byPath[l.path] = append(byPath[l.path], l)
		if l.row == 0 {
			byKey[l.last()] = append(byKey[l.last()], l)
			byWhole[l.whole()] = append(byWhole[l.whole()], l)
			byShort[l.short()] = append(byShort[l.short()], l)
		}
	}
	only := func(found []*leaf) *leaf {
		if len(found) == 1 {
			return found[0]
		}
		return nil
	}
	for _, by := range []map[string][]*leaf{byPath, byKey} { // the name as it is
		for _, f := range fields {
			if l := only(by[f.Name]); l != nil && free(f) {
				take(f, l)
			}
		}
	}
	matchRows(fields, all, free, take)
	for _, by := range []map[string][]*leaf{byWhole, byShort} {
		for _, f := range fields {
			for _, name := range namesOf(f) {
				if l := only(by[name]); name != "" && l != nil && free(f) {
					take(f, l)
				}
			}
		}
	}
	matchFullName(fields, byShort, free, take)
	matchTypes(fields, all, free, take)
}

// namesOf returns the canonical names of a field: of its label, its name, and others.
func namesOf(f *Field) []string {
	names := []string{canonical(words(f.Label)), canonical(words(ownName(f))), canonical(words(f.Name))}
	for _, a := range f.aliases {
		names = append(names, canonical(words(a)))
	}
	return names
}

// matchRows matches the fields of rows with the objects of a list, in their order.
func matchRows(fields []*Field, all []*leaf, free func(*Field) bool, take func(*Field, *leaf)) {
	groups := map[string]bool{}
	for _, l := range all {
		if l.row > 0 {
			groups[groupOf(l)] = true
		}
	}
	for _, f := range fields {
		if f.Row == 0 || !free(f) {
			continue
		}
		for _, l := range all {
			inGroup := groupOf(l) == f.Group || f.Group == "" && len(groups) == 1 || len(groups) == 1 && strings.HasSuffix(f.Group, "_"+groupOf(l)) || f.Group == "row" && len(groups) == 1
			if l.row == f.Row && inGroup && canonical(words(strings.Join(l.column, " "))) == f.Column {
				take(f, l)
				break
			}
		}
	}
}

func groupOf(l *leaf) string { return strings.Join(singular(words(strings.Join(l.group, " "))), "_") }

// matchFullName joins the names of a person for a field that wants both.
func matchFullName(fields []*Field, by map[string][]*leaf, free func(*Field) bool, take func(*Field, *leaf)) {
	first, last := by["first_name"], by["last_name"]
	if len(first) != 1 || len(last) != 1 {
		return
	}
	for _, f := range fields {
		if free(f) && f.Type == text && slices.Contains(namesOf(f), "full_name") {
			first[0].used, last[0].used = true, true
			take(f, &leaf{path: first[0].path + " + " + last[0].path, value: fmt.Sprint(first[0].value, " ", last[0].value)})
		}
	}
}

// matchTypes matches the only field of a type with the only value of that type.
func matchTypes(fields []*Field, all []*leaf, free func(*Field) bool, take func(*Field, *leaf)) {
	for _, kind := range []string{email, date} {
		var f *Field
		count := 0
		for _, x := range fields {
			if x.Type == kind && x.Row == 0 {
				f = x
				count++
			}
		}
		var found []*leaf
		for _, l := range all {
			s, ok := l.value.(string)
			if ok && !l.used && l.row == 0 && (kind == email && looksLikeEmail(s) || kind == date && isoDate(s)) {
				found = append(found, l)
			}
		}
		if count == 1 && len(found) == 1 && free(f) {
			take(f, found[0])
		}
	}
}

// rowsOf returns the number of rows that the data has for each group.
func rowsOf(all []*leaf) map[string]int {
	rows := map[string]int{}
	for _, l := range all {
		if l.row > 0 {
			rows[groupOf(l)] = max(rows[groupOf(l)], l.row)
		}
	}
	return rows
}

// rowProblems reports lists of the data that have more rows than the form.
func rowProblems(fields []*Field, all []*leaf, taken map[*Field]*leaf) (found []Problem) {
	have := map[string]int{}
	for _, f := range fields {
		if l := taken[f]; l != nil && f.Row > 0 && l.row > 0 {
			for _, other := range fields {
				if other.Row > 0 && other.Group == f.Group {
					have[groupOf(l)] = max(have[groupOf(l)], other.Row)
				}
			}
		}
	}
	for group, rows := range rowsOf(all) {
		if most := have[group]; most > 0 && rows > most {
			found = append(found, Problem{group, tooManyRows, fmt.Sprintf("%s: the data has %d rows and the form has %d", group, rows, most)})
		}
	}
	slices.SortFunc(found, func(a, b Problem) int { return strings.Compare(a.Field, b.Field) })
	return found
}
