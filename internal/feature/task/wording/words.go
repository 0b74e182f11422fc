package wording

import (
	"strings"

	"github.com/sandpiper-mcp/sandpiper/internal/lazyregexp"
)

// Set returns the words of a text as a set.
func Set(Words string) map[string]bool {
	all := map[string]bool{}
	for _, w := range strings.Fields(Words) {
		all[w] = true
	}
	return all
}

// fillers are words that do not describe an adjacent value.
var fillers = Set(`a an the of to in on at for from by with and or is are be as into this that its it their his her me my please
	what which who whose where how much many do does did we i you named called Number Value equal between there then will`)

// verbs begin a clause, by their stems.
var verbs = func() map[string]bool {
	all := map[string]bool{}
	for w := range Set(`add append calculate call change check close compare compute convert copy count create delete echo edit fetch
		find forecast get list look make move multiply open put query read remove rename replace return run save search send Set show store
		subtract sum tell update work write average total`) {
		all[Stem(w)] = true
	}
	return all
}()

var word = lazyregexp.New(`[\p{L}\d]+`)

// Words returns the lower-case words of a text or a name: listIssues, list_issues and
// "list issues" have the same ones.
func Words(text string) []string {
	return word().FindAllString(strings.ToLower(humps().ReplaceAllString(text, "$1 $2")), -1)
}

var humps = lazyregexp.New(`([a-z\d])([A-Z])`)

// Stem returns a word without its usual endings, enough to compare words of short texts.
func Stem(w string) string {
	w = strings.ToLower(w)
	for _, end := range []string{"ations", "ation", "ing", "ies", "ied", "es", "ed", "s", "y", "e"} {
		if len(w) > len(end)+2 && strings.HasSuffix(w, end) {
			return w[:len(w)-len(end)]
		}
	}
	return w
}

// Stems returns the stems of the words of a text.
func Stems(text string) map[string]bool {
	all := map[string]bool{}
	for _, w := range Words(text) {
		all[Stem(w)] = true
	}
	return all
}

// wordsBefore returns the last three words of a text within its sentence, the last first, without
// fillers.
func wordsBefore(text string) (all []string) {
	if i := strings.LastIndexAny(text, ".;?!"); i >= 0 && i+1 < len(text) && text[i+1] == ' ' {
		text = text[i+1:]
	}
	found := Words(text)
	for i := len(found) - 1; i >= 0 && len(all) < 3; i-- {
		if w := found[i]; !fillers[w] && (w[0] < '0' || w[0] > '9') {
			all = append(all, found[i])
		}
	}
	return all
}

// firstWord returns the first word of a text if it is no filler and nothing but space is before it.
func firstWord(text string) string {
	text = strings.TrimLeft(text, " -")
	if at := word().FindStringIndex(text); at != nil && at[0] == 0 && !IsFiller(text[:at[1]]) {
		return strings.ToLower(text[:at[1]])
	}
	return ""
}

// IsFiller reports whether a word does not describe an adjacent value.
func IsFiller(w string) bool { return fillers[strings.ToLower(w)] }

// IsVerb reports whether a stem is that of a verb with which a clause may begin.
func IsVerb(stem string) bool { return verbs[stem] }
