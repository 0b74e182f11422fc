package redact

// row collects consecutive strings of an array, such as the items of output, to find
// values that are split over them.
type row struct {
	list  int
	parts []part
}

// add adds the next literal, which is src[start:end] of a view.
func (r *row) add(p *pass, l literal, in *textView, start, end int) {
	if p.findSpread == nil {
		return
	}
	whole := l.list == 0 || l.number || in.literals != nil && start == 0 // JSON in a string is scanned separately
	if whole || l.list != r.list {
		r.flush(p)
	}
	if !whole {
		r.list, r.parts = l.list, append(r.parts, part{in, span{start, end}})
	}
}

// flush scans the collected strings, if there are several, and clears the row.
func (r *row) flush(p *pass) {
	if len(r.parts) > 1 {
		texts := make([]string, len(r.parts))
		for i, at := range r.parts {
			texts[i] = at.view.doc.src[at.start:at.end]
		}
		for _, spread := range p.findSpread(texts) {
			f := found{typ: spread.Type}
			for _, at := range spread.Parts {
				piece := r.parts[at.Piece]
				f.parts = append(f.parts, part{piece.view, span{piece.start + at.Start, piece.start + at.End}})
			}
			p.found = append(p.found, f)
		}
	}
	*r = row{}
}
