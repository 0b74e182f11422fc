package search

// question is a query's text, understood.
type question struct {
	segments [][]concept
	weight   float32 // of all concepts
	does     action  // what is to be done, by the first word that says so
}

// concept is a word and what may stand for it, the word itself first.
type concept []weighted

type weighted struct {
	term   int32
	weight float32
}

const (
	weakFactor  = .3 // of a word of conversation
	typoFactor  = .6
	maxConcepts = 80
	maxSegments = 8
	maxTypos    = 4 // words that are looked at for typing errors
	// segmentWords is how many words that are looked for make a segment.
	segmentWords = 3
)

// conjunctions begin another segment.
var conjunctions = map[string]bool{"and": true, "additionally": true, "also": true, "then": true, "furthermore": true,
	"lastly": true, "finally": true, "plus": true}

// asking takes a text apart.
type asking struct {
	x       *Index
	known   *lexicon
	q       question
	now     []concept // the current segment
	strong  int       // words in it that are looked for
	count   int       // concepts
	typos   int
	seen    map[int32]bool
	literal bool // every word is a stop word: look for them all the same
	plain   bool // every word is one of conversation: they count in full
}

func (x *Index) understand(text string) question {
	ws := words(text)
	a := &asking{x: x, known: knownEnglish(), seen: map[int32]bool{}, literal: true, plain: true}
	for _, w := range ws {
		if !a.known.stop[w.text] {
			a.literal = false
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

func (a *asking) stem(word string) string {
	s, _ := a.x.find(word)
	return s
}

func (a *asking) endSegment() {
	if len(a.now) > 0 {
		a.q.segments = append(a.q.segments, a.now)
	}
	a.now, a.strong = nil, 0
}

// word adds a word, whose neighbour before is given, and gives the one that is
// before the next.
func (a *asking) word(w word, before string) string {
	s, t := a.x.find(w.text)
	if a.q.does == 0 {
		a.q.does = a.known.actions[s]
	}
	if before != "" && !w.part {
		a.add(a.x.joined(before, w.text, s), joinCount)
	}
	if a.known.stop[w.text] && !a.literal {
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
func (a *asking) add(t int32, factor float32) {
	if t >= 0 && !a.seen[t] {
		a.put(concept{{t, factor * a.x.docs.worth[t]}})
	}
}

func (a *asking) put(c concept) {
	if len(c) == 0 || a.count == maxConcepts {
		return
	}
	a.seen[c[0].term] = true
	a.count++
	a.now = append(a.now, c)
	a.q.weight += c[0].weight
}

// expand adds a word with its synonyms; one that nobody knows as the word that
// it looks like.
func (a *asking) expand(word, s string, t int32) {
	if t >= 0 && a.seen[t] {
		return
	}
	var c concept
	limit := float32(1000)
	if t >= 0 {
		limit = a.x.docs.worth[t]
		c = append(c, weighted{t, limit})
	}
	for _, r := range a.known.related[s] {
		if u, ok := a.x.term[r.stem]; ok && u != t {
			c = append(c, weighted{u, r.factor * min(limit, a.x.docs.worth[u])})
		}
	}
	if c == nil && a.typos < maxTypos {
		a.typos++
		if u := a.x.typos.correct(word); u >= 0 {
			a.add(u, typoFactor)
			return
		}
	}
	a.put(c)
}
