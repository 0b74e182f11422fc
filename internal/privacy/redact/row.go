package redact

// row are strings that follow each other in a list, as the items of output do.
type row struct {
	list   int
	pieces []part
}

// add takes the next literal, which is src[start:end] of a sight.
func (r *row) add(p *passage, l literal, in *sight, start, end int) {
	if p.split == nil {
		return
	}
	whole := l.list == 0 || l.number || in.lits != nil && start == 0 // JSON in a string stands for itself
	if whole || l.list != r.list {
		r.end(p)
	}
	if !whole {
		r.list, r.pieces = l.list, append(r.pieces, part{in, span{start, end}})
	}
}

// end looks at the row, if it has several strings, and begins another.
func (r *row) end(p *passage) {
	if len(r.pieces) > 1 {
		texts := make([]string, len(r.pieces))
		for i, at := range r.pieces {
			texts[i] = at.in.doc.src[at.start:at.end]
		}
		for _, spread := range p.split(texts) {
			f := found{typ: spread.Type}
			for _, at := range spread.Parts {
				piece := r.pieces[at.Piece]
				f.parts = append(f.parts, part{piece.in, span{piece.start + at.Start, piece.start + at.End}})
			}
			p.found = append(p.found, f)
		}
	}
	*r = row{}
}
