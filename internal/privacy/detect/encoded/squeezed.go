package encoded

import (
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/sandpiper-mcp/sandpiper/internal/privacy/detect"
)

// squeezed finds known values whose gaps differ: with other spaces or line breaks, as
// textwrap and pprint produce, or in groups. A long text is searched in overlapping parts.
func (f Finder) squeezed(text string) (found []detect.Finding) {
	if f.Squeezed == nil {
		return nil
	}
	s := squeezer{Finder: f, source: text, search: f.Squeezed}
	from := 0 // start of the text that was not put yet
	for i := 0; i < len(text); {
		if !gapLead[text[i]] {
			i++
			continue
		}
		start, end := gapAt(text, i)
		if start == end {
			i++
			continue
		}
		if s.text == nil {
			s.text = make([]byte, 0, min(len(text), maxSheet+overlap))
			s.gaps, s.pieces = make([]int, 0, min(len(text), maxSheet)/6+1), make([]piece, 0, min(len(text), maxSheet)/6+2)
		}
		s.put(from, max(from, start))
		s.gaps = append(s.gaps, len(s.text))
		i, from = end, end
		if len(s.text) >= maxSheet {
			s.read(overlap)
		}
	}
	if from == 0 {
		return nil
	}
	s.put(from, len(text))
	s.read(0)
	return s.found
}

// squeezer holds a text without its gaps.
type squeezer struct {
	Finder
	source string
	search func(text string, gaps []int) []detect.Finding
	text   []byte
	pieces []piece // of text, in order
	gaps   []int   // positions in text of removed gaps
	found  []detect.Finding
}

// piece maps text[at:] to source[from:].
type piece struct{ at, from int }

func (s *squeezer) put(start, end int) {
	if start < end {
		s.pieces = append(s.pieces, piece{len(s.text), start})
		s.text = append(s.text, s.source[start:end]...)
	}
}

// read searches the text, and keeps the last bytes of it for the next part.
func (s *squeezer) read(keep int) {
	text := string(s.text)
	for _, f := range s.search(text, s.gaps) {
		value := text[f.Start:f.End]
		f.Start, f.End = s.span(f.Start), s.span(f.End-1)+1
		if as := s.source[f.Start:f.End]; as != value && !isShortNumber(value) && !s.plain(f) {
			s.found = append(s.found, f)
		}
	}
	if keep == 0 || len(s.text) <= keep {
		return
	}
	cut := len(s.text) - keep
	from := s.span(cut)
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

// plain reports whether a value is found where it is, with its original gaps.
func (s *squeezer) plain(f detect.Finding) bool {
	if s.Known == nil {
		return false
	}
	from, to := widen(s.source, max(0, f.Start-1), min(len(s.source), f.End+1))
	return slices.ContainsFunc(s.Known(s.source[from:to]), func(o detect.Finding) bool {
		return from+o.Start <= f.Start && f.End <= from+o.End
	})
}

// span returns the position in source of byte i of the text.
func (s *squeezer) span(i int) int {
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

// gapLead has the bytes that gaps begin with.
var gapLead = func() (t [256]bool) {
	for b := range t {
		t[b] = b >= utf8.RuneSelf || detect.Gap(string(rune(b))) > 0
	}
	return t
}()

// gapAt returns the range of the gap at i. The gap of a line break includes the indentation or
// quotation marks of the next line, and a quote at its end if the next line begins with one.
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
