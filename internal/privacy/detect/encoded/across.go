package encoded

import (
	"cmp"
	"slices"
	"strings"

	"github.com/sandpiper-mcp/sandpiper/internal/privacy/detect"
)

// Spread is a value that spans several pieces.
type Spread struct {
	Type  detect.Type
	Score float64
	Parts []Part
}

// Part is the range Start to End, in bytes, of the piece with that number.
type Part struct{ Piece, Start, End int }

const minSpreadScore = 0.9 // of a value detected over several pieces

// Across returns the values that begin in one piece and continue in later ones: known ones
// however they are broken, detected ones in the pieces joined directly or with line breaks.
// A line break at the end of a piece is ignored. A detected value must not have a part that
// is a finding in its piece: text after an address does not continue it.
func (f Finder) Across(pieces []string) []Spread {
	if len(pieces) < 2 {
		return nil
	}
	none, lines := join(pieces, ""), join(pieces, "\n")
	known := append(none.known(f.Known), lines.removeSeparators(append(lines.known(f.Known), lines.known(f.squeezed)...))...)
	known = detect.Resolve(known, none.text)
	detected := disjoint(known, append(none.detected(f), lines.removeSeparators(lines.detected(f))...))
	var spreads []Spread
	for _, one := range detect.Resolve(append(known, detected...), none.text) {
		spreads = append(spreads, Spread{one.Type, one.Score, none.parts(one)})
	}
	return spreads
}

// disjoint returns the findings that overlap no known value: the ends of known values are
// reliable, while a detected one may extend into the next piece by mistake.
func disjoint(known, found []detect.Finding) []detect.Finding {
	return slices.DeleteFunc(found, func(f detect.Finding) bool {
		n, _ := slices.BinarySearchFunc(known, f.Start, func(k detect.Finding, start int) int { return cmp.Compare(k.End, start+1) })
		return n < len(known) && known[n].Start < f.End
	})
}

// joined is the text of several pieces.
type joined struct {
	pieces []string // without line breaks at their ends
	text   string
	starts []int // of the pieces in text
	sep    int
}

func join(pieces []string, sep string) joined {
	j := joined{sep: len(sep)}
	var b strings.Builder
	for i, p := range pieces {
		if i > 0 {
			b.WriteString(sep)
		}
		p = strings.TrimSuffix(strings.TrimSuffix(p, "\n"), "\r")
		j.pieces, j.starts = append(j.pieces, p), append(j.starts, b.Len())
		b.WriteString(p)
	}
	j.text = b.String()
	return j
}

// known returns the known values that span pieces.
func (j joined) known(find func(string) []detect.Finding) (found []detect.Finding) {
	if find == nil {
		return nil
	}
	for _, one := range find(j.text) {
		if j.crosses(one) && !isShortNumber(j.text[one.Start:one.End]) {
			found = append(found, one)
		}
	}
	return found
}

// detected returns the values detected over several pieces. Without a separator, values with
// a part that is found alone are left out.
func (j joined) detected(f Finder) (found []detect.Finding) {
	if f.Scan == nil {
		return nil
	}
	for _, one := range f.Scan(j.text) {
		if one.Score >= minSpreadScore && j.crosses(one) && (j.sep > 0 || !j.hasPartFinding(f, one)) {
			found = append(found, one)
		}
	}
	return found
}

func (j joined) crosses(f detect.Finding) bool { return j.piece(f.Start) != j.piece(f.End-1) }

// piece returns the number of the piece at i.
func (j joined) piece(i int) int {
	n, _ := slices.BinarySearch(j.starts, i+1)
	return n - 1
}

// hasPartFinding reports whether a part of a finding is a finding in its piece.
func (j joined) hasPartFinding(f Finder, one detect.Finding) bool {
	scan := f.Scan
	if f.Whole != nil {
		scan = f.Whole
	}
	for _, p := range j.parts(one) {
		for _, other := range scan(j.pieces[p.Piece]) {
			if other.Start < p.End && p.Start < other.End {
				return true
			}
		}
	}
	return false
}

func (j joined) parts(f detect.Finding) (parts []Part) {
	for n := j.piece(f.Start); n < len(j.starts) && j.starts[n] < f.End; n++ {
		p := Part{n, max(0, f.Start-j.starts[n]), min(len(j.pieces[n]), f.End-j.starts[n])}
		if p.Start < p.End {
			parts = append(parts, p)
		}
	}
	return parts
}

// removeSeparators converts positions in a text with separators to those in one without.
func (j joined) removeSeparators(found []detect.Finding) []detect.Finding {
	for i, f := range found {
		found[i].Start -= j.piece(f.Start) * j.sep
		found[i].End -= j.piece(f.End-1) * j.sep
	}
	return found
}
