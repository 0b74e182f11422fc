package search

import (
	"math"
	"strings"
)

// What counts beside the words, in parts of the best score for words.
const (
	segmentBonus = .4  // best in its part of the question
	serverBonus  = .3  // of the server that fits best
	nameBonus    = .2  // all of the name is asked for
	namePower    = 1.3 // less for half a name than half of that
	coverBonus   = .05 // the name is all that is asked for
	doesBonus    = .1  // the name says the same kind of doing
	doesMalus    = .07 // or another
	pairBonus    = .14 // neighbours that are both asked for
	insideBonus  = .2  // contains the text, one word
	phraseBonus  = 1   // or several
	namedBonus   = .5  // in its name
	exactBonus   = 3   // is named so

	// looks is how many are looked at a second time.
	looks = 100
	// floor is the least part of the best score for words that is a match: most
	// tools share one common word with a question, and are none of its answers.
	floor = .2
	// longestContained is the longest text that is worth a bonus where it stands.
	longestContained = 64
)

// scratch is the working memory of one search, zero between searches.
type scratch struct {
	words   []float32 // by doc: score for the words of the question
	segment []float32 // by doc: of the current segment
	peak    []float32 // by doc: of the best segment
	concept []float32 // by doc: of the current concept
	touched []int32   // docs that have a score for it
	servers []float32 // by server
	asked   []float32 // by term: how much it is asked for, from 0 to 1
	inside  []bool    // by doc: contains the text
	hits    []Hit
}

func newScratch(x *Index) *scratch {
	n := len(x.names)
	return &scratch{words: make([]float32, n), segment: make([]float32, n), peak: make([]float32, n), concept: make([]float32, n),
		servers: make([]float32, x.serverCount), asked: make([]float32, len(x.stems)), inside: make([]bool, n)}
}

func (s *scratch) reset() {
	clear(s.words)
	clear(s.peak)
	clear(s.servers)
	clear(s.asked)
	clear(s.inside)
	s.hits = s.hits[:0]
}

func (x *Index) rank(query Query, s *scratch) Hits {
	s.reset()
	q := x.understand(query.Text)
	for _, seg := range q.segments {
		x.scoreSegment(seg, q, s)
	}
	x.scoreServers(q, s)
	text := strings.ToLower(query.Text)
	x.contain(text, s.inside)
	total := x.gather(query, s)
	for i := range s.hits {
		h := &s.hits[i]
		h.Score += x.cards[h.Doc].bonus(q, s, x.docs.worth) + x.textBonus(h.Doc, text, s)
	}
	return Hits{Total: total, Found: append([]Hit(nil), best(s.hits, query.Limit)...)}
}

// scoreSegment adds what the segment's words are worth in each doc.
func (x *Index) scoreSegment(seg []concept, q question, s *scratch) {
	into := s.words
	if len(q.segments) > 1 {
		into = s.segment
		clear(into)
	}
	weight := float32(0)
	for _, c := range seg {
		x.scoreConcept(c, into, s)
		weight += c[0].weight
	}
	if len(q.segments) == 1 {
		return
	}
	top := highest(into)
	if top == 0 {
		return
	}
	part := segmentBonus * weight / q.weight / top
	words, peak := s.words[:len(into)], s.peak[:len(into)]
	for d, v := range into {
		words[d] += v
		if v *= part; v > peak[d] {
			peak[d] = v
		}
	}
}

// scoreConcept adds the best of a concept's terms in each doc.
func (x *Index) scoreConcept(c concept, into []float32, s *scratch) {
	for i, w := range c {
		s.asked[w.term] = max(s.asked[w.term], share(w, c, i))
	}
	if len(c) == 1 {
		for _, p := range x.docs.of[c[0].term] {
			into[p.who] += c[0].weight * p.impact
		}
		return
	}
	s.touched = s.touched[:0]
	for _, w := range c {
		for _, p := range x.docs.of[w.term] {
			v, old := w.weight*p.impact, s.concept[p.who]
			if old == 0 {
				s.touched = append(s.touched, p.who)
			}
			if v > old {
				s.concept[p.who] = v
			}
		}
	}
	for _, d := range s.touched {
		into[d] += s.concept[d]
		s.concept[d] = 0
	}
}

// share is how much a term stands for its concept.
func share(w weighted, c concept, i int) float32 {
	if i == 0 || c[0].weight == 0 {
		return 1
	}
	return min(1, w.weight/c[0].weight)
}

// scoreServers makes of servers[i] the bonus for its tools.
func (x *Index) scoreServers(q question, s *scratch) {
	for _, seg := range q.segments {
		for _, c := range seg {
			for _, w := range c {
				weight := w.weight / x.docs.worth[w.term] * x.servers.worth[w.term]
				for _, p := range x.servers.of[w.term] {
					s.servers[p.who] += weight * p.impact
				}
			}
		}
	}
	if top := highest(s.servers); top > 0 {
		scale := serverBonus / top
		for i := range s.servers {
			s.servers[i] *= scale
		}
	}
}

func highest(vs []float32) (top float32) {
	for _, v := range vs {
		if v > top { // the builtin max minds NaN, and is slow
			top = v
		}
	}
	return top
}

// gather counts the docs that match and makes hits of those worth a second look.
func (x *Index) gather(query Query, s *scratch) (total int) {
	top := highest(s.words)
	if top == 0 {
		top = 1
	}
	heap := bounded{hits: s.hits, n: max(looks, min(query.Limit, len(x.names)))}
	least, scale := floor*top, 1/top
	inside := float32(insideBonus)
	if strings.ContainsFunc(query.Text, notWord) {
		inside = phraseBonus
	}
	for d, v := range s.words {
		if v < least && !s.inside[d] || !x.in(d, query.Category) {
			continue
		}
		total++
		score := v*scale + s.peak[d] + s.servers[x.server[d]]
		if s.inside[d] {
			score += inside
		}
		heap.add(Hit{d, float64(score)})
	}
	s.hits = heap.hits
	return total
}

// bonus is for what the tool is called, does and begins to say.
func (c *card) bonus(q question, s *scratch, worth []float32) (b float64) {
	named := float32(0)
	for _, t := range c.name {
		named += s.asked[t] * worth[t]
	}
	if c.weight > 0 {
		b += nameBonus * math.Pow(float64(named/c.weight), namePower)
	}
	if q.weight > 0 {
		b += coverBonus * float64(named/q.weight)
	}
	switch {
	case q.does == 0 || c.does == 0:
	case q.does&c.does != 0:
		b += doesBonus
	default:
		b -= doesMalus
	}
	pairs := 0.0
	for i := 1; i < len(c.opening); i++ {
		if t, u := c.opening[i-1], c.opening[i]; t != u && s.asked[t] >= .5 && s.asked[u] >= .5 {
			pairs++
		}
	}
	return b + pairBonus*pairs/(pairs+3)
}

func (x *Index) textBonus(doc int, text string, s *scratch) float64 {
	switch {
	case !s.inside[doc] || len(text) > longestContained:
		return 0
	case x.names[doc] == text:
		return exactBonus
	case strings.Contains(x.names[doc], text):
		return namedBonus
	}
	return 0
}
