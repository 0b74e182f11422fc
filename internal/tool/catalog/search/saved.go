package search

import (
	"encoding/binary"
	"errors"
	"maps"
	"slices"
	"strings"
	"sync"
)

// Encode returns an index of New in the form that Decode reads. Only the same program can decode it: the
// weights and the lexicon are not part of it, and what it has of the texts is how this program reads them.
func Encode(x *Index) []byte {
	e := &encoder{}
	e.texts(x.names)
	e.texts(x.categories)
	words := slices.Sorted(maps.Keys(x.word))
	e.texts(words)
	terms := make([]int32, len(words))
	for i, w := range words {
		terms[i] = x.word[w]
	}
	e.ints(terms)
	e.texts(x.stems)
	e.postings(x.docs)
	e.postings(x.servers)
	e.ints(x.server)
	e.features(x.features)
	e.texts(x.containment.texts)
	e.text(x.runs)
	e.lists(x.runDocs)
	return e.b
}

// Decode returns the index that Encode was given. b must be complete and unchanged, which the caller
// verifies by a checksum.
func Decode(b []byte) (*Index, error) {
	x, d := &Index{weights: defaultWeights}, &decoder{b: b}
	x.names, x.categories = d.texts(), d.texts()
	words, terms := d.texts(), d.ints()
	x.stems = d.texts()
	x.docs, x.servers = d.postings(), d.postings()
	x.server, x.features = d.ints(), d.features()
	x.containment.texts, x.runs, x.runDocs = d.texts(), d.text(), d.lists()
	n := len(x.names)
	if d.wrong || len(d.b) > 0 || len(x.categories) != n || len(x.server) != n || len(x.features) != n || len(x.containment.texts) != n ||
		len(words) != len(terms) || len(x.docs.of) != len(x.stems) || len(x.servers.of) != len(x.stems) {
		return nil, errNotIndex
	}
	var beside sync.WaitGroup
	beside.Go(x.containment.indexRuns)
	beside.Go(func() { loadLexicon() }) // for the first query, as New does
	x.word, x.term = make(map[string]int32, len(words)), make(map[string]int32, len(x.stems))
	for i, w := range words {
		x.word[w] = terms[i]
	}
	for t, s := range x.stems {
		x.term[s] = int32(t)
	}
	for _, s := range x.server {
		x.serverCount = max(x.serverCount, int(s)+1)
	}
	beside.Wait()
	if len(x.starts) != len(x.runDocs) {
		return nil, errNotIndex
	}
	x.finish()
	return x, nil
}

var errNotIndex = errors.New("this is not a search index of this program")

// indexRuns sets what follows from the runs.
func (c *containment) indexRuns() {
	c.byRun, c.starts = make(map[string]int, len(c.runDocs)), make([]int, 0, len(c.runDocs))
	at := 1
	for run := range strings.Lines(strings.TrimPrefix(c.runs, "\n")) {
		c.byRun[strings.TrimSuffix(run, "\n")] = len(c.starts)
		c.starts = append(c.starts, at)
		at += len(run)
	}
}

// encoder appends lists of numbers and texts, each after its length.
type encoder struct{ b []byte }

func (e *encoder) ints(all []int32) { e.numbers(len(all), all) }

func (e *encoder) floats(all []float32) { e.numbers(len(all), all) }

func (e *encoder) numbers(n int, all any) {
	e.b = binary.LittleEndian.AppendUint32(e.b, uint32(n))
	b, err := binary.Append(e.b, binary.LittleEndian, all)
	if err != nil { // numbers of a fixed size only
		panic(err)
	}
	e.b = b
}

func (e *encoder) text(s string) {
	e.b = append(binary.LittleEndian.AppendUint32(e.b, uint32(len(s))), s...)
}

func (e *encoder) texts(all []string) {
	sizes := make([]int32, len(all))
	for i, s := range all {
		sizes[i] = int32(len(s))
	}
	e.ints(sizes)
	e.text(strings.Join(all, ""))
}

func (e *encoder) lists(all [][]int32) {
	sizes := make([]int32, len(all))
	for i, l := range all {
		sizes[i] = int32(len(l))
	}
	e.ints(sizes)
	e.ints(slices.Concat(all...))
}

func (e *encoder) postings(p postings) {
	sizes := make([]int32, len(p.of))
	var ids []int32
	var impacts []float32
	for t, of := range p.of {
		sizes[t] = int32(len(of))
		for _, one := range of {
			ids, impacts = append(ids, one.id), append(impacts, one.impact)
		}
	}
	e.ints(sizes)
	e.ints(ids)
	e.floats(impacts)
	e.floats(p.idf)
}

func (e *encoder) features(all []docFeatures) {
	n := len(all)
	names, openings, weights, actions := make([][]int32, n), make([][]int32, n), make([]float32, n), make([]int32, n)
	for i, f := range all {
		names[i], openings[i], weights[i], actions[i] = f.name, f.opening, f.weight, int32(f.action)
	}
	e.lists(names)
	e.lists(openings)
	e.floats(weights)
	e.ints(actions)
}

// decoder reads what encoder appended.
type decoder struct {
	b     []byte
	wrong bool // lengths do not fit: everything read is empty from then on
}

// take returns the next bytes.
func (d *decoder) take(n int) []byte {
	if n > len(d.b) {
		d.wrong = true
	}
	if d.wrong {
		return nil
	}
	b := d.b[:n]
	d.b = d.b[n:]
	return b
}

// size reads the length of a list of elements of some bytes each.
func (d *decoder) size(each int) int {
	b := d.take(4)
	if b == nil {
		return 0
	}
	n := int(binary.LittleEndian.Uint32(b))
	if n > len(d.b)/each {
		d.wrong = true
		return 0
	}
	return n
}

func (d *decoder) ints() []int32 {
	all := make([]int32, d.size(4))
	d.numbers(len(all), all)
	return all
}

func (d *decoder) floats() []float32 {
	all := make([]float32, d.size(4))
	d.numbers(len(all), all)
	return all
}

func (d *decoder) numbers(n int, all any) {
	if _, err := binary.Decode(d.take(4*n), binary.LittleEndian, all); err != nil {
		d.wrong = true
	}
}

func (d *decoder) text() string { return string(d.take(d.size(1))) }

func (d *decoder) texts() []string {
	return cut(d, d.ints(), d.text(), func(s string, from, to int) string { return s[from:to] })
}

func (d *decoder) lists() [][]int32 {
	return cut(d, d.ints(), d.ints(), func(s []int32, from, to int) []int32 { return s[from:to:to] })
}

// cut cuts a whole into parts of these sizes.
func cut[T interface {
	~string | ~[]int32 | ~[]posting
}](d *decoder, sizes []int32, whole T, part func(whole T, from, to int) T) []T {
	all, at := make([]T, len(sizes)), 0
	for i, n := range sizes {
		if n < 0 || int(n) > len(whole)-at {
			d.wrong = true
			return nil
		}
		all[i] = part(whole, at, at+int(n))
		at += int(n)
	}
	return all
}

func (d *decoder) postings() (p postings) {
	sizes, ids, impacts := d.ints(), d.ints(), d.floats()
	if p.idf = d.floats(); len(ids) != len(impacts) || len(p.idf) != len(sizes) {
		d.wrong = true
		return postings{}
	}
	all := make([]posting, len(ids))
	for i, id := range ids {
		all[i] = posting{id, impacts[i]}
	}
	p.of = cut(d, sizes, all, func(s []posting, from, to int) []posting { return s[from:to:to] })
	return p
}

func (d *decoder) features() []docFeatures {
	names, openings, weights, actions := d.lists(), d.lists(), d.floats(), d.ints()
	if n := len(names); len(openings) != n || len(weights) != n || len(actions) != n {
		d.wrong = true
		return nil
	}
	all := make([]docFeatures, len(names))
	for i := range all {
		all[i] = docFeatures{names[i], weights[i], openings[i], action(actions[i])}
	}
	return all
}
