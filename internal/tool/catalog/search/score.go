package search

import (
	"math"
	"strings"
)

// weights are those that were chosen by their recall on development queries. Bonuses are
// relative to the best score for words.
type weights struct {
	segment float32 // for the best tool of a segment
	server  float32 // for tools of the best server
	name    float64 // if the query has all words of the name
	cover   float64 // if the query has only words of the name
	action  float64 // if the name has the action of the query
	penalty float64 // if it has another action
	pair    float64 // for adjacent words that are both in the query

	// similarity is for one standard deviation of similarity; the best score for
	// words is 1. With a small model words are more reliable.
	similarity float64

	fields [fields]float64 // of a word in each field
}

var defaultWeights = weights{
	segment:    .4,
	server:     .3,
	name:       .2,
	cover:      .05,
	action:     .1,
	penalty:    .07,
	pair:       .14,
	similarity: .1,
	fields:     [fields]float64{nameField: 3, serverField: 2, firstField: 3, restField: .5, paramsField: .4, aboutField: 1, usesField: 1},
}

// Other bonuses.
const (
	namePower     = 1.3 // exponent: half of a name gets less than half of the bonus for it
	containsBonus = .2  // if the tool contains the query text, one word
	phraseBonus   = 1   // if the tool contains the query text, several words
	namedBonus    = .5  // if the name contains the query text
	exactBonus    = 3   // if the name is the query text

	// maxRescored is the number of tools that are rescored with bonuses.
	maxRescored = 100
	// minShare is the minimum score of a match, relative to the best score for words.
	// Most tools share a frequent word with a query without matching it.
	minShare = .2
	// maxContained is the maximum length of a query that gets namedBonus or exactBonus.
	maxContained = 64
)

// scratch is the working memory of one search, zero between searches.
type scratch struct {
	words      []float32 // by doc: score for words
	segment    []float32 // by doc: of the current segment
	peak       []float32 // by doc: of the best segment
	concept    []float32 // by doc: of the current concept
	touched    []int32   // docs with a score for the current concept
	servers    []float32 // by server
	queryShare []float32 // by term: largest share in a concept of the query, from 0 to 1
	contains   []bool    // by doc: contains the query text
	led        []bool    // by doc: similar words led to it
	hits       []Hit
}

func newScratch(x *Index) *scratch {
	n := len(x.names)
	return &scratch{words: make([]float32, n), segment: make([]float32, n), peak: make([]float32, n), concept: make([]float32, n),
		servers: make([]float32, x.serverCount), queryShare: make([]float32, len(x.stems)), contains: make([]bool, n), led: make([]bool, n)}
}

func (s *scratch) reset() {
	clear(s.words)
	clear(s.peak)
	clear(s.servers)
	clear(s.queryShare)
	clear(s.contains)
	clear(s.led)
	s.hits = s.hits[:0]
}

func (x *Index) rank(query Query, s *scratch) Hits {
	s.reset()
	q := x.parse(query.Text)
	for _, seg := range q.segments {
		x.scoreSegment(seg, q, s)
	}
	x.scoreServers(q, s)
	text := strings.ToLower(query.Text)
	x.contain(text, s.contains)
	for d, b := range query.Boosts {
		s.led[d] = b.Words > 0
	}
	total := x.selectHits(query, s)
	for i := range s.hits {
		h := &s.hits[i]
		h.Score += x.features[h.Doc].bonus(q, s, x.docs.idf, &x.weights) + x.textBonus(h.Doc, text, s) + query.Boosts[h.Doc].Sum()
	}
	return Hits{Total: total, Found: append([]Hit(nil), best(s.hits, query.Limit)...)}
}

// scoreSegment adds the scores of the segment's words to each doc.
func (x *Index) scoreSegment(seg []concept, q parsedQuery, s *scratch) {
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
	part := x.weights.segment * weight / q.weight / top
	words, peak := s.words[:len(into)], s.peak[:len(into)]
	for d, v := range into {
		words[d] += v
		if v *= part; v > peak[d] {
			peak[d] = v
		}
	}
}

// scoreConcept adds the best score among the concept's terms to each doc.
func (x *Index) scoreConcept(c concept, into []float32, s *scratch) {
	for i, w := range c {
		s.queryShare[w.term] = max(s.queryShare[w.term], share(w, c, i))
	}
	if len(c) == 1 {
		for _, p := range x.docs.of[c[0].term] {
			into[p.id] += c[0].weight * p.impact
		}
		return
	}
	s.touched = s.touched[:0]
	for _, w := range c {
		for _, p := range x.docs.of[w.term] {
			v, old := w.weight*p.impact, s.concept[p.id]
			if old == 0 {
				s.touched = append(s.touched, p.id)
			}
			if v > old {
				s.concept[p.id] = v
			}
		}
	}
	for _, d := range s.touched {
		into[d] += s.concept[d]
		s.concept[d] = 0
	}
}

// share returns the weight of a term relative to its concept.
func share(w weightedTerm, c concept, i int) float32 {
	if i == 0 || c[0].weight == 0 {
		return 1
	}
	return min(1, w.weight/c[0].weight)
}

// scoreServers sets servers[i] to the bonus for the tools of server i.
func (x *Index) scoreServers(q parsedQuery, s *scratch) {
	for _, seg := range q.segments {
		for _, c := range seg {
			for _, w := range c {
				weight := w.weight / x.docs.idf[w.term] * x.servers.idf[w.term]
				for _, p := range x.servers.of[w.term] {
					s.servers[p.id] += weight * p.impact
				}
			}
		}
	}
	if top := highest(s.servers); top > 0 {
		scale := x.weights.server / top
		for i := range s.servers {
			s.servers[i] *= scale
		}
	}
}

func highest(vs []float32) (top float32) {
	for _, v := range vs {
		if v > top { // the builtin max is slower, because it handles NaN
			top = v
		}
	}
	return top
}

// selectHits counts the docs that match and sets s.hits to the best of them.
func (x *Index) selectHits(query Query, s *scratch) (total int) {
	top := highest(s.words)
	if top == 0 {
		top = 1
	}
	var led []Hit // are rescored in addition to the best
	heap := topHits{hits: s.hits, n: max(maxRescored, min(query.Limit, len(x.names)))}
	least, scale := minShare*top, 1/top
	contains := float32(containsBonus)
	if strings.ContainsFunc(query.Text, notWord) {
		contains = phraseBonus
	}
	for d, v := range s.words {
		if v < least && !s.contains[d] && !s.led[d] || !x.in(d, query.Category) {
			continue
		}
		total++
		score := v*scale + s.peak[d] + s.servers[x.server[d]]
		if s.contains[d] {
			score += contains
		}
		if s.led[d] {
			led = append(led, Hit{d, float64(score)})
			continue
		}
		heap.add(Hit{d, float64(score)})
	}
	s.hits = append(heap.hits, led...)
	return total
}

// bonus returns the bonus for the words and the action of the name and opening.
func (c *docFeatures) bonus(q parsedQuery, s *scratch, idf []float32, w *weights) (b float64) {
	named := float32(0)
	for _, t := range c.name {
		named += s.queryShare[t] * idf[t]
	}
	if c.weight > 0 {
		b += w.name * math.Pow(float64(named/c.weight), namePower)
	}
	if q.weight > 0 {
		b += w.cover * float64(named/q.weight)
	}
	switch {
	case q.action == 0 || c.action == 0:
	case q.action&c.action != 0:
		b += w.action
	default:
		b -= w.penalty
	}
	pairs := 0.0
	for i := 1; i < len(c.opening); i++ {
		if t, u := c.opening[i-1], c.opening[i]; t != u && s.queryShare[t] >= .5 && s.queryShare[u] >= .5 {
			pairs++
		}
	}
	return b + w.pair*pairs/(pairs+3)
}

func (x *Index) textBonus(doc int, text string, s *scratch) float64 {
	switch {
	case !s.contains[doc] || len(text) > maxContained:
		return 0
	case x.names[doc] == text:
		return exactBonus
	case strings.Contains(x.names[doc], text):
		return namedBonus
	}
	return 0
}
