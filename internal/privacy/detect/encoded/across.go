package encoded

import (
	"cmp"
	"slices"
	"strings"

	"github.com/sandpiper-mcp/sandpiper/internal/privacy/detect"
)

// Spread is a value in several pieces.
type Spread struct {
	Type  detect.Type
	Score float64
	Parts []Part
}

// Part is Start to End, in bytes, of the piece with that number.
type Part struct{ Piece, Start, End int }

const certain = 0.9 // the score of what is detected over several pieces

// Across returns the values that begin in one piece and go on in later ones: known
// ones however they are broken, detected ones as if there were nothing between the
// pieces, or a line break. A line break at the end of a piece does not count. What is
// detected must not have a part that is found in its piece alone: what follows an
// address is not more of it.
func (f Finder) Across(pieces []string) []Spread {
	if len(pieces) < 2 {
		return nil
	}
	none, lines := join(pieces, ""), join(pieces, "\n")
	known := append(none.known(f.Known), lines.back(append(lines.known(f.Known), lines.known(f.squeezed)...))...)
	known = detect.Resolve(known, none.text)
	detected := apartFrom(known, append(none.detected(f), lines.back(lines.detected(f))...))
	var spreads []Spread
	for _, one := range detect.Resolve(append(known, detected...), none.text) {
		spreads = append(spreads, Spread{one.Type, one.Score, none.parts(one)})
	}
	return spreads
}

// apartFrom returns what of found overlaps nothing that is known, whose ends are
// certain: what is detected may go on into the next piece.
func apartFrom(known, found []detect.Finding) []detect.Finding {
	return slices.DeleteFunc(found, func(f detect.Finding) bool {
		n, _ := slices.BinarySearchFunc(known, f.Start, func(k detect.Finding, start int) int { return cmp.Compare(k.End, start+1) })
		return n < len(known) && known[n].Start < f.End
	})
}

// joined is pieces in one text.
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

// known returns known values that go over the end of a piece.
func (j joined) known(find func(string) []detect.Finding) (found []detect.Finding) {
	if find == nil {
		return nil
	}
	for _, one := range find(j.text) {
		if j.over(one) && !fewOnly(j.text[one.Start:one.End]) {
			found = append(found, one)
		}
	}
	return found
}

// detected returns what is detected over the end of a piece. With nothing
// between pieces a part that is found alone speaks against it.
func (j joined) detected(f Finder) (found []detect.Finding) {
	if f.Scan == nil {
		return nil
	}
	for _, one := range f.Scan(j.text) {
		if one.Score >= certain && j.over(one) && (j.sep > 0 || !j.alone(f, one)) {
			found = append(found, one)
		}
	}
	return found
}

func (j joined) over(f detect.Finding) bool { return j.piece(f.Start) != j.piece(f.End-1) }

// piece returns the number of the last piece that begins at i or before.
func (j joined) piece(i int) int {
	n, _ := slices.BinarySearch(j.starts, i+1)
	return n - 1
}

// alone reports whether a part of what was found is found in its piece alone.
func (j joined) alone(f Finder, one detect.Finding) bool {
	for _, p := range j.parts(one) {
		for _, other := range f.Scan(j.pieces[p.Piece]) {
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

// back turns places in a text with separators into those in one without.
func (j joined) back(found []detect.Finding) []detect.Finding {
	for i, f := range found {
		found[i].Start -= j.piece(f.Start) * j.sep
		found[i].End -= j.piece(f.End-1) * j.sep
	}
	return found
}
