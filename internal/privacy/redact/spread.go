package redact

import (
	"slices"

	"github.com/sandpiper-mcp/sandpiper/internal/privacy/detect/encoded"
)

// row collects consecutive strings of an array, such as the items of output, to find
// values that are split over them.
type row struct {
	findSpread func(pieces []string) []encoded.Spread // nil finds none

	list  int
	parts []part
	bytes int // of parts
}

// add adds the next literal, which is src[start:end] of a view. It returns the values
// in the row that ends before it, if one does.
func (r *row) add(l literal, in *textView, start, end int) (ended []found) {
	if r.findSpread == nil {
		return nil
	}
	if len(r.parts) >= maxRow && r.bytes < shortPiece*len(r.parts) {
		ended = r.continued()
	}
	whole := l.list == 0 || l.number || in.literals != nil && start == 0 // JSON in a string is scanned separately
	if whole || l.list != r.list {
		ended = append(ended, r.flush()...)
	}
	if !whole {
		r.list, r.parts, r.bytes = l.list, append(r.parts, part{in, span{start, end}}), r.bytes+end-start
	}
	return ended
}

// A row of more than maxRow pieces that are shorter than shortPiece on average, too short for the
// lines of a table, is searched in parts with rowOverlap pieces in common.
const (
	maxRow     = 16 << 10
	shortPiece = 16
	rowOverlap = 1 << 10
)

// continued is flush for the first part of a row.
func (r *row) continued() (all []found) {
	list, last := r.list, slices.Clone(r.parts[len(r.parts)-rowOverlap:])
	all = r.flush()
	r.list, r.parts = list, last
	for _, at := range last {
		r.bytes += at.end - at.start
	}
	return all
}

// flush returns the values that are split over the collected strings, and clears the
// row.
func (r *row) flush() (all []found) {
	if len(r.parts) > 1 {
		texts := make([]string, len(r.parts))
		for i, at := range r.parts {
			texts[i] = at.view.doc.src[at.start:at.end]
		}
		for _, spread := range r.findSpread(texts) {
			f := found{typ: spread.Type}
			for _, at := range spread.Parts {
				piece := r.parts[at.Piece]
				piece.view.hasValues = true
				f.parts = append(f.parts, part{piece.view, span{piece.start + at.Start, piece.start + at.End}})
			}
			all = append(all, f)
		}
	}
	r.list, r.parts, r.bytes = 0, nil, 0
	return all
}
