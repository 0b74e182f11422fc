package detect

import (
	"slices"
	"unicode/utf8"
)

// Stream finds in text that arrives in pieces what Scan finds in the whole text. It buffers
// less than 128 KB in addition to the last piece.
type Stream struct {
	s       *Scanner
	buf     string    // text from base on
	more    []byte    // the text after it, not yet enough for a block
	base    int       // position of buf in the whole text
	sent    int       // end of the returned text
	scanned int       // start of the next block
	end     int       // end of the last finding
	found   []Finding // pending candidates, with positions in the whole text
	past    []Finding // earlier candidates that may be evidence for them
}

// Stream returns a new Stream.
func (s *Scanner) Stream() *Stream { return &Stream{s: s} }

// Write adds the next piece and returns the text that is complete, possibly none, with its
// findings. A finding is never split. The returned texts together are the written ones.
func (st *Stream) Write(piece string) (text string, found []Finding) {
	st.more = append(st.more, piece...)
	if st.base+len(st.buf)+len(st.more) < st.scanned+block+ahead {
		return "", nil
	}
	st.appendPiece()
	for st.base+len(st.buf) >= st.scanned+block+ahead {
		st.block()
	}
	return st.release(max(st.sent, st.scanned-behind-evidenceRange))
}

// Close ends the text and returns the rest of it.
func (st *Stream) Close() (text string, found []Finding) {
	st.appendPiece()
	for st.scanned < st.base+len(st.buf) {
		st.block()
	}
	return st.release(st.base + len(st.buf))
}

func (st *Stream) appendPiece() {
	st.buf += string(st.more)
	st.more = st.more[:0]
}

func (st *Stream) block() {
	have := len(st.found)
	st.found = st.s.rules.scanBlock(st.found, st.buf, st.scanned-st.base, 0)
	for i := have; i < len(st.found); i++ {
		st.found[i].Start += st.base
		st.found[i].End += st.base
	}
	st.scanned += block
}

// release returns the text before final, up to the first pending candidate.
func (st *Stream) release(final int) (string, []Finding) {
	st.decide(final)
	done, wait := resolve(st.found, st.buf, st.base, st.end, final)
	st.found = append([]Finding(nil), wait...)
	if len(wait) > 0 {
		final = min(final, wait[0].Start)
	}
	if len(done) > 0 {
		st.end = done[len(done)-1].End
	}
	cut := st.border(max(final, st.sent, st.end))
	text := st.buf[st.sent-st.base : cut-st.base]
	for i := range done {
		done[i].Start -= st.sent
		done[i].End -= st.sent
	}
	st.sent = cut
	if keep := min(cut, st.scanned-behind) - evidenceRange; keep > st.base {
		st.buf, st.base = st.buf[keep-st.base:], keep
	}
	return text, done
}

// decide resolves pending names that begin before final. It keeps earlier evidence for
// later names.
func (st *Stream) decide(final int) {
	all := resolveNames(slices.Concat(st.past, st.found), st.buf, st.base, final)
	st.past, st.found = nil, nil
	for _, f := range all {
		if !isInternal(f) || isPending(f.Type) {
			st.found = append(st.found, f)
		}
		if f.Start < final-evidenceRange || isPending(f.Type) {
			continue
		}
		// a bare name is not evidence for another
		if !isInternal(f) && isPersonal(f.Type) && (f.Type != Name || f.Score != bareNameScore && f.Score != proseScore) {
			f.Type = value
		}
		if isInternal(f) {
			st.past = append(st.past, f)
		}
	}
	slices.SortFunc(st.past, byStart)
	st.past = slices.Compact(st.past)
}

// border moves cut back to a rune boundary.
func (st *Stream) border(cut int) int {
	for back := cut; back > max(st.sent, st.end) && cut-back < utf8.UTFMax && back-st.base < len(st.buf); back-- {
		if utf8.RuneStart(st.buf[back-st.base]) {
			return back
		}
	}
	return cut
}
