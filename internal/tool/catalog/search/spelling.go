package search

import (
	"cmp"
	"slices"
	"unicode"
	"unicode/utf8"

	"github.com/sandpiper-mcp/sandpiper/internal/fault"
)

// notWord reports whether r is neither a letter nor a digit.
func notWord(r rune) bool {
	if r < utf8.RuneSelf {
		return (r|0x20 < 'a' || r|0x20 > 'z') && (r < '0' || r > '9')
	}
	return !unicode.IsLetter(r) && !unicode.IsDigit(r)
}

func absDiff(a, b int) int { return max(a-b, b-a) }

// spelling corrects typos.
type spelling struct {
	words     []string
	terms     []int32
	size      []int32            // number of docs with the term
	byTrigram map[string][]int32 // indexes of the words that contain a trigram
}

// minTypoLen is the minimum length of a corrected word. Shorter words are too similar to each other.
const minTypoLen = 5

func newSpelling(word map[string]int32, r *ranking) *spelling {
	s := &spelling{byTrigram: map[string][]int32{}}
	for w := range word {
		if len(w) >= minTypoLen-1 && plain(w) {
			s.words = append(s.words, w)
		}
	}
	slices.Sort(s.words)
	for i, w := range s.words {
		s.terms = append(s.terms, word[w])
		s.size = append(s.size, int32(len(r.docs.of[word[w]])))
		for _, g := range trigrams(w) {
			s.byTrigram[g] = append(s.byTrigram[g], int32(i))
		}
	}
	return s
}

// plain reports whether a word consists of the letters a to z.
func plain(w string) bool {
	for i := range len(w) {
		if w[i] < 'a' || w[i] > 'z' {
			return false
		}
	}
	return true
}

// trigrams returns the distinct trigrams of a word, including its start and end.
func trigrams(w string) (gs []string) {
	w = "^" + w + "$"
	for i := 0; i+3 <= len(w); i++ {
		if !slices.Contains(gs, w[i:i+3]) {
			gs = append(gs, w[i:i+3])
		}
	}
	return gs
}

// nearest is dictionary.correct for a word of letters of a suitable length.
func (s *spelling) nearest(w string) int32 {
	most := 1
	if len(w) >= 9 {
		most = 2
	}
	gs := trigrams(w)
	shared := map[int32]int{}
	for _, g := range gs {
		for _, i := range s.byTrigram[g] {
			shared[i]++
		}
	}
	found, nearest := int32(-1), most+1
	for i, n := range shared {
		// One error changes three trigrams, a transposition four.
		if n < len(gs)-4*most || absDiff(len(s.words[i]), len(w)) > most {
			continue
		}
		d := distance(w, s.words[i])
		if d < nearest || d == nearest && found >= 0 && s.moreFrequent(i, found) {
			found, nearest = i, d
		}
	}
	if found < 0 {
		return -1
	}
	return s.terms[found]
}

func (s *spelling) moreFrequent(i, j int32) bool {
	return cmp.Or(cmp.Compare(s.size[j], s.size[i]), cmp.Compare(i, j)) < 0
}

// distance counts differences. A transposition counts as one.
func distance(a, b string) int {
	if len(a) == len(b) {
		for i := 0; i+1 < len(a); i++ {
			if a[i] != b[i] {
				if a[i] == b[i+1] && a[i+1] == b[i] && a[i+2:] == b[i+2:] {
					return 1
				}
				break
			}
		}
	}
	return fault.EditDistance(a, b)
}
