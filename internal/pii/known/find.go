package known

import (
	"math/bits"
	"slices"
	"strings"

	"github.com/sandpiper-mcp/sandpiper/internal/pii"
)

// Find returns where values stand in text, in order, without overlaps: of those
// that begin at one place the longest. Capitals do not count, except in a value
// that is one word of letters. A number is found with other separators too.
func (x *Index) Find(text string) []pii.Finding { return x.FindCut(text, nil) }

// FindCut is Find where a value may also begin and end at the cuts, which are
// places in text in order: where pieces meet that have nothing to do with each
// other.
func (x *Index) FindCut(text string, cuts []int) []pii.Finding {
	s := search{x: x, text: text, cuts: cuts, sums: sums{radix: &x.radix, text: text}}
	for i := 0; i < len(text); {
		i = s.stretch(i, min(len(text), i+stretch))
	}
	return s.found
}

// stretch is how much is searched before others may add.
const stretch = 64 << 10

// search is one look at a text.
type search struct {
	x     *Index
	text  string
	cuts  []int
	sums  sums
	buf   []byte
	found []pii.Finding
	end   int // of the last finding
}

// stretch looks at the places from i to hi and returns where to go on.
func (s *search) stretch(i, hi int) int {
	s.x.mu.RLock()
	defer s.x.mu.RUnlock()
	if s.x.order.Len() == 0 {
		return hi
	}
	text, before := s.text, uint8(0)
	if i > 0 {
		before = class[text[i-1]]
	}
	for last := min(hi, len(text)-least+1); i < last; {
		at := class[text[i]]
		if at&alnum != 0 && before&alnum != 0 && s.cuts == nil && (i < 2 || text[i-2] != '\\') { // within a word
			before = at
			i++
			continue
		}
		if at == digit || s.x.firsts[text[i]] && s.x.windows.has(window(text[i:])) {
			if end := s.at(i); end > 0 {
				i, before = end, class[text[end-1]]
				continue
			}
		}
		before = at
		i++
	}
	return max(i, hi)
}

// at adds the longest value at i and returns where it ends, or 0.
func (s *search) at(i int) int {
	if !begins(s.text, i) && !s.cut(i) {
		return 0
	}
	end, v := s.longest(i)
	if class[s.text[i]] == digit && len(s.x.numbers) > 0 {
		if e, n := s.number(i); e > end {
			end, v = e, n
			if i > s.end && s.text[i-1] == '(' && strings.Contains(s.text[i:e], ")") {
				i--
			}
		}
	}
	if v == nil {
		return 0
	}
	s.found = append(s.found, pii.Finding{Type: v.typ, Start: i, End: end, Score: 1})
	s.end = end
	return end
}

// longest returns where the longest value at i ends, and which it is.
func (s *search) longest(i int) (end int, v *value) {
	first := s.x.heads[window(s.text[i:])]
	if first == nil {
		return 0, nil
	}
	for levels := first.levels; levels != 0; {
		k := bits.Len32(levels) - 1
		levels &^= 1 << k
		if i+1<<k > len(s.text) {
			continue
		}
		h := s.x.heads[levelKey(s.sums.of(i, 1<<k), k)]
		if h == nil {
			continue
		}
		for _, n := range h.lengths {
			if v := s.exactly(i, int(n)); v != nil {
				return i + int(n), v
			}
		}
	}
	return 0, nil
}

// exactly returns the value that text[i:i+n] is.
func (s *search) exactly(i, n int) *value {
	if i+n > len(s.text) || !s.ends(i+n) {
		return nil
	}
	if sum := s.sums.of(i, n); !s.x.sums.has(sum) || s.x.whole[sum] == 0 {
		return nil
	}
	e := s.x.values[s.text[i:i+n]]
	if e == nil {
		s.buf = folded(s.buf[:0], s.text[i:i+n])
		e = s.x.values[string(s.buf)]
	}
	if e == nil {
		return nil
	}
	return e.Value.(*value)
}

func (s *search) ends(i int) bool { return ends(s.text, i) || s.cut(i) }

func (s *search) cut(i int) bool {
	_, is := slices.BinarySearch(s.cuts, i)
	return is
}
