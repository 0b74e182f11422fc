package known

import (
	"cmp"
	"container/list"
	"math/bits"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/sandpiper-mcp/sandpiper/internal/privacy/detect"
)

// Find returns the occurrences of values in text, in order, without overlaps. Overlapping
// occurrences become one finding, of the type of the longest. Letter case is ignored,
// except in a value that is one word of letters and no part of a file name, URL or identifier. A number is found with other separators
// too, such as those of thousands, and not inside a longer number.
func (x *Index) Find(text string) []detect.Finding {
	s := search{x: x, text: text, sums: sums{radix: &x.radix, text: text}}
	s.search()
	return s.all()
}

// FindSqueezed is Find for a text without its gaps (see detect.Gap), whose positions are
// given in order. Values are found without their gaps. Those of less than 8 bytes and numbers
// are only found between borders. Each gap is one, and each end of another value, so that all
// values of a concatenation are found.
func (x *Index) FindSqueezed(text string, gaps []int) []detect.Finding {
	s := search{x: x, text: text, squeezed: true, gaps: gaps, sums: sums{radix: &x.radix, text: text}}
	s.search()
	searchGapless(&s)
	return s.all()
}

// FindJoined is FindSqueezed for values of several words only. A capital after a small letter is a gap too.
func (x *Index) FindJoined(text string, gaps []int) []detect.Finding {
	s := search{x: x, text: text, squeezed: true, gaps: gaps, humps: true}
	searchGapless(&s)
	return s.all()
}

// HasJoined reports whether FindJoined may find a value.
func (x *Index) HasJoined() bool {
	x.mu.RLock()
	defer x.mu.RUnlock()
	return x.gapless != nil
}

// searchGapless searches the values with gaps.
func searchGapless(s *search) {
	s.x.mu.RLock()
	x := s.x.gapless
	s.x.mu.RUnlock()
	if x != nil {
		s.x, s.sums = x, sums{radix: &x.radix, text: s.text}
		s.search()
	}
}

// section is the number of bytes searched before Add may proceed.
const section = 64 << 10

// search is one search of a text.
type search struct {
	x        *Index
	text     string
	squeezed bool
	humps    bool // a capital after a small letter is a gap
	gaps     []int
	sums     sums
	buf      []byte
	found    []detect.Finding
	near     []candidate
	numbers  int // candidates in near that are numbers
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
// value is a border, also with one character between.
func (s *search) addChains() {
	if len(s.near) == 0 {
		return
	}
	starts, ends := newPositions(s.text), newPositions(s.text)
	for _, f := range s.found {
		starts.add(f.Start)
		ends.add(f.End)
	}
	slices.SortFunc(s.near, func(a, b candidate) int { return cmp.Compare(a.Start, b.Start) })
	for i := range s.near {
		c := &s.near[i]
		if c.begins = c.begins || ends.has(c.Start) || c.Start > 0 && ends.has(c.Start-1); c.begins {
			ends.add(c.End)
		}
	}
	slices.SortFunc(s.near, func(a, b candidate) int { return cmp.Compare(b.End, a.End) })
	for _, c := range s.near {
		if c.begins && (c.ends || starts.has(c.End) || starts.has(c.End+1)) {
			starts.add(c.Start)
			s.found = append(s.found, c.Finding)
		}
	}
}

// positions is a set of positions in a text.
type positions []uint64

func newPositions(text string) positions { return make(positions, len(text)/64+1) }

func (p positions) add(i int) { p[i/64] |= 1 << (i % 64) }

func (p positions) has(i int) bool { return i/64 < len(p) && p[i/64]&(1<<(i%64)) != 0 }

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
	if !s.needsBorders(v) || v.slug && !s.squeezed && inSlug(s.text, i, end) {
		s.found = append(s.found, f)
		return
	}
	if v.slugOnly {
		return
	}
	switch begins, ends := s.borders(i, end, v); {
	case begins && ends:
		s.found = append(s.found, f)
	case v.digits > 0:
		addNear(s, candidate{f, begins, ends})
	case s.squeezed || begins || ends:
		s.near = append(s.near, candidate{f, begins, ends})
	}
}

// maxNear limits the numbers within longer ones that are kept. Only text made for it has more:
// these are taken for values.
const maxNear = 1 << 16

// addNear adds a number that is a part of a longer one, unless that consists of values.
func addNear(s *search, c candidate) {
	if s.numbers++; s.numbers <= maxNear {
		s.near = append(s.near, c)
		return
	}
	if n := len(s.found); n > 0 && c.Start >= s.found[n-1].Start && c.Start < s.found[n-1].End {
		s.found[n-1].End = max(s.found[n-1].End, c.End)
		return
	}
	s.found = append(s.found, c.Finding)
}

// borders reports whether the ends of a value are borders.
func (s *search) borders(i, end int, v *value) (begins, ends bool) {
	switch {
	case v.plain || s.squeezed && v.digits > 0:
		return s.border(i), s.border(end)
	case len(v.form) < minUnbound: // such as "Ann_report.csv"; a short value has a capital letter
		return s.begins(i) || s.text[i-1] == '_', s.ends(end) || s.text[end] == '_'
	}
	return s.begins(i), s.ends(end)
}

// needsBorders reports whether a value is only found between borders.
func (s *search) needsBorders(v *value) bool {
	return v.needsBorders || v.slugOnly || v.plain || s.squeezed && (len(v.form) < minUnboundSqueezed || v.digits > 0)
}

// border reports whether a number may begin or end at i: no digit continues it, except zeros
// before it.
func (s *search) border(i int) bool {
	if i == 0 || i == len(s.text) || class[s.text[i-1]] != digit || class[s.text[i]] != digit || s.gap(i) {
		return true
	}
	k := i
	for k > 0 && i-k < maxZeros && s.text[k-1] == '0' {
		k--
	}
	return k < i && (k == 0 || class[s.text[k-1]] != digit || s.gap(k))
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
	capital := s.text[i]-'A' < 26
	if !capital && i > 0 && class[s.text[i-1]]&alnum != 0 {
		return
	}
	for n := minUnbound - 1; n >= minValue; n-- {
		if i+n <= len(s.text) && (capital || s.besideJoint(i, i+n)) {
			if e := s.shortAt(i, i+n); e != nil {
				s.add(i, i+n, e.Value.(*value))
			}
		}
	}
}

// shortAt returns the value that is text[i:end], in any letter case within a slug.
func (s *search) shortAt(i, end int) *list.Element {
	e := s.x.values[s.text[i:end]]
	if e == nil && s.besideJoint(i, end) {
		s.buf = folded(s.buf[:0], s.text[i:end])
		e = s.x.values[string(s.buf)]
	}
	return e
}

// besideJoint reports whether a character that joins words, or is no ASCII, is next to text[i:end].
func (s *search) besideJoint(i, end int) bool {
	return s.text[i] >= utf8.RuneSelf || i > 0 && joins(s.text[i-1]) || end < len(s.text) && joins(s.text[end])
}

func (s *search) begins(i int) bool { return begins(s.text, i) || s.gap(i) }
func (s *search) ends(i int) bool   { return ends(s.text, i) || s.gap(i) }

func (s *search) gap(i int) bool {
	_, is := slices.BinarySearch(s.gaps, i)
	return is || s.humps && isHump(s.text, i)
}

// number adds the known numbers at i. Letters on both sides exclude them: they are hexadecimal
// digits or parts of an identifier.
func (s *search) number(i int) {
	var (
		n       number
		groups  grouping
		longest candidate
	)
	for j := i; n.n < maxDigits; {
		n = n.with(s.text[j])
		j++
		if n.n == minDigits && !s.x.starts.has(n.digits) {
			return
		}
		if n.n >= minDigits {
			switch c, ok := numberAt(s, n, &groups, i, j); {
			case ok && c.begins && c.ends:
				longest = c
			case ok:
				addNear(s, c)
			}
		}
		if j < len(s.text) && class[s.text[j]] == digit {
			continue
		}
		if j = groups.next(s.text, i, j); j < 0 {
			break
		}
	}
	if longest.End == 0 {
		return
	}
	if i > 0 && s.text[i-1] == '(' && strings.Contains(s.text[i:longest.End], ")") {
		longest.Start--
	}
	s.found = append(s.found, longest.Finding)
}

// numberAt returns the occurrence of a number in text[i:j].
func numberAt(s *search, n number, g *grouping, i, j int) (c candidate, ok bool) {
	e := s.x.numbers[n]
	if e == nil || !s.squeezed && (!g.whole(s.text, i, j) || !s.begins(i) && !s.ends(j)) {
		return c, false
	}
	return candidate{detect.Finding{Type: e.Value.(*value).typ, Start: i, End: j, Score: 1}, s.border(i), s.border(j)}, true
}
