package encoded

import (
	"strings"

	"github.com/sandpiper-mcp/sandpiper/internal/privacy/detect"
)

// squeezed looks for known values that have other blanks than they came with, or
// line breaks: as textwrap and pprint write them, or in groups. A long text is read
// in parts that overlap.
func (f Finder) squeezed(text string) (found []detect.Finding) {
	if f.Squeezed == nil {
		return nil
	}
	s := squeezer{Finder: f, source: text}
	from := 0 // of what was not put yet
	for i := 0; i < len(text); {
		start, end := gapAt(text, i)
		if start == end {
			i++
			continue
		}
		if s.text == nil {
			s.text = make([]byte, 0, min(len(text), full+again))
			s.gaps, s.pieces = make([]int, 0, min(len(text), full)/6+1), make([]piece, 0, min(len(text), full)/6+2)
		}
		s.put(from, max(from, start))
		s.gaps = append(s.gaps, len(s.text))
		i, from = end, end
		if len(s.text) >= full {
			s.read(again)
		}
	}
	if from == 0 {
		return nil
	}
	s.put(from, len(text))
	s.read(0)
	return s.found
}

// squeezer is a text without its gaps.
type squeezer struct {
	Finder
	source string
	text   []byte
	pieces []piece // what was put, in order
	gaps   []int   // places in text where something was left out
	found  []detect.Finding
}

// piece is source[from:] where it stands in the text.
type piece struct{ at, from int }

func (s *squeezer) put(start, end int) {
	if start < end {
		s.pieces = append(s.pieces, piece{len(s.text), start})
		s.text = append(s.text, s.source[start:end]...)
	}
}

// read looks at the text and keeps so many bytes of it, to go on from.
func (s *squeezer) read(keep int) {
	text := string(s.text)
	for _, f := range s.Squeezed(text, s.gaps) {
		value := text[f.Start:f.End]
		f.Start, f.End = s.place(f.Start), s.place(f.End-1)+1
		if as := s.source[f.Start:f.End]; as != value && !fewOnly(value) && !s.plain(as) {
			s.found = append(s.found, f)
		}
	}
	if keep == 0 || len(s.text) <= keep {
		return
	}
	cut := len(s.text) - keep
	from := s.place(cut)
	s.text = append(s.text[:0], s.text[cut:]...)
	n := 0
	for n < len(s.pieces) && s.pieces[n].at <= cut {
		n++
	}
	s.pieces = append([]piece{{0, from}}, s.pieces[n:]...)
	for i := range s.pieces[1:] {
		s.pieces[i+1].at -= cut
	}
	kept := s.gaps[:0]
	for _, g := range s.gaps {
		if g >= cut {
			kept = append(kept, g-cut)
		}
	}
	s.gaps = kept
}

// plain reports whether a value stands there with the gaps that it came with.
func (s *squeezer) plain(as string) bool {
	if s.Known == nil {
		return false
	}
	found := s.Known(as)
	return len(found) == 1 && found[0].End-found[0].Start == len(as)
}

// place returns where the byte i of the text stands in source.
func (s *squeezer) place(i int) int {
	lo, hi := 0, len(s.pieces)
	for lo+1 < hi {
		if m := (lo + hi) / 2; s.pieces[m].at <= i {
			lo = m
		} else {
			hi = m
		}
	}
	return s.pieces[lo].from + i - s.pieces[lo].at
}

// gapAt returns the ends of the gap at i. A line break takes what begins the next
// line with it; a quote that ends a line goes if another begins the next.
func gapAt(text string, i int) (start, end int) {
	n := detect.Gap(text[i:])
	if start, end = i, i+n; n == 0 || text[i] != '\n' {
		return start, end
	}
	for end < len(text) && strings.IndexByte(" \t>#*|", text[end]) >= 0 {
		end++
	}
	before := start
	for before > 0 && (text[before-1] == ' ' || text[before-1] == '\r') {
		before--
	}
	after := end
	if after < len(text) && text[after] == 'b' { // bytes
		after++
	}
	if before > 0 && after < len(text) && text[before-1] == text[after] && (text[after] == '\'' || text[after] == '"') {
		return before - 1, after + 1
	}
	return start, end
}
