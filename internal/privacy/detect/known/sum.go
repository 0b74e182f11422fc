package known

import "math/bits"

// prime is the modulus of sums.
const prime = 1<<61 - 1

// radix computes rolling hashes: a text read as a number whose digits are its folded bytes.
// The base is random, so that collisions cannot be constructed.
type radix struct {
	base   uint64
	powers []uint64 // of the base, up to the longest value
}

func (r *radix) grow(n int) {
	for len(r.powers) <= n {
		r.powers = append(r.powers, times(r.powers[len(r.powers)-1], r.base))
	}
}

func (r *radix) sum(text string) uint64 {
	h := uint64(0)
	for i := range len(text) {
		h = r.more(h, text[i])
	}
	return h
}

func (r *radix) more(h uint64, b byte) uint64 {
	return reduced(times(h, r.base) + uint64(fold[b]) + 1)
}

func times(a, b uint64) uint64 {
	hi, lo := bits.Mul64(a, b)
	return reduced(lo&prime + (hi<<3 | lo>>61))
}

func reduced(h uint64) uint64 {
	if h >= prime {
		h -= prime
	}
	return h
}

// sums computes the sum of any part of a text with one multiplication, from the prefix sums
// of a section of the text.
type sums struct {
	radix *radix
	text  string
	from  int
	upTo  []uint64 // upTo[k] is the sum of text[from:from+k]
}

// keptSums limits the length of the section, in addition to the longest value.
const keptSums = 64 << 10

// of returns the sum of text[i:i+n]. i must not decrease between calls.
func (s *sums) of(i, n int) uint64 {
	if len(s.upTo) == 0 || i-s.from > keptSums || i-s.from >= len(s.upTo) {
		s.from, s.upTo = i, append(s.upTo[:0], 0)
	}
	for k := len(s.upTo); k <= i-s.from+n; k++ {
		s.upTo = append(s.upTo, s.radix.more(s.upTo[k-1], s.text[s.from+k-1]))
	}
	return reduced(s.upTo[i-s.from+n] + prime - times(s.upTo[i-s.from], s.radix.powers[n]))
}

// window returns the first bytes of a text as a number, roughly folded: bytes that differ in
// one bit may be equal.
func window(text string) uint64 {
	_ = text[minUnbound-1]
	w := uint64(text[0]) | uint64(text[1])<<8 | uint64(text[2])<<16 | uint64(text[3])<<24 | uint64(text[4])<<32
	return w | 0x2020202020
}

// level returns the length of a value's second head, as a power of two: more than half of the
// value.
func level(n int) int { return bits.Len(uint(n)) - 1 }

// key returns the key of the second head of form. Collisions cost time only.
func (x *Index) key(form string) uint64 {
	return levelKey(x.radix.sum(form[:1<<level(len(form))]), level(len(form)))
}

func levelKey(sum uint64, level int) uint64 { return sum<<3 ^ uint64(level) }

// bitmap is a Bloom filter with one hash: it reports whether a key may have been added.
type bitmap struct {
	words []uint64
	shift int
}

// newBitmap returns a bitmap with 16 to 32 bits for each key, up to 1 MB.
func newBitmap(keys int) bitmap {
	size := min(max(10, bits.Len(uint(max(0, keys)))+4), 23)
	return bitmap{make([]uint64, 1<<(size-6)), 64 - size}
}

func (b *bitmap) add(key uint64) {
	h := key * 0x9E3779B97F4A7C15 >> b.shift
	b.words[h>>6] |= 1 << (h & 63)
}

func (b *bitmap) has(key uint64) bool {
	h := key * 0x9E3779B97F4A7C15 >> b.shift
	return b.words[h>>6]&(1<<(h&63)) != 0
}
