package detect

import "strings"

// isStreet reports whether the words are part of an address, by the numbers around them.
func (p *pass) isStreet(start, end int) bool {
	if p.at(start-1) == ' ' && p.is(start-2, digit) {
		first := start - 2
		for start-first < 8 && p.is(first-1, digit) {
			first--
		}
		if c := p.at(first - 1); (c == 0 || c == ' ' || c == '\n' || c == '>') && !p.isYear(first) { // nor a date or time
			return true
		}
	}
	line := p.text[max(0, start-60):start]
	if strings.Contains(line[strings.LastIndexByte(line, '\n')+1:], "corner of ") {
		return true
	}
	return p.at(end) == ' ' && p.is(end+1, digit) && !p.is(end+5, digit) && !p.isYear(end+1)
}

// isYear reports whether the digits at i are a year.
func (p *pass) isYear(i int) bool {
	return (strings.HasPrefix(p.text[i:], "19") || strings.HasPrefix(p.text[i:], "20")) && p.is(i+2, digit) && p.is(i+3, digit) && !p.is(i+4, digit)
}

// isThing reports whether words after an article are part of the name of something else, as in
// "the Floyd Warshall algorithm".
func (p *pass) isThing(start, end int) bool {
	return p.afterArticle(start) && p.names[p.wordAfter(end)]&thing != 0
}

func (p *pass) afterArticle(start int) bool { return p.after(start, articles) }

// introduced reports whether the text around a name confirms that it is one: a mail address
// after it, or words before it.
func (p *pass) introduced(start, end int) bool {
	if after := p.text[end:min(len(p.text), end+80)]; strings.HasPrefix(after, " <") || strings.HasPrefix(after, "  <") || strings.HasPrefix(after, " (") || strings.HasPrefix(after, "\n<") {
		address, _, _ := strings.Cut(after[2:], " ")
		if strings.Contains(address, "@") {
			return true
		}
	}
	if p.at(start-1) == ' ' && p.at(start-2) == '[' && (strings.HasPrefix(p.text[end:], " ]") || p.at(end) == ']') {
		return true
	}
	return p.after(start, introductions)
}

// after reports whether one of the texts, which are in lower case, is directly before start.
func (p *pass) after(start int, texts []string) bool {
	before := strings.TrimRight(p.text[max(0, start-24):start], " ")
	if before == "" {
		return false
	}
	last := before[len(before)-1]
	if class[last]&upper != 0 {
		last |= 0x20
	}
	for _, t := range texts {
		at := len(before) - len(t)
		if at >= 0 && t[len(t)-1] == last && strings.EqualFold(before[at:], t) && (at == 0 || class[before[at-1]]&(alnum|high) == 0) {
			return true
		}
	}
	return false
}

// wordAfter returns the lower-case word after a space at i, or what begins with an apostrophe there.
func (p *pass) wordAfter(i int) string {
	start := i
	if p.at(i) == ' ' {
		start++
	} else if p.at(i) != '\'' && !strings.HasPrefix(p.text[min(i, len(p.text)):], "’") {
		return ""
	}
	end := start
	for end-start < 16 && (p.is(end, lower) || p.at(end) == '\'' || p.at(end) == '-' || start == i && p.is(end, high)) {
		end++
	}
	return p.text[min(start, len(p.text)):end]
}

// endsClause reports whether a clause ends at i.
func (p *pass) endsClause(i int) bool {
	return i == len(p.text) || strings.IndexByte(".,;!?\n)<", p.at(i)) >= 0
}

// sentence reports whether a sentence begins at i.
func (p *pass) sentence(i int) bool {
	before := strings.TrimRight(p.text[max(0, i-4):i], " ")
	return before == "" || strings.IndexByte(".!?\n>\"", before[len(before)-1]) >= 0
}

// inGroup reports whether a word is in a list of persons, as in "our founders: A, B and C".
func (p *pass) inGroup(w nameWord) bool {
	if w.isWord() {
		return false
	}
	at := w.start
	for range 10 {
		if p.after(at, groups) {
			return true
		}
		if at = p.previous(at); at < 0 {
			return false
		}
	}
	return false
}

// inList reports whether a word is in a list of given names. Surnames only are more often the
// name of a company.
func (p *pass) inList(w nameWord) bool {
	names, plain := 0, w.isGiven() && w.kind&commonSurname == 0
	count := func(o nameWord) {
		if o.isGiven() && !places[fold(p.text[o.start:o.end])] {
			names++
			plain = plain || o.kind&commonSurname == 0
		}
	}
	at := w.end
	for range 3 {
		o, ok := p.listed(at)
		if !ok {
			break
		}
		count(o)
		at = o.end
	}
	at = w.start
	for range 2 {
		if at = p.previous(at); at < 0 {
			break
		}
		o, ok := p.capital(at)
		if !ok {
			break
		}
		count(o)
	}
	return plain && (names > 0 && w.kind&given != 0 || names > 1 && w.isUnknown())
}

// listed returns the capitalized word after a separator of a list at i.
func (p *pass) listed(i int) (w nameWord, ok bool) {
	for _, sep := range []string{", and ", ", ", " and ", " or ", " & "} {
		if strings.HasPrefix(p.text[i:], sep) {
			return p.capital(i + len(sep))
		}
	}
	return w, false
}

// previous returns the start of the capitalized word before the one at i in a list, or -1.
func (p *pass) previous(i int) int {
	for _, sep := range []string{", and ", ", ", " and ", " or ", " & "} {
		if !strings.HasSuffix(p.text[max(0, i-len(sep)):i], sep) {
			continue
		}
		end := i - len(sep)
		start := end
		for start > 0 && end-start < maxNameWord && (p.is(start-1, letter|high) || p.at(start-1) == '-' || p.at(start-1) == '\'') {
			start--
		}
		if start < end && p.is(start, upper|high) {
			return start
		}
	}
	return -1
}

// nameEvidence returns what identifies a name in prose.
func (p *pass) nameEvidence(f Finding) (all []string) {
	p.names = lexicon()
	words := strings.FieldsFunc(p.text[f.Start:f.End], func(r rune) bool { return r == ' ' || r == '\n' })
	if p.kind(words[0])&given != 0 {
		all = append(all, "the first word is a given name")
	}
	if len(words) > 1 && p.kind(words[len(words)-1])&surname != 0 {
		all = append(all, "the last word is a surname")
	}
	if p.introduced(f.Start, f.End) {
		all = append(all, "the words before it, or the mail address after it")
	} else if len(all) == 0 || len(words) == 1 {
		all = append(all, "the words around it")
	}
	return all
}
