package catalog

import (
	"iter"
	"strings"
	"unicode"
	"unicode/utf8"
)

// categories lists the inferred categories with their keywords. Of equal scores the
// first category wins.
var categories = []struct{ name, words string }{
	{"dev", "git github gitlab bitbucket repository repositories commit branch merge pull issue code lint eslint build ci pipeline npm " +
		"package debug compiler framework angular next component"},
	{"browser", "browser page click screenshot navigate puppeteer playwright devtools chrome dom scrape crawl"},
	{"search", "search web query engine results crawl answer exa brave tavily"},
	{"data", "database sql table query schema collection index mongodb postgres sqlite redis elasticsearch warehouse record rows"},
	{"cloud", "cloud kubernetes cluster pod container deploy azure aws gcp cloudflare worker resource subscription region vm docker"},
	{"files", "file files directory folder drive read write path filesystem document upload download"},
	{"communication", "email mail message channel slack chat send sms call contact notification"},
	{"productivity", "task calendar event note notes project board page block todo meeting reminder document notion"},
	{"business", "customer crm order invoice payment product shop store deal sales account hubspot salesforce shopify stripe"},
	{"maps", "map maps place places route directions geocode distance location weather forecast"},
	{"media", "image video audio design figma music photo render speech"},
	{"memory", "memory knowledge entity entities graph remember recall relation observations thinking thought"},
	{"security", "security vulnerability secret alert incident sentry error monitoring scan threat"},
	{"math", "calculate calculator add multiply number math equation statistics"},
}

// general is the category of a server without keywords.
const general = "general"

// inferCategory infers the category of a server from its texts, once: its name has most weight, then
// the names of its tools, then descriptions.
func (l *listing) inferCategory(name string) string {
	return l.category.once(func() string { return categoryOf(name, l) })
}

func categoryOf(name string, l *listing) string {
	score := newScores()
	count := func(text string, weight float64) {
		for w := range words(text) {
			if n, ok := score[string(w)]; ok { // which does not copy w
				*n += weight
			}
		}
	}
	count(name, 20)
	count(l.Title, 10)
	count(l.Instructions, 0.2)
	for _, k := range l.Tools {
		count(k.Trusted.Tool, 3/float64(len(l.Tools)))
		count(k.Trusted.Description, 0.5/float64(len(l.Tools)))
	}
	best, most := general, 0.5
	for _, c := range categories {
		sum := 0.0
		for _, w := range strings.Fields(c.words) {
			sum += *score[w]
		}
		if sum > most {
			best, most = c.name, sum
		}
	}
	return best
}

// newScores returns zero for each keyword.
func newScores() map[string]*float64 {
	score := map[string]*float64{}
	for _, c := range categories {
		for _, w := range strings.Fields(c.words) {
			score[w] = new(float64)
		}
	}
	return score
}

// words splits text at characters that are not letters and at capitals, and returns the words in lower
// case, each until the next one.
func words(text string) iter.Seq[[]byte] {
	return func(yield func([]byte) bool) {
		var buffer [64]byte
		word, lower := buffer[:0], false // lower is whether the character before was a lower-case letter
		for _, r := range text {
			letter := unicode.IsLetter(r)
			if len(word) > 0 && (!letter || lower && unicode.IsUpper(r)) {
				if !yield(word) {
					return
				}
				word = word[:0]
			}
			if letter {
				word = utf8.AppendRune(word, unicode.ToLower(r))
			}
			lower = unicode.IsLower(r)
		}
		if len(word) > 0 {
			yield(word)
		}
	}
}
