package encoded

import (
	"slices"

	"github.com/sandpiper-mcp/sandpiper/internal/privacy/detect"
)

// sheet is a buffer of decoded text. It is searched when it is full, and at the end.
type sheet struct {
	Finder
	source string
	loose  bool // search only known values, and no short numbers
	folded bool // its text is that of folded
	text   []byte
	from   []span // position in source of each byte of text
	seen   int    // bytes at the beginning that were searched before, kept as context
	found  []detect.Finding
}

type span struct{ start, end int }

const (
	maxSheet = 128 << 10
	overlap  = 20 << 10 // last bytes of a full sheet, searched again with the next; a private key is the longest value
	ahead    = 64       // bytes before those, kept as context
)

// empty reports whether there is no function to search the sheet with.
func (s *sheet) empty() bool { return s.Known == nil && (s.loose || s.Scan == nil) }

func (s *sheet) put(b byte, start, end int) {
	if len(s.text) >= maxSheet {
		s.read(overlap)
	}
	s.text = append(s.text, b)
	s.from = append(s.from, span{start, end})
}

// plain puts source[start:end] unchanged.
func (s *sheet) plain(start, end int) {
	for i := start; i < end; i++ {
		s.put(s.source[i], i, i+1)
	}
}

// gap inserts a separator, so that no value spans it.
func (s *sheet) gap() {
	if n := len(s.text); n > 0 && s.text[n-1] != 0 {
		s.put(0, s.from[n-1].end, s.from[n-1].end)
	}
}

// done searches the rest and returns all findings.
func (s *sheet) done() []detect.Finding {
	if len(s.text) > 0 {
		s.read(0)
	}
	return s.found
}

// read searches the sheet, and keeps the last bytes with some context before them. Findings
// in the kept bytes are left for the next read.
func (s *sheet) read(keep int) {
	text := string(s.text)
	upTo := len(text) - keep
	if s.Known != nil {
		s.take(s.Known, text, upTo)
	}
	if s.Scan != nil && !s.loose {
		s.take(s.Scan, text, upTo)
	}
	if s.Joined != nil && !s.loose {
		s.take(s.slugs, text, upTo)
	}
	if !s.loose && !s.folded {
		s.take(s.Finder.folded, text, upTo)
	}
	if s.folded {
		s.take(s.squeezed, text, upTo)
	}
	if keep > 0 {
		s.seen = ahead
		s.text = append(s.text[:0], s.text[upTo-ahead:]...)
		s.from = append(s.from[:0], s.from[upTo-ahead:]...)
	}
}

// take adds the findings before upTo, except plain ones and those with a low score.
func (s *sheet) take(find func(string) []detect.Finding, text string, upTo int) {
	for _, f := range find(text) {
		if f.Start < s.seen || f.Start >= upTo || f.Score < minScore {
			continue
		}
		value := text[f.Start:f.End]
		start, end := s.from[f.Start].start, s.from[f.End-1].end
		if start > end || s.source[start:end] == value && !s.hiddenByEscape(find, f) || s.loose && isShortNumber(value) {
			continue
		}
		f.Start, f.End = start, end
		s.found = append(s.found, f)
	}
}

// contextSize is the number of bytes around a plain finding that can prevent its
// detection in the source.
const contextSize = 64

// hiddenByEscape reports whether a plain finding is not found in the source, because
// the escape before it seems to belong to it: "%22131-42-4002", "\x0b131-42-4002".
func (s *sheet) hiddenByEscape(find func(string) []detect.Finding, f detect.Finding) bool {
	if f.Start == 0 || s.from[f.Start-1].end-s.from[f.Start-1].start < 2 {
		return false
	}
	start, end := s.from[f.Start].start, s.from[f.End-1].end
	if base64Digit[s.source[start-1]] >= 62 { // no letter and no digit
		return false
	}
	first := max(0, start-contextSize)
	return !slices.ContainsFunc(find(s.source[first:min(len(s.source), end+contextSize)]), func(o detect.Finding) bool {
		return first+o.Start <= start && first+o.End >= end
	})
}
