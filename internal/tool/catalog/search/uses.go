package search

import (
	"math"
	"strings"
)

// Use records that a tool was called after searches with the same words.
type Use struct {
	Server, Tool string
	Terms        []string // of the searches, as Terms returns them
	Searches     int      // number of searches
	Lower        int      // of these, the ones whose first result was another tool
}

// Limits of a Boost. The best score for words is 1.
const (
	wordsBoost = 1   // for words that led to the tool
	usedBoost  = .01 // for any use of the tool
	// wordsHalf and usedHalf are the numbers of searches that give half of it.
	wordsHalf, usedHalf = 2, 3
	// minSimilar is the minimum similarity of a query to earlier words: below it, the query asks
	// for something else.
	minSimilar   = .3
	similarPower = 3 // half as similar words get an eighth of the boost
)

// maxTerms is the maximum number of terms of a Use.
const maxTerms = 24

// Terms returns the stems of the words of a text, without stop words and repetitions. Words with
// a digit are omitted: they are values more often than words for a task.
func Terms(text string) (terms []string) {
	known, seen := loadLexicon(), map[string]bool{}
	for _, w := range words(truncate(text, maxQuery)) {
		s := stem(w.text)
		if w.part || known.stop[w.text] || seen[s] || strings.ContainsAny(s, "0123456789") {
			continue
		}
		if terms = append(terms, s); len(terms) == maxTerms {
			return terms
		}
		seen[s] = true
	}
	return terms
}

// Uses are the records of one tenant. It is immutable; nil has no records.
type Uses struct {
	all  []Use
	with map[string][]int32 // term -> records that have it
	used map[toolName]Boost // by tool: for any use
}

// toolName identifies a tool.
type toolName struct{ server, tool string }

// NewUses returns the Uses of records, which it retains.
func NewUses(all []Use) *Uses {
	u := &Uses{all: all, with: map[string][]int32{}, used: map[toolName]Boost{}}
	searches := map[toolName]int{}
	for i, r := range all {
		searches[toolName{r.Server, r.Tool}] += r.Searches
		for _, t := range r.Terms {
			u.with[t] = append(u.with[t], int32(i))
		}
	}
	for name, n := range searches {
		u.used[name] = Boost{Used: usedBoost * saturate(n, usedHalf)}
	}
	return u
}

// All returns the records. The caller must not change them.
func (u *Uses) All() []Use {
	if u == nil {
		return nil
	}
	return u.all
}

// Boost is the gain of a score from use.
type Boost struct {
	Used  float64  // because the tenant uses it
	Words float64  // because similar words led to it
	Terms []string // of the most similar search; nil if Words is 0
}

// Sum returns the gain of the score.
func (b Boost) Sum() float64 { return b.Used + b.Words }

// Boosts calls add for each tool that gains from use in a search for a text. A search whose first
// result was the tool adds nothing to Words: it needs no correction, and similar words are as
// likely to mean a similar tool.
func (x *Index) Boosts(u *Uses, text string, add func(server, tool string, b Boost)) {
	if u == nil || len(u.all) == 0 {
		return
	}
	led := map[toolName]Boost{}
	shared, size := make([]float64, len(u.all)), 0.0
	for _, t := range Terms(text) {
		w := x.termWeight(t)
		size += w * w
		for _, i := range u.with[t] {
			shared[i] += w * w
		}
	}
	for i, r := range u.all {
		if r.Lower == 0 || shared[i] < minSimilar*minSimilar*size { // its own terms weigh at least shared[i]
			continue
		}
		similar := shared[i] / math.Sqrt(size*x.squaredWeight(r.Terms))
		words := wordsBoost * math.Pow(similar, similarPower) * saturate(r.Lower, wordsHalf)
		name := toolName{r.Server, r.Tool}
		if similar >= minSimilar && words > led[name].Words {
			led[name] = Boost{u.used[name].Used, words, r.Terms}
		}
	}
	for name, b := range u.used {
		if l, ok := led[name]; ok {
			b = l
		}
		add(name.server, name.tool, b)
	}
}

// saturate returns 0 for no search, .5 for half, and at most 1.
func saturate(searches, half int) float64 { return float64(searches) / float64(searches+half) }

func (x *Index) squaredWeight(terms []string) (sum float64) {
	for _, t := range terms {
		w := x.termWeight(t)
		sum += w * w
	}
	return sum
}

// termWeight returns the weight of a term in a comparison of two texts.
func (x *Index) termWeight(t string) float64 {
	weight := x.unknownIDF
	if i, ok := x.term[t]; ok {
		weight = float64(x.docs.idf[i])
	}
	if loadLexicon().weak[t] {
		weight *= weakFactor
	}
	return weight
}
