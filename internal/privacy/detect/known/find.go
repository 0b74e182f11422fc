package known

import (
	"cmp"
	"math/bits"
	"slices"
	"strings"

	"github.com/sandpiper-mcp/sandpiper/internal/privacy/detect"
)

// Find returns the occurrences of values in text, in order, without overlaps. Overlapping
// occurrences become one finding, of the type of the longest. Letter case is ignored,
// except in a value that is one word of letters. A number is found with other separators
// too, if one of its ends is a border.
func (x *Index) Find(text string) []detect.Finding {
	s := search{x: x, text: text, sums: sums{radix: &x.radix, text: text}}
	s.search()
	return s.all()
}

// FindSqueezed is Find for a text without its gaps (see detect.Gap), whose positions are
// given in order. Values are found without their gaps. Those of less than 8 bytes, and
// numbers of less than 11 digits, are only found between borders. Each gap is one, and each
// end of another value, so that all values of a concatenation are found.
func (x *Index) FindSqueezed(text string, gaps []int) []detect.Finding {
	x.mu.RLock()
	gapless := x.gapless
	x.mu.RUnlock()
	var all search
	for _, x := range []*Index{x, gapless} {
		if x != nil {
			s := search{x: x, text: text, squeezed: true, gaps: gaps, sums: sums{radix: &x.radix, text: text}}
			s.search()
			all.found, all.near = append(all.found, s.found...), append(all.near, s.near...)
		}
	}
	return all.all()
}

// section is the number of bytes searched before Add may proceed.
const section = 64 << 10

// search is one search of a text.
type search struct {
	x        *Index
	text     string
	squeezed bool
	gaps     []int
	sums     sums
	buf      []byte
	found    []detect.Finding
	near     []candidate
}

// candidate is an occurrence of a value that is only found between borders.
type candidate struct {
	detect.Finding
	begins, ends bool // whether its ends are borders
}

func (s *search) search() {
	for i := 0; i < len(s.text); i += section {
		s.section(i, min(len(s.text), i+section))
	}
}

func (s *search) all() []detect.Finding {
	s.addChains()
	return merged(s.found)
}

// section searches the positions from i to hi.
func (s *search) section(i, hi int) {
	x, text := s.x, s.text
	x.mu.RLock()
	defer x.mu.RUnlock()
	if x.order.Len() == 0 {
		return
	}
	for hi = min(hi, len(text)-minValue+1); i < hi; i++ {
		first := x.firsts[text[i]]
		if first == 0 {
			continue
		}
		if first&ofValue != 0 && i+minUnbound <= len(text) && x.windows.has(window(text[i:])) {
			s.longest(i)
		}
		if first&ofNumber != 0 {
			s.number(i)
		}
		if first&ofShort != 0 && !s.squeezed {
			s.short(i)
		}
	}
}

// addChains adds the candidates in chains that extend from border to border. An end of another
// value is a border.
func (s *search) addChains() {
	if len(s.near) == 0 {
		return
	}
	starts, ends := map[int]bool{}, map[int]bool{}
	for _, f := range s.found {
		starts[f.Start], ends[f.End] = true, true
	}
	slices.SortFunc(s.near, func(a, b candidate) int { return cmp.Compare(a.Start, b.Start) })
	for i := range s.near {
		c := &s.near[i]
		c.begins = c.begins || ends[c.Start]
		ends[c.End] = ends[c.End] || c.begins
	}
	slices.SortFunc(s.near, func(a, b candidate) int { return cmp.Compare(b.End, a.End) })
	for _, c := range s.near {
		if c.begins && (c.ends || starts[c.End]) {
			starts[c.Start] = true
			s.found = append(s.found, c.Finding)
		}
	}
}

// merged joins overlapping findings.
func merged(found []detect.Finding) []detect.Finding {
	slices.SortFunc(found, func(a, b detect.Finding) int {
		return cmp.Or(cmp.Compare(a.Start, b.Start), cmp.Compare(b.End, a.End), cmp.Compare(a.Type, b.Type))
	})
	all, longest := found[:0], 0
	for _, f := range found {
		size := f.End - f.Start
		if n := len(all); n > 0 && f.Start < all[n-1].End {
			last := &all[n-1]
			if last.End = max(last.End, f.End); size > longest {
				last.Type, longest = f.Type, size
			}
			continue
		}
		all, longest = append(all, f), size
	}
	return all
}

// add adds the occurrence of a value at i to found or near.
func (s *search) add(i, end int, v *value) {
	f := detect.Finding{Type: v.typ, Start: i, End: end, Score: 1}
	if !s.needsBorders(v) {
		s.found = append(s.found, f)
		return
	}
	switch begins, ends := s.borders(i, end, v); {
	case begins && ends:
		s.found = append(s.found, f)
	case s.squeezed || begins || ends:
		s.near = append(s.near, candidate{f, begins, ends})
	}
}

// borders reports whether the ends of a value are borders.
func (s *search) borders(i, end int, v *value) (begins, ends bool) {
	switch {
	case s.squeezed && v.digits > 0:
		return s.border(i), s.border(end)
	case len(v.form) < minUnbound: // such as "Ann_report.csv"; a short value has a capital letter
		return s.begins(i) || s.text[i-1] == '_', s.ends(end) || s.text[end] == '_'
	}
	return s.begins(i), s.ends(end)
}

// needsBorders reports whether a value is only found between borders.
func (s *search) needsBorders(v *value) bool {
	return v.needsBorders || s.squeezed && (len(v.form) < minUnboundSqueezed || v.digits > 0 && v.digits < minUnboundDigits)
}

// border reports whether a number may begin or end at i of a text without gaps.
func (s *search) border(i int) bool {
	return i == 0 || i == len(s.text) || class[s.text[i-1]] != digit || class[s.text[i]] != digit || s.gap(i)
}

// longest adds the longest value at i. If that is not bound, it covers all shorter ones.
func (s *search) longest(i int) {
	first := s.x.heads[window(s.text[i:])]
	if first == nil {
		return
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
			if v := s.valueAt(i, int(n)); v != nil {
				s.add(i, i+int(n), v)
				if !s.needsBorders(v) {
					return
				}
			}
		}
	}
}

// valueAt returns the value equal to text[i:i+n], or nil.
func (s *search) valueAt(i, n int) *value {
	if i+n > len(s.text) {
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

// short adds the values of less than 5 bytes at i.
func (s *search) short(i int) {
	for n := minUnbound - 1; n >= minValue; n-- {
		if i+n <= len(s.text) {
			if e := s.x.values[s.text[i:i+n]]; e != nil {
				s.add(i, i+n, e.Value.(*value))
			}
		}
	}
}

func (s *search) begins(i int) bool { return begins(s.text, i) || s.gap(i) }
func (s *search) ends(i int) bool   { return ends(s.text, i) || s.gap(i) }

func (s *search) gap(i int) bool {
	_, is := slices.BinarySearch(s.gaps, i)
	return is
}

// number adds the longest known number at i.
func (s *search) number(i int) {
	border := s.begins(i)
	var (
		n   number
		end int
		v   *value
	)
	for j := i; n.n < maxDigits; {
		n = n.with(s.text[j])
		j++
		if n.n == minDigits && !s.x.starts.has(n.digits) {
			return
		}
		if n.n >= minDigits {
			switch e := s.x.numbers[n]; {
			case e == nil:
			case s.squeezed && n.n < minUnboundDigits:
				v := e.Value.(*value)
				s.near = append(s.near, candidate{detect.Finding{Type: v.typ, Start: i, End: j, Score: 1}, s.border(i), s.border(j)})
			case s.squeezed || border || s.ends(j):
				end, v = j, e.Value.(*value)
			}
		}
		from := j
		for j < len(s.text) && j-from < maxGap && class[s.text[j]] == gap {
			j++
		}
		if j == len(s.text) || class[s.text[j]] != digit {
			break
		}
	}
	if v == nil {
		return
	}
	if i > 0 && s.text[i-1] == '(' && strings.Contains(s.text[i:end], ")") {
		i--
	}
	s.found = append(s.found, detect.Finding{Type: v.typ, Start: i, End: end, Score: 1})
}
