package search

import (
	"slices"
	"strings"
)

// The fields of a doc that are told apart.
const (
	nameField = iota
	serverField
	firstField // the first sentence of the description, which says what the tool does
	restField
	paramsField
	aboutField // the server's description, and the category
	usesField
	fields
)

// fieldWeight is what a word counts in each, fieldNorm how much less in one
// that is longer than others.
var (
	fieldWeight = [fields]float64{nameField: 3, serverField: 2, firstField: 3, restField: .5, paramsField: .4, aboutField: 1, usesField: 1}
	fieldNorm   = [fields]float64{.4, .4, .4, restField: .7, .4, .4, .4}
)

const (
	joinCount     = .35 // of two neighbours in a name, as one word
	compoundCount = .7  // of a word found inside another
	stopCount     = .5  // of a stop word in the length of a field
)

// bag is the terms of one doc, each once, with its count in each field.
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
	at     map[int32]int // of the current bag: term -> place
}

func newBuilder(docs []Doc, d *dictionary) *builder {
	*d = dictionary{word: map[string]int32{}, term: map[string]int32{}}
	b := &builder{dict: d, known: knownEnglish(), bags: make([]bag, len(docs)), length: make([][fields]float64, len(docs)), at: map[int32]int{}}
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

// longestField is how much of a field is ranked by, in bytes.
const longestField = 8 << 10

func texts(d Doc) [fields]string {
	first, rest := firstSentence(d.Description)
	return [fields]string{
		nameField: d.Name, serverField: d.Server, firstField: first, restField: rest,
		paramsField: strings.Join(d.Params, ", "),
		aboutField:  d.ServerDescription + "\n" + d.Category,
		usesField:   strings.Join(d.Functions, "\n") + "\n" + strings.Join(d.UseCases, "\n"),
	}
}

// shortest first sentence: a full stop before is one of an abbreviation.
const shortest = 20

// firstSentence cuts a description after its first sentence or line.
func firstSentence(text string) (first, rest string) {
	text = strings.TrimSpace(text)
	for i := shortest; i < len(text); i++ {
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
	for _, w := range words(cut(text, longestField)) {
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

// addCompounds looks into the words of names that nobody else uses, such as
// airqualityforecast, for words that descriptions use, and counts those as well.
func (b *builder) addCompounds(docs []Doc) {
	uses := map[string]int{}
	for _, d := range docs {
		for _, w := range words(cut(d.Description, longestField) + "\n" + cut(d.ServerDescription, longestField)) {
			uses[w.text]++
		}
	}
	for i, d := range docs {
		clear(b.at)
		for j, c := range b.bags[i] {
			b.at[c.term] = j
		}
		for f, text := range [...]string{nameField: d.Name, serverField: d.Server} {
			for _, w := range simple(words(cut(text, longestField))) {
				if len(w) >= 7 && len(w) <= 32 && uses[w] <= 20 {
					for _, part := range split(w, uses) {
						b.put(i, f, part, compoundCount)
					}
				}
			}
		}
	}
}

// simple gives the words that are not taken apart, and the parts of the others.
func simple(ws []word) (texts []string) {
	for i, w := range ws {
		if w.part || i+1 == len(ws) || !ws[i+1].part {
			texts = append(texts, w.text)
		}
	}
	return texts
}

// split takes a word apart into two or three that are used often enough, as few
// as can be and none shorter than need be; nil if there is no such way.
func split(w string, uses map[string]int) (parts []string) {
	const shortestPart = 3
	known := func(p string) bool { return len(p) >= shortestPart && uses[p] >= 3 }
	least := 0
	for i := shortestPart; i+shortestPart <= len(w); i++ {
		if l := min(i, len(w)-i); known(w[:i]) && known(w[i:]) && l > least {
			parts, least = []string{w[:i], w[i:]}, l
		}
	}
	if parts != nil {
		return parts
	}
	for i := shortestPart; i+2*shortestPart <= len(w); i++ {
		if !known(w[:i]) {
			continue
		}
		for j := i + shortestPart; j+shortestPart <= len(w); j++ {
			if l := min(i, j-i, len(w)-j); l > least && known(w[i:j]) && known(w[j:]) {
				parts, least = []string{w[:i], w[i:j], w[j:]}, l
			}
		}
	}
	return slices.Clip(parts)
}
