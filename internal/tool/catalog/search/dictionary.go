package search

import "github.com/kljensen/snowball/english"

// dictionary gives words their terms.
type dictionary struct {
	word  map[string]int32 // words as they stand in docs -> term
	term  map[string]int32 // stems -> term
	stems []string         // by term
	typos spelling
}

// stem is the term of words that differ in their endings only.
func stem(word string) string { return english.Stem(word, false) }

// put gives the term of a word of a doc.
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

// find gives the stem of a word of a query, and its term; -1 if no doc has it.
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

// joined gives the term that docs write as one word, as eventhub for event hubs;
// -1 if none does.
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

// finish learns the spelling of all words, once they are known.
func (d *dictionary) finish(r *ranking) { d.typos = newSpelling(d.word, r) }
