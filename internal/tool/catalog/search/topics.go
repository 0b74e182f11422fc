package search

import (
	"slices"
	"sort"
	"strings"
	"unicode"
)

// Limits of Topics.
const (
	maxTopicWords = 6  // of a part between commas; longer ones are clauses of a sentence
	maxLineWords  = 12 // of a line that is a topic
	maxTopics     = 12
)

// TopicSeparator separates topics that the caller lists.
const TopicSeparator = "\x1f"

// Topic is one of several things that a query asks for.
type Topic struct {
	Name string // as it is in the query
	Text string // for the search: Name with the verb of the topics before
	// Whole is the entire text, if "and" alone separates the others: it may also be about one thing.
	Whole bool
}

// Topics returns the topics of a text that lists several things to find: its lines and the parts
// between semicolons, and the parts between commas and "and" if all are short and each names a
// thing. A part without a word that could name a thing, as of "find and replace", belongs to the
// next one, and one of values only, such as names, to the one before. A topic without a verb has
// that of the one before. The result is nil for a text about one thing.
func Topics(text string) (all []Topic) {
	if strings.Contains(text, TopicSeparator) {
		for part := range strings.SplitSeq(text, TopicSeparator) {
			if part = strings.TrimSpace(part); part != "" {
				all = append(all, Topic{Name: part, Text: part})
			}
		}
		return all
	}
	if isSentences(text) {
		return nil
	}
	var lines []string
	for line := range strings.FieldsFuncSeq(text, func(r rune) bool { return r == '\n' || r == ';' }) {
		if line = strings.TrimSpace(line); line == "" {
			continue
		}
		if len(strings.Fields(line)) > maxLineWords && !strings.Contains(line, ",") {
			return nil
		}
		lines = append(lines, line)
	}
	for _, line := range lines {
		names := splitLine(line)
		if len(lines) == 1 && len(names) > 1 && !strings.Contains(line, ",") {
			all = append(all, Topic{line, line, true})
		}
		all = append(all, withVerbs(names)...)
	}
	if len(all) < 2 || len(all) > maxTopics {
		return nil
	}
	return all
}

// splitLine splits a line at commas and "and".
func splitLine(line string) (names []string) {
	known := loadLexicon()
	for _, part := range splitList(line) {
		if len(strings.Fields(part)) > maxTopicWords {
			return []string{line}
		}
		last := len(names) - 1
		if last >= 0 && (isValue(part) || !known.hasThing(part) || !known.hasThing(names[last])) {
			names[last] += " and " + part
			continue
		}
		names = append(names, part)
	}
	return names
}

// withVerbs returns the topics of these names.
func withVerbs(names []string) (all []Topic) {
	verb := ""
	for _, name := range names {
		text := name
		first, _, _ := strings.Cut(name, " ")
		switch {
		case loadLexicon().actions[stem(strings.ToLower(first))] != 0:
			verb = first
		case verb != "":
			text = verb + " " + name
		}
		all = append(all, Topic{Name: name, Text: text})
	}
	return all
}

// splitList returns the trimmed parts of a line between commas and "and".
func splitList(line string) (all []string) {
	for part := range strings.SplitSeq(line, ",") {
		var words []string
		flush := func() {
			if len(words) > 0 {
				all = append(all, strings.Join(words, " "))
			}
			words = nil
		}
		for w := range strings.FieldsSeq(part) {
			if strings.EqualFold(w, "and") || w == "&" || w == "+" {
				flush()
				continue
			}
			words = append(words, w)
		}
		flush()
	}
	return all
}

// isSentences reports whether a text has several sentences, a question, quoted text or code.
func isSentences(text string) bool {
	text = strings.TrimRight(text, " .\n")
	return strings.ContainsAny(text, "?!\"'`()[]{}:=") || strings.Contains(text, ". ") || strings.Contains(text, ".\n")
}

// isValue reports whether all words of a part look like names, numbers or codes.
func isValue(part string) bool {
	for w := range strings.FieldsSeq(part) {
		if !strings.ContainsFunc(w, func(r rune) bool { return unicode.IsUpper(r) || unicode.IsDigit(r) }) {
			return false
		}
	}
	return true
}

// hasThing reports whether a text has a word that could name a thing: one that is no verb of the
// lexicon, and neither a stop word nor a weak one.
func (l *lexicon) hasThing(text string) bool {
	return slices.ContainsFunc(words(text), func(w word) bool { return l.isThing(w.text) })
}

func (l *lexicon) isThing(word string) bool {
	s := stem(word)
	return len(word) > 1 && !l.stop[word] && !l.weak[s] && l.actions[s] == 0
}

// Fits reports for each of the docs whether it has a word of the text that names a thing, or a
// synonym of one in its name or first sentence. All fit a text without such a word.
func (x *Index) Fits(text string, docs []int) []bool {
	terms, synonyms, any := x.things(text)
	fits := make([]bool, len(docs))
	lower := strings.ToLower(strings.TrimSpace(text))
	for i, d := range docs {
		fits[i] = !any || strings.Contains(x.texts[d], lower) ||
			slices.ContainsFunc(terms, func(t int32) bool { return hasDoc(x.docs.of[t], d) }) ||
			slices.ContainsFunc(synonyms, func(t int32) bool { return slices.Contains(x.features[d].opening, t) })
	}
	return fits
}

// hasDoc reports whether a doc is among the postings, which are in the order of the docs.
func hasDoc(of []posting, doc int) bool {
	at := sort.Search(len(of), func(k int) bool { return of[k].id >= int32(doc) })
	return at < len(of) && of[at].id == int32(doc)
}

// things returns the terms of the words of a text that name things, or of the most similar words if they
// are misspelled; the terms of their synonyms; and whether there is such a word.
func (x *Index) things(text string) (terms, synonyms []int32, any bool) {
	known := loadLexicon()
	before := ""
	for _, w := range words(text) {
		s, t := x.find(w.text)
		if j := x.joined(before, w.text, s); before != "" && !w.part && j >= 0 {
			terms = append(terms, j)
		}
		before = w.text
		if !known.isThing(w.text) {
			continue
		}
		any = true
		if t < 0 && known.related[s] == nil {
			t = x.correct(w.text)
		}
		if t >= 0 {
			terms = append(terms, t)
		}
		for _, r := range known.related[s] {
			if u, ok := x.term[r.stem]; ok && r.factor >= pointFactor {
				synonyms = append(synonyms, u)
			}
		}
	}
	return terms, synonyms, any
}
