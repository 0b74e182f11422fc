package search

import (
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
	at     map[int32]int // index of each term in the current bag

	weights [fields]float64
}

func newBuilder(docs []Doc, d *dictionary) *builder {
	*d = dictionary{word: map[string]int32{}, term: map[string]int32{}}
	b := &builder{dict: d, known: loadLexicon(), bags: make([]bag, len(docs)), length: make([][fields]float64, len(docs)), at: map[int32]int{}}
	for i, doc := range docs {
		clear(b.at)
		for f, text := range texts(doc) {
			b.count(i, f, text)
			b.mean[f] += b.length[i][f] / float64(len(docs))
		}
	}
	for f := range b.mean {
		b.mean[f] = max(b.mean[f], .1)
	}
	return b
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

func (b *builder) count(doc, field int, text string) {
	before := ""
	for _, w := range words(truncate(text, maxField)) {
		n := 1.0
		if b.known.stop[w.text] {
			n = stopCount
		}
		b.length[doc][field] += n
		b.put(doc, field, w.text, n)
		if field <= serverField && before != "" && len(before)+len(w.text) <= 24 {
			b.put(doc, field, before+w.text, joinCount)
		}
		before = w.text
	}
}

func (b *builder) put(doc, field int, word string, n float64) {
	t := b.dict.put(word)
	i, ok := b.at[t]
	if !ok {
		i = len(b.bags[doc])
		b.at[t] = i
		b.bags[doc] = append(b.bags[doc], count{term: t})
	}
	b.bags[doc][i].in[field] += float32(n)
}

// addCompounds splits rare words of names, such as airqualityforecast, into words
// that descriptions use, and counts those as well.
func (b *builder) addCompounds(docs []Doc) {
	uses := map[string]int{}
	for _, d := range docs {
		for _, w := range words(truncate(d.Description, maxField) + "\n" + truncate(d.ServerDescription, maxField)) {
			uses[w.text]++
		}
	}
	for i, d := range docs {
		clear(b.at)
		for j, c := range b.bags[i] {
			b.at[c.term] = j
		}
		for f, text := range [...]string{nameField: d.Name, serverField: d.Server} {
			for _, w := range leafWords(words(truncate(text, maxField))) {
				if len(w) >= 7 && len(w) <= 32 && uses[w] <= 20 {
					for _, part := range split(w, uses) {
						b.put(i, f, part, compoundCount)
					}
				}
			}
		}
	}
}

// leafWords returns the words that are not split, and the parts of the others.
func leafWords(ws []word) (texts []string) {
	for i, w := range ws {
		if w.part || i+1 == len(ws) || !ws[i+1].part {
			texts = append(texts, w.text)
		}
	}
	return texts
}

// split splits a word into two or three frequently used words: as few as possible,
// with the longest shortest part. It returns nil if that is impossible.
func split(w string, uses map[string]int) (parts []string) {
	const minPart = 3
	known := func(p string) bool { return len(p) >= minPart && uses[p] >= 3 }
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
