package search

import (
	"cmp"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/agnivade/levenshtein"
)

// longestName is how much of a name is compared, in bytes.
const longestName = 100

// Nearest gives at most n tools whose names are nearly that name, the nearest
// first: what somebody may have meant who named a tool that does not exist.
func (x *Index) Nearest(name string, n int) []int {
	name = letters(strings.ToValidUTF8(cut(strings.ToLower(name), longestName), ""))
	if name == "" || n <= 0 {
		return nil
	}
	type near struct{ doc, distance int }
	var found []near
	most := max(2, utf8.RuneCountInString(name)/3)
	for d, other := range x.names {
		other = letters(other)
		if len(other) > 2*longestName || diff(len(other), len(name)) > 4*most {
			continue
		}
		distance := levenshtein.ComputeDistance(name, other)
		if distance > most && len(other) >= 4 && len(name) >= 4 && (strings.Contains(other, name) || strings.Contains(name, other)) {
			distance = most
		}
		if distance <= most && distance < len(other) {
			found = append(found, near{d, distance})
		}
	}
	slices.SortFunc(found, func(a, b near) int { return cmp.Or(cmp.Compare(a.distance, b.distance), cmp.Compare(a.doc, b.doc)) })
	docs := make([]int, 0, min(n, len(found)))
	for _, f := range found[:min(n, len(found))] {
		docs = append(docs, f.doc)
	}
	return docs
}

// letters leaves out what people forget first.
func letters(name string) string {
	return strings.Map(func(r rune) rune {
		if notWord(r) {
			return -1
		}
		return r
	}, name)
}

// notWord says whether r is neither letter nor digit.
func notWord(r rune) bool {
	if r < utf8.RuneSelf {
		return (r|0x20 < 'a' || r|0x20 > 'z') && (r < '0' || r > '9')
	}
	return !unicode.IsLetter(r) && !unicode.IsDigit(r)
}

func diff(a, b int) int { return max(a-b, b-a) }

// spelling finds the known word that a word with a typing error looks like.
type spelling struct {
	words []string
	terms []int32
	size  []int32            // how many docs have the term
	with  map[string][]int32 // by three letters: words that have them
}

// shortestTypo is the shortest word that is put right; a shorter one may be any.
const shortestTypo = 5

func newSpelling(word map[string]int32, r *ranking) spelling {
	s := spelling{with: map[string][]int32{}}
	for w := range word {
		if len(w) >= shortestTypo-1 && plain(w) {
			s.words = append(s.words, w)
		}
	}
	slices.Sort(s.words)
	for i, w := range s.words {
		s.terms = append(s.terms, word[w])
		s.size = append(s.size, int32(len(r.docs.of[word[w]])))
		for _, g := range trigrams(w) {
			s.with[g] = append(s.with[g], int32(i))
		}
	}
	return s
}

// plain says whether a word is of letters from a to z alone.
func plain(w string) bool {
	for i := range len(w) {
		if w[i] < 'a' || w[i] > 'z' {
			return false
		}
	}
	return true
}

// trigrams gives each three letters of a word once, its beginning and end too.
func trigrams(w string) (gs []string) {
	w = "^" + w + "$"
	for i := 0; i+3 <= len(w); i++ {
		if !slices.Contains(gs, w[i:i+3]) {
			gs = append(gs, w[i:i+3])
		}
	}
	return gs
}

// correct gives the term of the word that is one error away, or two if it is
// long; of several the nearest, then the most used; -1 if there is none.
func (s *spelling) correct(w string) int32 {
	if len(w) < shortestTypo || len(w) > longest || !plain(w) {
		return -1
	}
	most := 1
	if len(w) >= 9 {
		most = 2
	}
	gs := trigrams(w)
	shared := map[int32]int{}
	for _, g := range gs {
		for _, i := range s.with[g] {
			shared[i]++
		}
	}
	found, nearest := int32(-1), most+1
	for i, n := range shared {
		// One error spoils three trigrams, swapped neighbours four.
		if n < len(gs)-4*most || diff(len(s.words[i]), len(w)) > most {
			continue
		}
		d := distance(w, s.words[i])
		if d < nearest || d == nearest && found >= 0 && s.before(i, found) {
			found, nearest = i, d
		}
	}
	if found < 0 {
		return -1
	}
	return s.terms[found]
}

func (s *spelling) before(i, j int32) bool {
	return cmp.Or(cmp.Compare(s.size[j], s.size[i]), cmp.Compare(i, j)) < 0
}

// distance counts errors, swapped neighbours as one.
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
	return levenshtein.ComputeDistance(a, b)
}
