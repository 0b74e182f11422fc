package detect

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

// wordKind is the set of the kinds that a word may have.
type wordKind uint8

const (
	given wordKind = 1 << iota
	commonGiven
	surname
	commonSurname
	english // a word of English
	thing   // part of the name of something else, as in "Jackson Street"
)

// names.txt.gz is written by scripts/names-in-prose, which documents its format and sources.
//
//go:embed names.txt.gz
var names []byte

// lexicon returns the kinds of names and words in lower case without accents. The first call
// reads the list.
var lexicon = sync.OnceValue(func() map[string]wordKind {
	z, err := gzip.NewReader(bytes.NewReader(names))
	if err != nil {
		panic(err) // the list is part of the program
	}
	list, err := io.ReadAll(z)
	if err != nil {
		panic(err)
	}
	kinds, word := make(map[string]wordKind, 150_000), make([]byte, 0, 32)
	for _, c := range list {
		switch {
		case class[c]&digit != 0:
			word = word[:c-'0']
		case class[c]&lower != 0:
			word = append(word, c)
		default:
			kinds[string(word)] = wordKind(c - '@')
		}
	}
	for w := range strings.FieldsSeq(things) {
		kinds[w] |= thing
	}
	return kinds
})

// IsEnglish reports whether a word is one of English, also if it is a name too.
func IsEnglish(word string) bool { return lexicon()[fold(word)]&(english|thing) != 0 }

// kind returns the kinds of a word: those of the whole, or else those that all its parts
// between hyphens have.
func (p *pass) kind(word string) wordKind {
	var buf [maxNameWord]byte
	n := 0
	for i := range len(word) {
		switch c := class[word[i]]; {
		case c&letter != 0:
			buf[n] = word[i] | 0x20
			n++
		case word[i] != '\'':
			return p.foldedKind(fold(word))
		}
	}
	return p.names[string(buf[:n])]
}

func (p *pass) foldedKind(word string) wordKind {
	if k, ok := p.names[strings.ReplaceAll(word, "-", "")]; ok {
		return k
	}
	all := ^wordKind(0)
	for part := range strings.SplitSeq(word, "-") {
		all &= p.names[part]
	}
	return all
}

// unaccented has letters that do not decompose into a letter and an accent.
var unaccented = strings.NewReplacer("ł", "l", "Ł", "l", "ø", "o", "Ø", "o", "đ", "d", "Đ", "d", "ß", "ss", "æ", "ae", "Æ", "ae", "ı", "i", "ð", "d", "þ", "th")

// fold returns a word in lower case without accents.
func fold(word string) string {
	for i := range len(word) {
		if word[i] >= utf8.RuneSelf {
			word = norm.NFD.String(unaccented.Replace(word))
			break
		}
	}
	out := make([]byte, 0, 40)
	for i := range len(word) {
		switch c := class[word[i]]; {
		case c&upper != 0:
			out = append(out, word[i]|0x20)
		case c&lower != 0 || word[i] == '-':
			out = append(out, word[i])
		}
	}
	return string(out)
}
