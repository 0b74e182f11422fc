package search

import (
	"strings"
	"unicode"
	"unicode/utf8"

	"golang.org/x/text/unicode/norm"
)

// word is one word of a text, in lower case.
type word struct {
	text string
	// part is set if the word is a part of a preceding word, such as hub of GitHub.
	part bool
	// ends is set at the end of a sentence or clause.
	ends bool
	// known is set once the word was counted.
	known *known
}

// maxWordLen is the maximum length of a word in bytes. Longer runs, such as hashes
// and encoded data, are ignored.
const maxWordLen = 40

// words splits a text into lower-case words without accents: each run of letters and
// digits, also split at changes of case such as in listIssues or HTTPServer. Chinese,
// Japanese and Korean characters are words, singly and in pairs.
func words(text string) []word {
	if text == "" {
		return nil
	}
	text = fold(text)
	ws := make([]word, 0, len(text)/6+1)
	for len(text) > 0 {
		n := runLength(text)
		if n == 0 {
			r, size := utf8.DecodeRuneInString(text)
			if len(ws) > 0 && endsClause(r, text[size:]) {
				ws[len(ws)-1].ends = true
			}
			text = text[size:]
			continue
		}
		ws = appendRun(ws, text[:n])
		text = text[n:]
	}
	return ws
}

// endsClause reports whether r, followed by rest, ends a clause.
func endsClause(r rune, rest string) bool {
	switch r {
	case '\n', ';', '?', '!', '。', '，', ',', ':', '(', ')':
		return true
	case '.':
		return rest == "" || rest[0] == ' ' || rest[0] == '\n'
	}
	return false
}

// fold removes accents and replaces compatibility characters. Most texts have neither.
func fold(text string) string {
	for i := 0; i < len(text); i++ {
		if text[i] >= utf8.RuneSelf {
			return strings.Map(func(r rune) rune {
				if unicode.Is(unicode.Mn, r) {
					return -1
				}
				return r
			}, norm.NFKD.String(text))
		}
	}
	return text
}

// runLength returns the length of the letters and digits at the start of text.
func runLength(text string) int {
	for i := range len(text) {
		if text[i] >= utf8.RuneSelf {
			if n := strings.IndexFunc(text[i:], notWord); n >= 0 {
				return i + n
			}
			return len(text)
		}
		if notWord(rune(text[i])) {
			return i
		}
	}
	return len(text)
}

func appendRun(ws []word, text string) []word {
	if plain(text) && len(text) <= maxWordLen { // most words
		return append(ws, word{text: text})
	}
	if strings.ContainsFunc(text, ideograph) {
		return appendIdeographs(ws, text)
	}
	if len(text) > maxWordLen {
		return ws
	}
	ws = append(ws, word{text: strings.ToLower(text)})
	for rest := text; ; {
		n := firstPart(rest)
		if n == len(text) {
			return ws
		}
		ws = append(ws, word{text: strings.ToLower(rest[:n]), part: true})
		if rest = rest[n:]; rest == "" {
			return ws
		}
	}
}

func ideograph(r rune) bool {
	return r >= 0x1100 && unicode.In(r, unicode.Han, unicode.Hiragana, unicode.Katakana, unicode.Hangul)
}

// appendIdeographs appends each character and each pair of adjacent characters.
func appendIdeographs(ws []word, text string) []word {
	before := rune(0)
	for _, r := range text {
		r = unicode.ToLower(r)
		ws = append(ws, word{text: string(r)})
		if before != 0 {
			ws = append(ws, word{text: string(before) + string(r), part: true})
		}
		before = r
	}
	return ws
}

// firstPart returns the length of the first part of a run: HTTPServer2 has the parts
// HTTP, Server and 2.
func firstPart(text string) int {
	var before rune
	for i, r := range text {
		_, size := utf8.DecodeRuneInString(text[i:])
		after, _ := utf8.DecodeRuneInString(text[i+size:])
		switch {
		case i == 0:
		case unicode.IsDigit(before) != unicode.IsDigit(r):
			return i
		case unicode.IsUpper(r) && !unicode.IsUpper(before):
			return i
		case unicode.IsUpper(r) && unicode.IsLower(after) && !plural(text[i:]):
			return i
		}
		before = r
	}
	return len(text)
}

// plural reports whether text is the last letter and plural s of an abbreviation, as
// in URLs.
func plural(text string) bool { return len(text) == 2 && text[1] == 's' }
