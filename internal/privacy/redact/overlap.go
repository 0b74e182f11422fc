package redact

import (
	"cmp"
	"slices"
)

// mergeOverlaps merges values that overlap into one, so that no part of either
// remains. Values that span several strings may overlap others.
func (p *pass) mergeOverlaps() {
	type place struct {
		part
		of int // index of the value
	}
	var all []place
	for i, f := range p.found {
		for _, at := range f.parts {
			all = append(all, place{at, i})
		}
	}
	number := make(map[*textView]int, len(p.views))
	for i, s := range p.views {
		number[s] = i
	}
	slices.SortStableFunc(all, func(a, b place) int {
		return cmp.Or(cmp.Compare(number[a.view], number[b.view]), cmp.Compare(a.start, b.start))
	})
	with := make([]int, len(p.found)) // parent of each value in the union-find forest
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
		return
	}
	groups := make(map[int][]int)
	for i := range p.found {
		groups[root(i)] = append(groups[root(i)], i)
	}
	var found []found
	for i := range p.found {
		if of := groups[i]; len(of) > 0 {
			found = append(found, p.merge(of, number))
		}
	}
	p.found = found
}

// merge returns one value for several, with the type of the longest.
func (p *pass) merge(of []int, number map[*textView]int) found {
	f := p.found[of[0]]
	if len(of) == 1 {
		return f
	}
	var parts []part
	for _, i := range of {
		if one := p.found[i]; one.size() > f.size() {
			f = one
		}
		parts = append(parts, p.found[i].parts...)
	}
	slices.SortStableFunc(parts, func(a, b part) int {
		return cmp.Or(cmp.Compare(number[a.view], number[b.view]), cmp.Compare(a.start, b.start))
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

func (f found) size() (n int) {
	for _, at := range f.parts {
		n += at.end - at.start
	}
	return n
}

// uncovered returns the parts of a value that are not covered yet, without separators
// at their ends.
func (f found) uncovered() (rest []found) {
	for _, at := range f.parts {
		src := at.view.doc.src
		for i := at.start; i < at.end; i++ {
			start := i
			for i < at.end && (at.view.covered == nil || !at.view.covered[i]) {
				i++
			}
			for start < i && !hasWord(src[start:start+1]) && src[start] < 0x80 {
				start++
			}
			end := i
			for start < end && !hasWord(src[end-1:end]) && src[end-1] < 0x80 {
				end--
			}
			if start < end {
				rest = append(rest, found{f.typ, []part{{at.view, span{start, end}}}})
			}
		}
	}
	return rest
}
