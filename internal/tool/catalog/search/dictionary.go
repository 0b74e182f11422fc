package search

import (
	"sync"

	"github.com/kljensen/snowball/english"
)

// dictionary maps words to terms.
type dictionary struct {
	word  map[string]int32 // words of docs -> term
	term  map[string]int32 // stems -> term
	stems []string         // by term
	typos func() *spelling // built for the first word that may be a typo
}

// stem removes the ending of a word.
func stem(word string) string { return english.Stem(word, false) }

// put returns the term of a word of a doc, and adds it if it is new.
func (d *dictionary) put(word string) int32 {
	if t, ok := d.word[word]; ok {
		return t
	}
	s := stem(word)
	t, ok := d.term[s]
	if !ok {
		t = int32(len(d.stems))
		d.term[s] = t
		d.stems = append(d.stems, s)
	}
	d.word[word] = t
	return t
}

// find returns the stem of a query word and its term, or -1 if no doc has the term.
func (d *dictionary) find(word string) (string, int32) {
	if t, ok := d.word[word]; ok {
		return d.stems[t], t
	}
	s := stem(word)
	if t, ok := d.term[s]; ok {
		return s, t
	}
	return s, -1
}

// joined returns the term of two words written as one, such as eventhub for "event
// hubs", or -1 if no doc has it.
func (d *dictionary) joined(first, second, secondStem string) int32 {
	if len(first)+len(second) < 5 {
		return -1
	}
	if t, ok := d.word[first+second]; ok {
		return t
	}
	if t, ok := d.term[first+secondStem]; ok {
		return t
	}
	return -1
}

// finish is called once all words are known.
func (d *dictionary) finish(r *ranking) {
	d.typos = sync.OnceValue(func() *spelling { return newSpelling(d.word, r) })
}

// correct returns the term of the word with the fewest differences, and of several
// the most frequent. It allows one difference, or two in a long word, and returns
// -1 if there is no such word.
func (d *dictionary) correct(w string) int32 {
	if len(w) < minTypoLen || len(w) > maxWordLen || !plain(w) {
		return -1
	}
	return d.typos().nearest(w)
}
