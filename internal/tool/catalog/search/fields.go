package search

import (
	"iter"
	"slices"
	"strings"
)

// The fields of a doc.
const (
	nameField = iota
	serverField
	firstField // the first sentence of the description, usually a summary
	restField
	paramsField
	aboutField // the server's description, and the category
	usesField
	fields
)

// fieldNorm is the length normalisation of each field (b of BM25F), from 0 to 1.
var fieldNorm = [fields]float64{.4, .4, .4, restField: .7, .4, .4, .4}

const (
	joinCount     = .35 // of two adjacent words of a name, joined
	compoundCount = .7  // of a word inside another
	stopCount     = .5  // of a stop word in the length of a field
)

// bag lists the distinct terms of one doc with their count in each field.
type bag []count

type count struct {
	term int32
	in   [fields]float32
}

// builder counts the words of docs.
type builder struct {
	dict   *dictionary
	known  *lexicon
	bags   []bag
	length [][fields]float64 // by doc
	mean   [fields]float64
	short  []shortTexts // by doc
	words  map[string]*known

	open bag     // the bag that put adds to
	at   []int32 // by term: its position in open, from 1; 0 means that it is not there

	joined []byte // buffer of join

	weights [fields]float64
}

// known has the properties of a word of docs.
type known struct {
	term          int32
	uses          int // how many times it is in the descriptions of tools and servers
	stop, generic bool
	action        action // of its stem
}

// shortTexts are the words of a doc that are read again once the words of all docs are known.
type shortTexts struct{ name, server, first []word }

func newBuilder(docs []Doc, d *dictionary) *builder {
	*d = dictionary{word: map[string]int32{}, term: map[string]int32{}}
	b := &builder{
		dict:   d,
		known:  loadLexicon(),
		bags:   make([]bag, len(docs)),
		length: make([][fields]float64, len(docs)),
		short:  make([]shortTexts, len(docs)),
		words:  map[string]*known{},
	}
	i := 0
	for ws := range split(docs) {
		for f := range ws.in {
			b.count(i, f, ws.in[f])
			b.mean[f] += b.length[i][f] / float64(len(docs))
		}
		for _, described := range [...][]word{ws.in[firstField], ws.in[restField], ws.server} {
			for i := range described {
				b.know(&described[i]).uses++
			}
		}
		b.bags[i] = b.closed()
		b.short[i] = shortTexts{ws.in[nameField], ws.in[serverField], ws.in[firstField]}
		i++
	}
	for f := range b.mean {
		b.mean[f] = max(b.mean[f], .1)
	}
	return b
}

// docWords are the words of the texts of one doc.
type docWords struct {
	in     [fields][]word
	server []word // the server's description, which is a part of the field aboutField
}

// split returns the words of each doc in turn. It splits texts while the caller counts words.
func split(docs []Doc) <-chan docWords {
	all := make(chan docWords, 256)
	go func() {
		defer close(all)
		var before [fields]string
		var ws docWords
		for _, d := range docs {
			now := texts(d)
			for f, text := range now {
				if text == before[f] { // as of the server of the doc before
					continue
				}
				if ws.in[f] = words(truncate(text, maxField)); f == aboutField {
					ws.server = words(truncate(d.ServerDescription, maxField))
				}
			}
			before = now
			all <- ws
		}
	}()
	return all
}

// maxField is the maximum length in bytes of the text of a field that is ranked.
const maxField = 8 << 10

func texts(d Doc) [fields]string {
	first, rest := firstSentence(d.Description)
	return [fields]string{
		nameField: d.Name, serverField: d.Server, firstField: first, restField: rest,
		paramsField: strings.Join(d.Params, ", "),
		aboutField:  d.ServerDescription + "\n" + d.Category,
		usesField:   strings.Join(d.Functions, "\n") + "\n" + strings.Join(d.UseCases, "\n"),
	}
}

// minSentence is the minimum length of a first sentence: an earlier full stop
// probably ends an abbreviation.
const minSentence = 20

// firstSentence splits a description after its first sentence or line.
func firstSentence(text string) (first, rest string) {
	text = strings.TrimSpace(text)
	for i := minSentence; i < len(text); i++ {
		switch text[i] {
		case '\n':
			return text[:i], text[i:]
		case '.', '!', '?':
			if i+1 == len(text) || strings.IndexByte(" \r\n", text[i+1]) >= 0 {
				return text[:i+1], text[i+1:]
			}
		}
	}
	return text, ""
}

func (b *builder) count(doc, field int, ws []word) {
	before := ""
	for i := range ws {
		w := &ws[i]
		k, n := b.know(w), 1.0
		if k.stop {
			n = stopCount
		}
		b.length[doc][field] += n
		b.putTerm(k.term, field, float32(n))
		if field <= serverField && before != "" && len(before)+len(w.text) <= 24 {
			b.putTerm(b.join(before, w.text), field, joinCount)
		}
		before = w.text
	}
}

// know looks up a word, and adds it if it is new.
func (b *builder) know(w *word) *known {
	if w.known != nil {
		return w.known
	}
	k := b.words[w.text]
	if k == nil {
		k = &known{term: b.dict.put(w.text), stop: b.known.stop[w.text], generic: b.known.generic[w.text]}
		k.action = b.known.actions[b.dict.stems[k.term]]
		b.words[w.text] = k
	}
	w.known = k
	return k
}

// join returns the term of two words written as one.
func (b *builder) join(first, second string) int32 {
	b.joined = append(append(b.joined[:0], first...), second...)
	if t, ok := b.dict.word[string(b.joined)]; ok {
		return t
	}
	return b.dict.put(string(b.joined))
}

// put adds a word to the open bag.
func (b *builder) put(field int, word string, n float64) {
	b.putTerm(b.dict.put(word), field, float32(n))
}

func (b *builder) putTerm(t int32, field int, n float32) {
	for int(t) >= len(b.at) {
		b.at = append(b.at, 0)
	}
	if b.at[t] == 0 {
		b.open = append(b.open, count{term: t})
		b.at[t] = int32(len(b.open))
	}
	b.open[b.at[t]-1].in[field] += n
}

// closed returns the open bag, and opens an empty one.
func (b *builder) closed() bag {
	for _, c := range b.open {
		b.at[c.term] = 0
	}
	done := slices.Clone(b.open)
	b.open = b.open[:0]
	return done
}

// addCompounds splits rare words of names, such as airqualityforecast, into words
// that descriptions use, and counts those as well.
func (b *builder) addCompounds() {
	for i, short := range b.short {
		var parts [2][]string
		for f, ws := range [...][]word{nameField: short.name, serverField: short.server} {
			for w := range leafWords(ws) {
				if n := len(w.text); n >= 7 && n <= 32 && w.known.uses <= 20 {
					parts[f] = append(parts[f], splitCompound(w.text, b.words)...)
				}
			}
		}
		if parts[nameField] == nil && parts[serverField] == nil {
			continue
		}
		for j, c := range b.bags[i] {
			b.at[c.term] = int32(j + 1)
		}
		b.open = append(b.open, b.bags[i]...)
		for f := range parts {
			for _, part := range parts[f] {
				b.put(f, part, compoundCount)
			}
		}
		b.bags[i] = b.closed()
	}
}

// leafWords returns the words that are not split, and the parts of the others.
func leafWords(ws []word) iter.Seq[word] {
	return func(yield func(word) bool) {
		for i, w := range ws {
			if (w.part || i+1 == len(ws) || !ws[i+1].part) && !yield(w) {
				return
			}
		}
	}
}

// splitCompound splits a word into two or three frequently used words: as few as possible,
// with the longest shortest part. It returns nil if that is impossible.
func splitCompound(w string, words map[string]*known) (parts []string) {
	const minPart = 3
	known := func(p string) bool {
		k := words[p]
		return k != nil && len(p) >= minPart && k.uses >= 3
	}
	least := 0
	for i := minPart; i+minPart <= len(w); i++ {
		if l := min(i, len(w)-i); known(w[:i]) && known(w[i:]) && l > least {
			parts, least = []string{w[:i], w[i:]}, l
		}
	}
	if parts != nil {
		return parts
	}
	for i := minPart; i+2*minPart <= len(w); i++ {
		if !known(w[:i]) {
			continue
		}
		for j := i + minPart; j+minPart <= len(w); j++ {
			if l := min(i, j-i, len(w)-j); l > least && known(w[i:j]) && known(w[j:]) {
				parts, least = []string{w[:i], w[i:j], w[j:]}, l
			}
		}
	}
	return slices.Clip(parts)
}
