package encoded

import (
	"slices"

	"github.com/sandpiper-mcp/sandpiper/internal/privacy/detect"
)

// sheet is what was decoded so far. It is read when it is full, and when all is
// written.
type sheet struct {
	Finder
	source string
	loose  bool // only known values are looked for, and no numbers with few digits
	text   []byte
	from   []place // of each byte of text
	seen   int     // bytes at the beginning that were read before and are there for what follows
	found  []detect.Finding
}

type place struct{ start, end int }

const (
	full  = 128 << 10
	again = 20 << 10 // of a full sheet is read again with what follows; a private key is the longest value
	ahead = 64       // bytes of it are only there to show what stands before the others
)

// empty reports whether nobody would read the sheet.
func (s *sheet) empty() bool { return s.Known == nil && (s.loose || s.Scan == nil) }

func (s *sheet) put(b byte, start, end int) {
	if len(s.text) >= full {
		s.read(again)
	}
	s.text = append(s.text, b)
	s.from = append(s.from, place{start, end})
}

// plain puts source[start:end] as it stands.
func (s *sheet) plain(start, end int) {
	for i := start; i < end; i++ {
		s.put(s.source[i], i, i+1)
	}
}

// gap says that what follows does not go on with what was put.
func (s *sheet) gap() {
	if n := len(s.text); n > 0 && s.text[n-1] != 0 {
		s.put(0, s.from[n-1].end, s.from[n-1].end)
	}
}

// done returns what was found in all that was put.
func (s *sheet) done() []detect.Finding {
	if len(s.text) > 0 {
		s.read(0)
	}
	return s.found
}

// read looks at the sheet and keeps so many bytes and some before them. What is
// found in those has to wait for what follows.
func (s *sheet) read(keep int) {
	text := string(s.text)
	upTo := len(text) - keep
	if s.Known != nil {
		s.take(s.Known, text, upTo)
	}
	if s.Scan != nil && !s.loose {
		s.take(s.Scan, text, upTo)
	}
	if keep > 0 {
		s.seen = ahead
		s.text = append(s.text[:0], s.text[upTo-ahead:]...)
		s.from = append(s.from[:0], s.from[upTo-ahead:]...)
	}
}

// take adds what is found before upTo unless it is plain, or not sure.
func (s *sheet) take(find func(string) []detect.Finding, text string, upTo int) {
	for _, f := range find(text) {
		if f.Start < s.seen || f.Start >= upTo || f.Score < sure {
			continue
		}
		value := text[f.Start:f.End]
		start, end := s.from[f.Start].start, s.from[f.End-1].end
		if start > end || s.source[start:end] == value && !s.glued(find, f) || s.loose && fewOnly(value) {
			continue
		}
		f.Start, f.End = start, end
		s.found = append(s.found, f)
	}
}

// around is how much beside a plain finding is looked at for what would keep it
// from being found where it stands.
const around = 64

// glued reports whether a plain finding is not found where it stands, because it
// seems to go on with the escape before it: "%22131-42-4002", "\x0b131-42-4002".
func (s *sheet) glued(find func(string) []detect.Finding, f detect.Finding) bool {
	if f.Start == 0 || s.from[f.Start-1].end-s.from[f.Start-1].start < 2 {
		return false
	}
	start, end := s.from[f.Start].start, s.from[f.End-1].end
	if six[s.source[start-1]] >= 62 { // no letter and no digit
		return false
	}
	first := max(0, start-around)
	return !slices.ContainsFunc(find(s.source[first:min(len(s.source), end+around)]), func(o detect.Finding) bool {
		return first+o.Start <= start && first+o.End >= end
	})
}
