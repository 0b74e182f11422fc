package redact

// row are strings that follow each other in a list, as the items of output do.
type row struct {
	list  int
	parts []part
}

// add takes the next literal, which is src[start:end] of a sight.
func (r *row) add(p *pass, l literal, in *textView, start, end int) {
	if p.findSpread == nil {
		return
	}
	whole := l.list == 0 || l.number || in.literals != nil && start == 0 // JSON in a string stands for itself
	if whole || l.list != r.list {
		r.flush(p)
	}
	if !whole {
		r.list, r.parts = l.list, append(r.parts, part{in, span{start, end}})
	}
}

// end looks at the row, if it has several strings, and begins another.
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
