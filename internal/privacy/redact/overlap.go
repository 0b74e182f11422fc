package redact

import (
	"cmp"
	"slices"
)

// mergeOverlaps returns values with those that overlap merged into one, so that no part
// of either remains. Values that span several strings may overlap others.
func mergeOverlaps(values []found) []found {
	if inOrder(values) {
		return values
	}
	type place struct {
		part
		of int // index of the value
	}
	var all []place
	for i, f := range values {
		for _, at := range f.parts {
			all = append(all, place{at, i})
		}
	}
	slices.SortStableFunc(all, func(a, b place) int {
		return cmp.Or(cmp.Compare(a.view.number, b.view.number), cmp.Compare(a.start, b.start))
	})
	with := make([]int, len(values)) // parent of each value in the union-find forest
	for i := range with {
		with[i] = i
	}
	root := func(i int) int {
		for with[i] != i {
			with[i] = with[with[i]]
			i = with[i]
		}
		return i
	}
	joined, reach := false, 0 // reach: index of the part with the greatest end
	for i := 1; i < len(all); i++ {
		if last := all[reach]; last.view == all[i].view && all[i].start < last.end {
			a, b := root(last.of), root(all[i].of)
			with[max(a, b)] = min(a, b)
			joined = true
			if all[i].end <= last.end {
				continue
			}
		}
		reach = i
	}
	if !joined {
		return values
	}
	groups := make(map[int][]int)
	for i := range values {
		groups[root(i)] = append(groups[root(i)], i)
	}
	var merged []found
	for i := range values {
		if of := groups[i]; len(of) > 0 {
			merged = append(merged, merge(values, of))
		}
	}
	return merged
}

// inOrder reports whether values are in the order of their texts and do not overlap, as those of
// a text that is not JSON.
func inOrder(values []found) bool {
	var last part
	for _, f := range values {
		for _, at := range f.parts {
			if last.view != nil && (at.view.number < last.view.number || at.view == last.view && at.start < last.end) {
				return false
			}
			last = at
		}
	}
	return true
}

// merge returns one value for those at the given indices, with the type of the longest.
func merge(values []found, of []int) found {
	f := values[of[0]]
	if len(of) == 1 {
		return f
	}
	var parts []part
	for _, i := range of {
		if one := values[i]; one.size() > f.size() {
			f = one
		}
		parts = append(parts, values[i].parts...)
	}
	slices.SortStableFunc(parts, func(a, b part) int {
		return cmp.Or(cmp.Compare(a.view.number, b.view.number), cmp.Compare(a.start, b.start))
	})
	all := parts[:1]
	for _, at := range parts[1:] {
		if last := &all[len(all)-1]; last.view == at.view && at.start < last.end {
			last.end = max(last.end, at.end)
		} else {
			all = append(all, at)
		}
	}
	return found{f.typ, all}
}
