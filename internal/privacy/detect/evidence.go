package detect

import (
	"slices"
	"strings"
)

// Names says when a value under the bare key "name" is taken for a person's.
type Names string

const (
	Evidence Names = "evidence" // if its record has another personal value, or a key that says so
	Always   Names = "always"   // if it looks like one
	Never    Names = "never"
)

// Candidates that no finding comes of as they are: values under "name" that wait for
// evidence, by where they stand, and keys that are evidence.
const (
	nameInObject Type = "name in an object"
	nameInLine   Type = "name in a line"
	nameInRow    Type = "name in a row"
	ofPerson     Type = "key of a person"      // beside a name, or around it
	role         Type = "key with persons"     // around a name
	sibling      Type = "name beside the next" // that a key around it is evidence of
	value        Type = "value of a person"    // in a part of a stream that was returned
)

// near is how far from a name evidence is looked for, in bytes.
const near = 1000

// bare is the score of a value under "name".
const bare = 0.5

func waits(t Type) bool { return t == nameInObject || t == nameInLine || t == nameInRow }

func internal(f Finding) bool {
	return waits(f.Type) || f.Type == ofPerson || f.Type == role || f.Type == sibling || f.Type == value
}

// personal reports whether a value says that its record is a person's. What belongs
// to machines does not.
func personal(t Type) bool {
	switch t {
	case IPAddress, MACAddress, APIKey, JWT, PrivateKey, URLCredentials, Crypto, role, sibling, nameInObject, nameInLine, nameInRow:
		return false
	}
	return true
}

// evident decides about the names that wait and begin before final: they become
// findings, or go. What else is found stays, in order.
func evident(found []Finding, text string, base, final int) []Finding {
	if !slices.ContainsFunc(found, func(f Finding) bool { return waits(f.Type) }) {
		return found
	}
	slices.SortStableFunc(found, byStart)
	w := witness{text: text, base: base, found: found, behindNot: make([]bool, len(found)), beforeNot: make([]bool, len(found)), aroundNot: make([]bool, len(found))}
	for i := len(found) - 1; i >= 0; i-- {
		w.behindNot[i] = waits(found[i].Type) && found[i].Start < final && !w.behind(i)
	}
	all := make([]Finding, 0, len(found)+8)
	for i, f := range found {
		if waits(f.Type) && f.Start < final {
			around := f.Type == nameInObject && w.around(i)
			w.aroundNot[i] = !around
			w.beforeNot[i] = !w.before(i)
			if !around && w.behindNot[i] && w.beforeNot[i] {
				continue
			}
			if around {
				w.found[i].Type = sibling
				all = append(all, w.found[i])
			}
			f.Type = Name
		}
		all = append(all, f)
	}
	return all
}

// Person returns the key under which the value of key is to be looked at, if it
// stands at text[start:end] and is written with escapes there: under "name" it
// is a person's if there is evidence around it.
func (s *Scanner) Person(key, text string, start, end int) string {
	if h, _ := s.key(key); h.typ != nameInObject {
		return key
	}
	lo, hi := max(0, start-near), min(len(text), end+near)
	own := Finding{Type: nameInObject, Start: start - lo, End: end - lo}
	around := slices.DeleteFunc(s.scan(text[lo:hi]), own.overlaps)
	for _, f := range evident(append(around, own), text[lo:hi], 0, hi-lo) {
		if f.Type == Name && f.Start == own.Start {
			return "full name"
		}
	}
	return key
}

// witness looks for evidence around one candidate of several, which are in order.
type witness struct {
	text  string
	base  int
	found []Finding

	// Of which candidates it is known that there is nothing, so that the walk from
	// another one in the same record need not go farther.
	behindNot, beforeNot, aroundNot []bool
}

// counts reports whether a candidate is evidence beside a name of a kind.
func (w *witness) counts(name, f Finding) bool {
	return personal(f.Type) && !f.overlaps(name)
}

// ends reports whether the record of a name ends at a place of text.
func (w *witness) ends(name Finding, at int) bool {
	switch name.Type {
	case nameInRow:
		return w.text[at] == '\n'
	case nameInLine:
		return w.text[at] == '\n' && at > 0 && w.text[at-1] == '\n'
	}
	return false
}

// behind looks for evidence in what follows in the record of a name: its object, its
// row, or the lines up to an empty one or the next name.
func (w *witness) behind(i int) bool {
	name, depth, k := w.found[i], 0, i+1
	from := w.end(name)
	for at := from; at < len(w.text) && at-from < near; at++ {
		for k < len(w.found) && w.found[k].Start-w.base <= at {
			if f := w.found[k]; f.Type == name.Type && (name.Type == nameInLine || depth == 0 && w.behindNot[k]) {
				return false
			} else if depth <= 1 && w.counts(name, f) {
				return true
			}
			k++
		}
		if w.ends(name, at) {
			return false
		}
		if depth += w.step(at); depth < 0 {
			return false
		}
	}
	return false
}

// before looks for it in what stands before, likewise.
func (w *witness) before(i int) bool {
	name, depth, k := w.found[i], 0, i-1
	from := w.start(name)
	for at := from - 1; at >= 0 && from-at < near; at-- {
		for ; k >= 0 && w.found[k].Start-w.base >= at; k-- {
			if f := w.found[k]; f.Type == name.Type && (name.Type == nameInLine || depth == 0 && w.beforeNot[k]) {
				return false
			} else if depth <= 1 && w.counts(name, f) {
				return true
			}
		}
		if w.ends(name, at) {
			return false
		}
		if depth -= w.step(at); depth < 0 {
			return false
		}
	}
	return false
}

// start is where a name begins, with the mark of the element that it is.
func (w *witness) start(name Finding) int {
	at := name.Start - w.base
	if at > 0 && w.text[at-1] == '>' {
		if i := strings.LastIndexByte(w.text[:at], '<'); i >= 0 && at-i <= maxKey {
			return i
		}
	}
	return at
}

// end is where it ends, likewise.
func (w *witness) end(name Finding) int {
	at := name.End - w.base
	if strings.HasPrefix(w.text[at:], "</") {
		if i := strings.IndexByte(w.text[at:min(len(w.text), at+maxKey+3)], '>'); i > 0 {
			return at + i + 1
		}
	}
	return at
}

// around looks for a key that says who is in the objects around a name, or for a name
// in the record before that had one.
func (w *witness) around(i int) bool {
	name, depth, up, k := w.found[i], 0, 0, i-1
	from, listed := w.start(name), false
	for at := from - 1; at >= 0 && from-at < near && up < 4; at-- {
		for ; k >= 0 && w.found[k].Start-w.base > at; k-- {
		}
		same := up == 0 && depth == 0 || listed && up == 1 && depth == 1 // object, or list
		if same && k >= 0 && w.found[k].Start-w.base == at {
			if w.found[k].Type == sibling && up == 1 {
				return true
			} else if w.aroundNot[k] {
				return false
			}
		}
		if depth -= w.step(at); depth >= 0 {
			continue
		}
		depth = 0
		if up++; up == 1 {
			listed = strings.HasSuffix(strings.TrimRight(w.text[max(0, at-near):at], " \t\r\n"), ",")
		}
		if w.names(k, at) {
			return true
		}
	}
	return false
}

// names reports whether a key that says who is in an object is that of the object
// that begins at a place; the candidate k is the last that begins before.
func (w *witness) names(k, at int) bool {
	says := func(f Finding) bool { return f.Type == ofPerson || f.Type == role }
	if k+1 < len(w.found) && says(w.found[k+1]) && w.found[k+1].Start-w.base == at+1 { // it is an element
		return true
	}
	for ; k >= 0 && at-(w.found[k].Start-w.base) < maxKey+8; k-- {
		f := w.found[k]
		if says(f) && f.End-w.base <= at && strings.Trim(w.text[f.End-w.base:at], "\\\"': =") == "" {
			return true
		}
	}
	return false
}

// step is by how much one is deeper behind the byte at a place.
func (w *witness) step(at int) int {
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
