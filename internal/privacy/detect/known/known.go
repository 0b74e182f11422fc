// Package known finds known values in text. An Index holds the values; Find searches for
// all of them in one pass, and FindSqueezed in a text without blanks.
//
// Terms: a value is folded if letter case is ignored; its head is its first bytes, the key
// of the search; a border is a position where a value may begin or end, because the
// adjacent character does not continue it.
//
// An Index is safe for concurrent use. A value added while Find runs may or may not be
// found. Find visits each position a bounded number of times, for any text and values.
//
// The package does not decide what is personal, does not find encoded values (see package
// encoded) and does no I/O.
package known

import (
	"container/list"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"unicode"
	"unicode/utf8"

	"golang.org/x/text/unicode/norm"

	"github.com/sandpiper-mcp/sandpiper/internal/privacy/detect"
)

const (
	minValue           = 2        // bytes of the shortest value
	minUnbound         = 5        // bytes of the shortest value found within words: shorter ones occur by chance
	minUnboundSqueezed = 8        // the same in a text without gaps
	longest            = 16 << 10 // bytes of the longest value, such as a private key
	maxSlug            = 128      // bytes of the longest value that is found as a slug
)

// Index holds values. Each takes about 310 bytes in addition to its text, twice if it is
// a word or has gaps, and 6 to 12 bytes are allocated for each possible value.
type Index struct {
	mu      sync.RWMutex
	most    int
	values  map[string]*list.Element // by form
	order   *list.List               // of *value, the most recently added first
	numbers map[number]*list.Element // the most recently added value of each number
	heads   map[uint64]*head
	whole   map[uint64]int // number of values with the sum
	radix   radix

	firsts  [256]uint8 // by first byte: flags of the values, to skip most positions
	windows bitmap     // of heads, for the same purpose
	starts  bitmap     // of numbers, for the same purpose
	sums    bitmap     // of whole values, checked before the map
	stale   int        // dropped values that are still in heads and bitmaps
	gapless *Index     // the values with gaps, without their gaps; nil if there are none
}

// Flags of the values that begin with a byte.
const (
	ofValue = 1 << iota
	ofNumber
	ofShort // value of less than 5 bytes
)

type value struct {
	typ          detect.Type
	form         string // folded, unless letter case matters
	sum          uint64
	needsBorders bool // only found between borders
	slug         bool // one word, also found as a word of a slug
	slugOnly     bool // only found so
	digits       int  // of a number, or 0
	plain        bool // it is a number without separators
}

// head is a common prefix of values: their first bytes, and for values of eight bytes or
// more also the longest prefix whose length is a power of two.
type head struct {
	uses    int
	levels  uint32   // of the values: bit k means a common prefix of 1<<k bytes
	lengths []uint16 // of values, the longest first, at their last level
}

// maxLengths limits the lengths that are tried for one head. Below 64 bytes there are no
// more; beyond, only an index filled on purpose has that many values with a common half.
const maxLengths = 32

// New returns an Index of at most that many values. When it is full, Add removes the least
// recently added value.
func New(most int) *Index {
	return &Index{
		most: most, order: list.New(),
		values: map[string]*list.Element{}, numbers: map[number]*list.Element{}, heads: map[uint64]*head{}, whole: map[uint64]int{},
		radix:   radix{base: rand.Uint64N(prime-1000) + 500, powers: []uint64{1}},
		windows: newBitmap(most), starts: newBitmap(most), sums: newBitmap(most),
	}
}

// Len returns the number of values.
func (x *Index) Len() int {
	x.mu.RLock()
	defer x.mu.RUnlock()
	return x.order.Len()
}

// Add adds a value. Values of 5 bytes or more are found anywhere. Shorter ones, words
// without a capital and numbers are only found between borders, so that "Ann" is not found in
// "Annual". Ignored are values of less than 2 bytes or more than
// 16 KB, short ones without a capital letter, and invalid UTF-8. A value that is already
// known keeps its type.
func (x *Index) Add(t detect.Type, text string) {
	form, needsBorders, ok := formOf(text)
	if !ok || x.most <= 0 {
		return
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	x.add(t, form, needsBorders)
	if !isASCII(text) && !norm.NFC.IsNormalString(text) {
		text = norm.NFC.String(text)
		x.add(t, string(folded(nil, text)), false)
	}
	x.addWord(t, text)
	squeezed := detect.Squeeze(text)
	if squeezed == text {
		return
	}
	if len(squeezed) < minUnbound {
		x.addShortSlugs(t, text)
		return
	}
	for _, other := range cases(text) {
		x.add(t, string(folded(nil, other)), false)
	}
	if x.gapless == nil {
		x.gapless = New(x.most)
	}
	x.gapless.mu.Lock()
	defer x.gapless.mu.Unlock()
	for _, form := range gaplessForms(squeezed) {
		x.gapless.add(t, form, false)
	}
}

// cases returns a text with letters outside of ASCII in other cases, which folding does not
// change.
func cases(text string) (others []string) {
	if isASCII(text) {
		return nil
	}
	for _, other := range []string{strings.ToLower(text), strings.ToUpper(text)} {
		if other != text && len(other) <= longest {
			others = append(others, other)
		}
	}
	return others
}

// gaplessForms returns the forms of a value of several words without its gaps: as it is, without
// punctuation, and as slugs have it, without the marks of letters.
func gaplessForms(squeezed string) (forms []string) {
	add := func(form string) {
		if form = string(folded(nil, form)); len(form) >= minUnbound && !slices.Contains(forms, form) {
			forms = append(forms, form)
		}
	}
	if add(squeezed); len(squeezed) > maxSlug {
		return forms
	}
	letters := strings.Map(func(r rune) rune {
		if unicode.In(r, unicode.L, unicode.M, unicode.N) {
			return r
		}
		return -1
	}, squeezed)
	if strings.Trim(letters, "0123456789") == "" {
		return forms
	}
	add(letters)
	for _, other := range cases(letters) {
		add(other)
	}
	add(unmarked(letters))
	return forms
}

func isASCII(text string) bool {
	return !strings.ContainsFunc(text, func(r rune) bool { return r >= utf8.RuneSelf })
}

func (x *Index) add(t detect.Type, form string, needsBorders bool) {
	e := x.values[form]
	if e == nil {
		v := &value{typ: t, form: form, needsBorders: needsBorders}
		if n, ok := numberOf(form); ok {
			v.digits, v.plain = n.n, n.n == len(form)
		}
		if e = x.put(v); e == nil {
			return
		}
	}
	x.order.MoveToFront(e)
	if v := e.Value.(*value); v.slugOnly {
		v.slugOnly, v.needsBorders = false, needsBorders
	}
	for _, n := range numbersOf(form) {
		x.numbers[n] = e
	}
}

// CanHold reports whether Add does not ignore a value.
func CanHold(text string) bool {
	_, _, ok := formOf(text)
	return ok
}

// formOf returns the form by which a value is compared, and whether it is only found
// between borders.
func formOf(text string) (form string, needsBorders, ok bool) {
	if len(text) < minValue || len(text) > longest || !utf8.ValidString(text) {
		return "", false, false
	}
	capital := strings.ContainsFunc(text, unicode.IsUpper)
	switch {
	case len(text) < minUnbound:
		return strings.Clone(text), true, capital
	case isWord(text):
		return strings.Clone(text), !capital, true
	}
	return string(folded(nil, text)), len(text) < minDigits && strings.Trim(text, "0123456789") == "", true
}

// put returns nil if the head has too many lengths.
func (x *Index) put(v *value) *list.Element {
	x.radix.grow(len(v.form))
	v.sum = x.radix.sum(v.form)
	if len(v.form) < minUnbound {
		return x.insert(v)
	}
	if h := x.heads[x.key(v.form)]; h != nil && len(h.lengths) == maxLengths && !slices.Contains(h.lengths, uint16(len(v.form))) {
		return nil
	}
	return x.insert(v)
}

// MaxForms is the largest number of forms of one value that an index holds.
const MaxForms = 6

// insert inserts a value, and drops the oldest if the index is full.
func (x *Index) insert(v *value) *list.Element {
	for x.order.Len() >= x.most {
		x.drop(x.order.Back())
	}
	x.whole[v.sum]++
	x.indexValue(v)
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
	i, found := slices.BinarySearchFunc(h.lengths, n, func(l uint16, n int) int { return n - int(l) })
	if !found {
		h.lengths = slices.Insert(h.lengths, i, uint16(n))
	}
}

// indexValue adds a value to the heads and bitmaps.
func (x *Index) indexValue(v *value) {
	if len(v.form) < minUnbound {
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
	for _, n := range numbersOf(v.form) {
		x.starts.add(n.start())
		x.firsts[n.first()] |= ofNumber
	}
}

func (x *Index) drop(e *list.Element) {
	v := x.order.Remove(e).(*value)
	delete(x.values, v.form)
	for _, n := range numbersOf(v.form) {
		if x.numbers[n] == e {
			delete(x.numbers, n)
		}
	}
	if x.whole[v.sum]--; x.whole[v.sum] == 0 {
		delete(x.whole, v.sum)
	}
	if len(v.form) < minUnbound {
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
		x.rebuild()
	}
}

// rebuild rebuilds heads and bitmaps without the dropped values.
func (x *Index) rebuild() {
	clear(x.heads)
	clear(x.windows.words)
	clear(x.starts.words)
	clear(x.sums.words)
	x.stale = 0
	for e := x.order.Front(); e != nil; e = e.Next() {
		x.indexValue(e.Value.(*value))
	}
}
