package encoded

import (
	"slices"

	"github.com/sandpiper-mcp/sandpiper/internal/privacy/detect"
)

// Classes of the bytes of a slug.
const (
	ofWord = 1 << iota // a letter, a digit or a part of a longer character
	ofDigit
	joins // may be written for a blank
)

var slugClass = func() (c [256]uint8) {
	for b := range c {
		switch {
		case b >= '0' && b <= '9':
			c[b] = ofWord | ofDigit
		case b >= 'a' && b <= 'z' || b >= 'A' && b <= 'Z' || b >= 0x80:
			c[b] = ofWord
		}
	}
	for _, b := range []byte("._-/\\+~,:;|'") {
		c[b] = joins
	}
	return c
}()

// slugs finds known values of several words in file names, URLs and identifiers, where other
// characters separate the words: "Ada_Lovelace.txt". Those between digits are no separators.
func (f Finder) slugs(text string) []detect.Finding {
	if f.Joined == nil {
		return nil
	}
	s := squeezer{Finder: f, source: text, search: f.Joined}
	from := 0 // end of the last slug
	for i := 1; i+1 < len(text); i++ {
		if slugClass[text[i]] != joins || slugClass[text[i-1]]&ofWord == 0 || !joinsWords(text, i) {
			continue
		}
		start := i
		for start > from && slugClass[text[start-1]] != 0 {
			start--
		}
		i = s.slug(start)
		if from = i; len(s.text) >= maxSheet {
			s.read(overlap)
		}
	}
	if len(s.text) > 0 {
		s.read(0)
	}
	return append(s.found, s.words(f.Joined(text, nil))...)
}

// minJoined is the number of bytes of the shortest value whose words are found without anything
// between them: shorter ones occur by chance, unless they have capitals as in "AnnLi".
const minJoined = 8

// hasHump reports whether a word has a capital after a small letter.
func hasHump(word string) bool {
	for i := 1; i < len(word); i++ {
		if word[i]-'A' < 26 && word[i-1]-'a' < 26 {
			return true
		}
	}
	return false
}

// words removes what is not one word in the source, as "AdaLovelace" is.
func (s *squeezer) words(found []detect.Finding) []detect.Finding {
	return slices.DeleteFunc(found, func(f detect.Finding) bool {
		for i := f.Start; i < f.End; i++ {
			if slugClass[s.source[i]] != ofWord {
				return true
			}
		}
		return f.End-f.Start < minJoined && !hasHump(s.source[f.Start:f.End]) || s.plain(f)
	})
}

// maxJoin is the number of characters that may separate two words.
const maxJoin = 3

// joinsWords reports whether the characters at i are between words.
func joinsWords(text string, i int) bool {
	j := i + 1
	for j+1 < len(text) && j-i < maxJoin && slugClass[text[j]] == joins {
		j++
	}
	before, after := slugClass[text[i-1]], slugClass[text[j]]
	return before&after&ofWord != 0 && before&after&ofDigit == 0
}

// slug puts the words of the slug that begins at i, and the byte after it. It returns its end.
func (s *squeezer) slug(i int) int {
	text, start := s.source, i
	for ; i < len(text) && slugClass[text[i]] != 0; i++ {
		if slugClass[text[i]] != joins || i > 0 && i+1 < len(text) && slugClass[text[i-1]]&slugClass[text[i+1]]&ofDigit != 0 {
			continue
		}
		s.put(start, i)
		s.gaps = append(s.gaps, len(s.text))
		start = i + 1
	}
	s.put(start, min(len(text), i+1))
	return i
}
