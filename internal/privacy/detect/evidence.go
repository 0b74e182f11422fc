package detect

import (
	"slices"
	"strings"
)

// evidenceRange is the maximum distance in bytes between a name and its evidence.
const evidenceRange = 1000

// resolveNames resolves the pending names that begin before final: they become
// findings or are removed. Other candidates stay, in order.
func resolveNames(found []Finding, text string, base, final int) []Finding {
	if !slices.ContainsFunc(found, func(f Finding) bool { return isPending(f.Type) }) {
		return found
	}
	slices.SortStableFunc(found, byStart)
	w := evidenceSearch{
		text:       text,
		base:       base,
		found:      found,
		noneAfter:  make([]bool, len(found)),
		noneBefore: make([]bool, len(found)),
		noneAround: make([]bool, len(found)),
	}
	for i := len(found) - 1; i >= 0; i-- {
		w.noneAfter[i] = isPending(found[i].Type) && found[i].Start < final && !w.evidenceAfter(i)
	}
	all := make([]Finding, 0, len(found)+8)
	for i, f := range found {
		if isPending(f.Type) && f.Start < final {
			around := f.Type == nameInObject && w.evidenceAround(i)
			w.noneAround[i] = !around
			w.noneBefore[i] = !w.evidenceBefore(i)
			if !around && w.noneAfter[i] && w.noneBefore[i] {
				continue
			}
			if around {
				w.found[i].Type = siblingName
				all = append(all, w.found[i])
			}
			f.Type = Name
		}
		all = append(all, f)
	}
	return all
}

// evidenceSearch searches for evidence around the pending names among found, which is
// sorted.
type evidenceSearch struct {
	text  string
	base  int
	found []Finding

	// Results of earlier searches: candidates without evidence in a direction. They end
	// the search from another name in the same record.
	noneAfter, noneBefore, noneAround []bool
}

// isEvidence reports whether candidate f is evidence for name.
func (w *evidenceSearch) isEvidence(name, f Finding) bool {
	return isPersonal(f.Type) && !(f.Type == Name && f.Score == proseScore) && !f.overlaps(name)
}

// ends reports whether the record of a name ends at text[at].
func (w *evidenceSearch) ends(name Finding, at int) bool {
	switch name.Type {
	case nameInRow:
		return w.text[at] == '\n'
	case nameInLine:
		return w.text[at] == '\n' && at > 0 && w.text[at-1] == '\n'
	}
	return false
}

// evidenceAfter searches for evidence after a name in its record: its object, its row,
// or the lines up to an empty one or the next name.
func (w *evidenceSearch) evidenceAfter(i int) bool {
	name, depth, k := w.found[i], 0, i+1
	from := w.end(name)
	for at := from; at < len(w.text) && at-from < evidenceRange; at++ {
		for k < len(w.found) && w.found[k].Start-w.base <= at {
			if f := w.found[k]; f.Type == name.Type && (name.Type == nameInLine || depth == 0 && w.noneAfter[k]) {
				return false
			} else if depth <= 1 && w.isEvidence(name, f) {
				return true
			}
			k++
		}
		if w.ends(name, at) {
			return false
		}
		if depth += w.depthChange(at); depth < 0 {
			return false
		}
	}
	return false
}

// evidenceBefore searches for evidence before a name in its record.
func (w *evidenceSearch) evidenceBefore(i int) bool {
	name, depth, k := w.found[i], 0, i-1
	from := w.start(name)
	for at := from - 1; at >= 0 && from-at < evidenceRange; at-- {
		for ; k >= 0 && w.found[k].Start-w.base >= at; k-- {
			if f := w.found[k]; f.Type == name.Type && (name.Type == nameInLine || depth == 0 && w.noneBefore[k]) {
				return false
			} else if depth <= 1 && w.isEvidence(name, f) {
				return true
			}
		}
		if w.ends(name, at) {
			return false
		}
		if depth -= w.depthChange(at); depth < 0 {
			return false
		}
	}
	return false
}

// start returns the start of a name, including the start tag of its element.
func (w *evidenceSearch) start(name Finding) int {
	at := name.Start - w.base
	if at > 0 && w.text[at-1] == '>' {
		if i := strings.LastIndexByte(w.text[:at], '<'); i >= 0 && at-i <= maxKey {
			return i
		}
	}
	return at
}

// end returns the end of a name, including the end tag of its element.
func (w *evidenceSearch) end(name Finding) int {
	at := name.End - w.base
	if strings.HasPrefix(w.text[at:], "</") {
		if i := strings.IndexByte(w.text[at:min(len(w.text), at+maxKey+3)], '>'); i > 0 {
			return at + i + 1
		}
	}
	return at
}

// evidenceAround searches for a key that denotes persons in the enclosing objects, or
// for a name with such evidence in the previous record.
func (w *evidenceSearch) evidenceAround(i int) bool {
	name, depth, up, k := w.found[i], 0, 0, i-1
	from, listed := w.start(name), false
	for at := from - 1; at >= 0 && from-at < evidenceRange && up < 4; at-- {
		for ; k >= 0 && w.found[k].Start-w.base > at; k-- {
		}
		same := up == 0 && depth == 0 || listed && up == 1 && depth == 1 // object, or list
		if same && k >= 0 && w.found[k].Start-w.base == at {
			if w.found[k].Type == siblingName && up == 1 {
				return true
			} else if w.noneAround[k] {
				return false
			}
		}
		if depth -= w.depthChange(at); depth >= 0 {
			continue
		}
		depth = 0
		if up++; up == 1 {
			listed = strings.HasSuffix(strings.TrimRight(w.text[max(0, at-evidenceRange):at], " \t\r\n"), ",")
		}
		if w.hasPersonKey(k, at) {
			return true
		}
	}
	return false
}

// hasPersonKey reports whether a key that denotes persons belongs to the object that
// begins at a position; k is the last candidate that begins before it.
func (w *evidenceSearch) hasPersonKey(k, at int) bool {
	isKey := func(f Finding) bool { return f.Type == personKey || f.Type == roleKey }
	if k+1 < len(w.found) && isKey(w.found[k+1]) && w.found[k+1].Start-w.base == at+1 { // an XML element
		return true
	}
	for ; k >= 0 && at-(w.found[k].Start-w.base) < maxKey+8; k-- {
		f := w.found[k]
		if isKey(f) && f.End-w.base <= at && strings.Trim(w.text[f.End-w.base:at], "\\\"': =") == "" {
			return true
		}
	}
	return false
}

// depthChange returns the change of the nesting depth after the byte at a position.
func (w *evidenceSearch) depthChange(at int) int {
	switch w.text[at] {
	case '{', '[', '(':
		return 1
	case '}', ']', ')':
		return -1
	case '<':
		if at+1 == len(w.text) {
			return 0
		}
		if next := w.text[at+1]; next == '/' {
			return -1
		} else if class[next]&letter != 0 {
			return 1
		}
	}
	return 0
}
