// Package known finds values that are known, wherever they stand in a text. An
// Index holds them; Add puts one in, Find looks for all of them at once, and
// FindSqueezed does in a text without blanks.
//
// The words: a value is folded if its capitals do not count; its head is its
// first bytes, by which it is looked for; a border is a place where a value may
// begin or end, since what stands beside it does not go on with it.
//
// An Index is safe for concurrent use. What is added while Find runs may or may
// not be found. Find looks at each place a bounded number of times, whatever the
// text and the values are.
//
// The package decides nothing about what is personal, knows no values that are
// encoded (see disguise) and does no I/O.
package known

import (
	"container/list"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"unicode"
	"unicode/utf8"

	"github.com/sandpiper-mcp/sandpiper/internal/privacy/detect"
)

const (
	shortest      = 2        // bytes of the shortest value that is held
	least         = 5        // of the shortest that is found within words: shorter ones are part of anything
	leastSqueezed = 8        // of the shortest that is found within words of a text without gaps
	longest       = 16 << 10 // of the longest, as of a private key
)

// Index holds values. Each takes about 310 bytes beside its own, twice if it has gaps, and
// 6 to 12 bytes are taken for each that there may be.
type Index struct {
	mu      sync.RWMutex
	most    int
	values  map[string]*list.Element // by what is compared
	order   *list.List               // of *value; what was added last is first
	numbers map[number]*list.Element // of values that are numbers the one that was added last
	heads   map[uint64]*head
	whole   map[uint64]int // how many values have the sum
	radix   radix

	firsts  [256]uint8 // what begins with a byte, so that most places are passed over
	windows bitmap     // of heads, likewise
	starts  bitmap     // of numbers, likewise
	sums    bitmap     // of whole values, before a map is asked
	stale   int        // values that were dropped, of which heads and bitmaps know still
	gapless *Index     // values that have gaps, without them; nil while there is none
}

// What can begin with a byte.
const (
	ofValue = 1 << iota
	ofNumber
	ofShort // value of less than 5 bytes
)

type value struct {
	typ    detect.Type
	form   string // folded, unless its capitals count
	sum    uint64
	bound  bool // found between borders only
	number bool
}

// head is a beginning that values have in common: of all the first bytes, and of
// those from eight bytes on also as many more of them as are a power of two.
type head struct {
	uses    int
	levels  uint32   // of values that begin so: bit k is 1<<k bytes in common
	lengths []uint16 // of values, the longest first, at the last level they have
}

// maxLengths bounds how many lengths are tried behind one beginning. Below 64
// bytes there are no more; beyond, who has as many values that agree in half of
// their bytes has filled an index on purpose.
const maxLengths = 32

// New returns an Index that holds at most so many values. What is added beyond
// them pushes out what was added, or added again, longest ago.
func New(most int) *Index {
	return &Index{
		most: most, order: list.New(),
		values: map[string]*list.Element{}, numbers: map[number]*list.Element{}, heads: map[uint64]*head{}, whole: map[uint64]int{},
		radix:   radix{base: rand.Uint64N(prime-1000) + 500, powers: []uint64{1}},
		windows: newBitmap(most), starts: newBitmap(most), sums: newBitmap(most),
	}
}

// Len returns how many values are held.
func (x *Index) Len() int {
	x.mu.RLock()
	defer x.mu.RUnlock()
	return x.order.Len()
}

// Add makes a value known. Values of 5 bytes or more are found wherever they stand.
// Shorter ones, words without a capital and numbers of less than 7 digits are found
// between borders only, so that "Ann" is not found in "Annual". Not held are values of less than 2 bytes or more
// than 16 KB, short ones without a capital letter, and what is no UTF-8. A value that
// is known keeps the type it came with.
func (x *Index) Add(t detect.Type, text string) {
	form, bound, ok := formed(text)
	if !ok || x.most <= 0 {
		return
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	x.add(t, form, bound)
	if squeezed := detect.Squeeze(text); len(squeezed) >= least && squeezed != text {
		if x.gapless == nil {
			x.gapless = New(x.most)
		}
		x.gapless.mu.Lock()
		defer x.gapless.mu.Unlock()
		x.gapless.add(t, string(folded(nil, squeezed)), false)
	}
}

func (x *Index) add(t detect.Type, form string, bound bool) {
	e := x.values[form]
	if e == nil {
		_, number := numberOf(form)
		if e = x.put(&value{typ: t, form: form, bound: bound, number: number}); e == nil {
			return
		}
	}
	x.order.MoveToFront(e)
	if n, ok := numberOf(form); ok {
		x.numbers[n] = e
	}
}

// formed returns what a value is compared by, and whether it is bound.
func formed(text string) (form string, bound, ok bool) {
	if len(text) < shortest || len(text) > longest || !utf8.ValidString(text) {
		return "", false, false
	}
	capital := strings.ContainsFunc(text, unicode.IsUpper)
	word := !strings.ContainsFunc(text, func(r rune) bool { return !unicode.IsLetter(r) })
	switch {
	case len(text) < least:
		return strings.Clone(text), true, capital
	case word:
		return strings.Clone(text), !capital, true
	}
	return string(folded(nil, text)), len(text) < leastDigits && strings.Trim(text, "0123456789") == "", true
}

// put returns nil if there is no room for another length.
func (x *Index) put(v *value) *list.Element {
	x.radix.grow(len(v.form))
	v.sum = x.radix.sum(v.form)
	if len(v.form) < least {
		return x.hold(v)
	}
	if h := x.heads[x.key(v.form)]; h != nil && len(h.lengths) == maxLengths && !slices.Contains(h.lengths, uint16(len(v.form))) {
		return nil
	}
	return x.hold(v)
}

// hold makes room for a value.
func (x *Index) hold(v *value) *list.Element {
	for x.order.Len() >= x.most {
		x.drop(x.order.Back())
	}
	x.whole[v.sum]++
	x.place(v)
	e := x.order.PushFront(v)
	x.values[v.form] = e
	return e
}

func (x *Index) headOf(key uint64) *head {
	h := x.heads[key]
	if h == nil {
		h = &head{}
		x.heads[key] = h
	}
	return h
}

// add keeps lengths sorted.
func (h *head) add(n int) {
	i, held := slices.BinarySearchFunc(h.lengths, n, func(l uint16, n int) int { return n - int(l) })
	if !held {
		h.lengths = slices.Insert(h.lengths, i, uint16(n))
	}
}

// place puts a value where its beginning is looked for.
func (x *Index) place(v *value) {
	if len(v.form) < least {
		x.firsts[v.form[0]] |= ofShort
		return
	}
	first, last := x.headOf(window(v.form)), x.headOf(x.key(v.form))
	first.uses++
	first.levels |= 1 << level(len(v.form))
	last.uses++
	last.add(len(v.form))
	x.firsts[v.form[0]] |= ofValue
	if c := v.form[0]; c >= 'a' && c <= 'z' {
		x.firsts[c&^0x20] |= ofValue
	}
	x.windows.add(window(v.form))
	x.sums.add(v.sum)
	if n, ok := numberOf(v.form); ok {
		x.starts.add(n.start())
		x.firsts[v.form[strings.IndexAny(v.form, "0123456789")]] |= ofNumber
	}
}

func (x *Index) drop(e *list.Element) {
	v := x.order.Remove(e).(*value)
	delete(x.values, v.form)
	if n, ok := numberOf(v.form); ok && x.numbers[n] == e {
		delete(x.numbers, n)
	}
	if x.whole[v.sum]--; x.whole[v.sum] == 0 {
		delete(x.whole, v.sum)
	}
	if len(v.form) < least {
		return
	}
	for _, key := range []uint64{window(v.form), x.key(v.form)} {
		if h := x.heads[key]; h.uses == 1 {
			delete(x.heads, key)
		} else {
			h.uses--
		}
	}
	if x.stale++; x.stale > x.most {
		x.replace()
	}
}

// replace places all values anew, so that what is gone costs nothing for ever.
func (x *Index) replace() {
	clear(x.heads)
	clear(x.windows.words)
	clear(x.starts.words)
	clear(x.sums.words)
	x.stale = 0
	for e := x.order.Front(); e != nil; e = e.Next() {
		x.place(e.Value.(*value))
	}
}
