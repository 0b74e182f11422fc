package known

import (
	"strings"
	"unicode"

	"golang.org/x/text/unicode/norm"

	"github.com/sandpiper-mcp/sandpiper/internal/privacy/detect"
	"github.com/sandpiper-mcp/sandpiper/internal/privacy/detect/lexicon"
)

// addWord makes a value that is one word known in any letter case in file names, URLs and
// identifiers: "QUARTERSTAFF-2.txt". In prose another case is another word ("Grace", "grace"), and
// English words are parts of names of everything: "grace_period".
func (x *Index) addWord(t detect.Type, text string) {
	if len(text) < minSlug || len(text) > maxSlug || !isWord(text) {
		return
	}
	for _, form := range append(cases(text), text, unmarked(text)) {
		if form = string(folded(nil, form)); len(form) < minSlug {
			continue
		}
		e := x.values[form]
		if e == nil {
			if e = x.put(&value{typ: t, form: form, slugOnly: true}); e == nil {
				continue
			}
		}
		e.Value.(*value).slug = true
		x.order.MoveToFront(e)
	}
}

// minSlug is the number of bytes of the shortest word that is found as a word of a slug.
const minSlug = 3

// addShortSlugs makes a value of two words known as file names and identifiers have it, although it is too
// short to be found without its gaps: "Li Wu" as "li_wu" and "LiWu".
func (x *Index) addShortSlugs(t detect.Type, text string) {
	words := strings.Fields(text)
	if len(words) != 2 || len(words[0]) < 2 || len(words[1]) < 2 || !isWord(words[0]) || !isWord(words[1]) {
		return
	}
	for _, between := range []string{"_", "-", "."} {
		x.add(t, string(folded(nil, words[0]+between+words[1])), true)
	}
	x.add(t, words[0]+words[1], true)
	x.add(t, strings.ToLower(words[0])+words[1], true)
}

// isWord reports whether text has letters only.
func isWord(text string) bool {
	return !strings.ContainsFunc(text, func(r rune) bool { return !unicode.IsLetter(r) })
}

// unmarked returns text without the marks of its letters.
func unmarked(text string) string {
	if isASCII(text) {
		return text
	}
	return strings.Map(func(r rune) rune {
		if unicode.Is(unicode.Mn, r) {
			return -1
		}
		return r
	}, norm.NFD.String(text))
}

// inSlug reports whether text[i:end] is a word of a slug and not one of English: no letter or digit
// continues it, and a character that joins words is next to it.
func inSlug(text string, i, end int) bool {
	return isSlugWord(text, i, end) && !lexicon.IsEnglish(text[i:end]) && !strings.EqualFold(text[i:end], "max")
}

func isSlugWord(text string, i, end int) bool {
	if isHump(text, end) && begins(text, i) { // quarterstaffReport
		return true
	}
	if !(begins(text, i) || text[i-1] == '_') || !(ends(text, end) || text[end] == '_') {
		return false
	}
	return i > 0 && joins(text[i-1]) && (text[i-1] == '/' || i > 1 && isWordByte(text[i-2])) ||
		end < len(text) && joins(text[end]) && (text[end] == '/' || end+1 < len(text) && isWordByte(text[end+1]))
}

// isHump reports whether a capital follows a small letter at i.
func isHump(text string, i int) bool {
	return i > 0 && i < len(text) && text[i]-'A' < 26 && text[i-1]-'a' < 26
}

func joins(b byte) bool { return strings.IndexByte("_-./\\+~", b) >= 0 }

func isWordByte(b byte) bool { return class[b]&(alnum|high) != 0 || joins(b) }
