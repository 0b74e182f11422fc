// Package lexicon tells names of persons from other words of prose.
//
// Terms: a kind is what a word can be, a given name, a surname, a word of English; most words of
// the list have several. The list is part of the program, is read once, on first use, and is safe
// for concurrent use. The package does not decide whether a word in a text is a name.
package lexicon

import (
	"bytes"
	"compress/gzip"
	_ "embed"
	"io"
	"strings"
	"sync"
	"unicode/utf8"

	"golang.org/x/text/unicode/norm"
)

// Kind is the set of the kinds that a word may have.
type Kind uint8

// The kinds of words.
const (
	Given Kind = 1 << iota
	CommonGiven
	Surname
	CommonSurname
	English // a word of English
	Thing   // part of the name of something else, as in "Jackson Street"
)

// names.txt.gz is written by scripts/names-in-prose, which documents its format and sources.
//
//go:embed names.txt.gz
var names []byte

// Words has the kinds of names and words in lower case without accents.
type Words map[string]Kind

// Load returns the words of the list. The first call reads it.
var Load = sync.OnceValue(func() Words {
	z, err := gzip.NewReader(bytes.NewReader(names))
	if err != nil {
		panic(err) // the list is part of the program
	}
	list, err := io.ReadAll(z)
	if err != nil {
		panic(err)
	}
	kinds, word := make(Words, 150_000), make([]byte, 0, 32)
	for _, c := range list {
		switch {
		case c >= '0' && c <= '9':
			word = word[:c-'0']
		case c >= 'a' && c <= 'z':
			word = append(word, c)
		default:
			kinds[string(word)] = Kind(c - '@')
		}
	}
	for w := range strings.FieldsSeq(things) {
		kinds[w] |= Thing
	}
	return kinds
})

// IsEnglish reports whether a word is one of English, also if it is a name too.
func IsEnglish(word string) bool { return Load()[Fold(word)]&(English|Thing) != 0 }

// Kind returns the kinds of a word: those of the whole, or else those that all its parts
// between hyphens have.
func (w Words) Kind(word string) Kind {
	var buf [32]byte
	if len(word) > len(buf) {
		return w.foldedKind(Fold(word))
	}
	n := 0
	for i := range len(word) {
		switch c := word[i] | 0x20; {
		case c >= 'a' && c <= 'z':
			buf[n] = c
			n++
		case word[i] != '\'':
			return w.foldedKind(Fold(word))
		}
	}
	return w[string(buf[:n])]
}

func (w Words) foldedKind(word string) Kind {
	if k, ok := w[strings.ReplaceAll(word, "-", "")]; ok {
		return k
	}
	all := ^Kind(0)
	for part := range strings.SplitSeq(word, "-") {
		all &= w[part]
	}
	return all
}

// unaccented has letters that do not decompose into a letter and an accent.
var unaccented = strings.NewReplacer("ł", "l", "Ł", "l", "ø", "o", "Ø", "o", "đ", "d", "Đ", "d", "ß", "ss", "æ", "ae", "Æ", "ae", "ı", "i",
	"ð", "d", "þ", "th")

// Fold returns a word in lower case without accents.
func Fold(word string) string {
	for i := range len(word) {
		if word[i] >= utf8.RuneSelf {
			word = norm.NFD.String(unaccented.Replace(word))
			break
		}
	}
	out := make([]byte, 0, 40)
	for i := range len(word) {
		switch c := word[i]; {
		case c >= 'A' && c <= 'Z':
			out = append(out, c|0x20)
		case c >= 'a' && c <= 'z' || c == '-':
			out = append(out, c)
		}
	}
	return string(out)
}
