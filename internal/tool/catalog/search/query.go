package search

// parsedQuery is the analysed text of a query.
type parsedQuery struct {
	segments [][]concept
	weight   float32 // sum over all concepts
	action   action  // requested action: that of the first word that has one
}

// concept is a query word and its related terms, the word itself first.
type concept []weightedTerm

type weightedTerm struct {
	term   int32
	weight float32
}

const (
	weakFactor  = .3 // for a weak word
	typoFactor  = .6
	maxConcepts = 80
	maxSegments = 8
	maxTypos    = 4 // words that are checked for typos
	// segmentWords is the minimum number of significant words in a segment.
	segmentWords = 3
)

// conjunctions start a new segment.
var conjunctions = map[string]bool{"and": true, "additionally": true, "also": true, "then": true, "furthermore": true,
	"lastly": true, "finally": true, "plus": true}

// queryParser analyses the text of a query.
type queryParser struct {
	x        *Index
	known    *lexicon
	q        parsedQuery
	now      []concept // the current segment
	strong   int       // number of its significant words
	count    int       // number of concepts
	typos    int
	seen     map[int32]bool
	onlyStop bool // all words are stop words, so they are not ignored
	plain    bool // all words are weak, so they have full weight
}

func (x *Index) parse(text string) parsedQuery {
	ws := words(text)
	a := &queryParser{x: x, known: loadLexicon(), seen: map[int32]bool{}, onlyStop: true, plain: true}
	for _, w := range ws {
		if !a.known.stop[w.text] {
			a.onlyStop = false
			a.plain = a.plain && a.known.weak[a.stem(w.text)]
		}
	}
	before := ""
	for _, w := range ws {
		before = a.word(w, before)
		if a.strong >= segmentWords && (w.ends || conjunctions[w.text]) && len(a.q.segments) < maxSegments-1 {
			a.endSegment()
		}
	}
	a.endSegment()
	return a.q
}

func (a *queryParser) stem(word string) string {
	s, _ := a.x.find(word)
	return s
}

func (a *queryParser) endSegment() {
	if len(a.now) > 0 {
		a.q.segments = append(a.q.segments, a.now)
	}
	a.now, a.strong = nil, 0
}

// word adds a word that follows the word before. It returns the word that precedes
// the next one, or "".
func (a *queryParser) word(w word, before string) string {
	s, t := a.x.find(w.text)
	if a.q.action == 0 {
		a.q.action = a.known.actions[s]
	}
	if before != "" && !w.part {
		a.add(a.x.joined(before, w.text, s), joinCount)
	}
	if a.known.stop[w.text] && !a.onlyStop {
		before = ""
		if !w.ends {
			before = w.text
		}
		return before
	}
	a.strong++
	switch {
	case a.known.weak[s] && !a.plain:
		a.add(t, weakFactor)
	default:
		a.expand(w.text, s, t)
	}
	switch {
	case w.ends:
		return ""
	case w.part:
		return before
	}
	return w.text
}

// add adds a concept of one term.
func (a *queryParser) add(t int32, factor float32) {
	if t >= 0 && !a.seen[t] {
		a.put(concept{{t, factor * a.x.docs.idf[t]}})
	}
}

func (a *queryParser) put(c concept) {
	if len(c) == 0 || a.count == maxConcepts {
		return
	}
	a.seen[c[0].term] = true
	a.count++
	a.now = append(a.now, c)
	a.q.weight += c[0].weight
}

// expand adds a word with its related terms. An unknown word is replaced by the most
// similar known one.
func (a *queryParser) expand(word, s string, t int32) {
	if t >= 0 && a.seen[t] {
		return
	}
	var c concept
	limit := float32(1000)
	if t >= 0 {
		limit = a.x.docs.idf[t]
		c = append(c, weightedTerm{t, limit})
	}
	for _, r := range a.known.related[s] {
		if u, ok := a.x.term[r.stem]; ok && u != t {
			c = append(c, weightedTerm{u, r.factor * min(limit, a.x.docs.idf[u])})
		}
	}
	if c == nil && a.typos < maxTypos {
		a.typos++
		if u := a.x.correct(word); u >= 0 {
			a.add(u, typoFactor)
			return
		}
	}
	a.put(c)
}
