package form

import (
	"slices"
	"strconv"
	"strings"
)

// findRows finds fields that repeat: those whose names differ only in a number, such as
// "child_1_name" and "child_2_name". Their rows are counted from 1 in the order of the numbers.
func findRows(fields []*Field) {
	type place struct {
		f             *Field
		group, column string
		number        int
	}
	var places []place
	numbers := map[string][]int{}           // by group
	repeats := map[[2]string]map[int]bool{} // by group and column
	for _, f := range fields {
		if f.Row > 0 || f.Repeats {
			continue
		}
		group, number, column, ok := splitRow(words(ownName(f)))
		if !ok {
			continue
		}
		places = append(places, place{f, group, column, number})
		numbers[group] = append(numbers[group], number)
		key := [2]string{group, column}
		if repeats[key] == nil {
			repeats[key] = map[int]bool{}
		}
		repeats[key][number] = true
	}
	for _, p := range places {
		if len(repeats[[2]string{p.group, p.column}]) < 2 {
			continue
		}
		all := slices.Compact(slices.Sorted(slices.Values(numbers[p.group])))
		p.f.Group, p.f.Column, p.f.Row = p.group, p.column, slices.Index(all, p.number)+1
	}
}

// splitRow splits the words of a name at its first number: "child 1 name" is in group "child". A
// name that ends with the number has no group.
func splitRow(parts []string) (group string, number int, column string, ok bool) {
	for i, w := range parts {
		n, err := strconv.Atoi(w)
		if err != nil || n > 10_000 {
			continue
		}
		before, after := singular(parts[:i]), parts[i+1:]
		if len(after) == 0 {
			return "", n, canonical(before), len(before) > 0
		}
		return strings.Join(before, "_"), n, canonical(after), true
	}
	return "", 0, "", false
}
