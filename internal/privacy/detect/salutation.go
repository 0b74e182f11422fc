package detect

import "strings"

var salutations = recognizer{
	Type:    Name,
	Anchors: []anchor{{First: "DMP", Lacks: digit, Most: longestSalutation}},
	Find:    findSalutation,
	Examples: []string{
		"Dear «Jane Doe», hello. Dear Mr. «O'Neill», Mrs. «Ada Lovelace» met Dr «Grace Hopper»",
		"Dear Sir or Madam, Dear Customer, Dear all, and I live on 5 Elm Dr. Springfield",
	},
}

// findSalutation examines "Dear", "Mr" and similar words for the name that follows.
func findSalutation(p *passage, start, end int) {
	if p.is(start-1, tokens|high) {
		return
	}
	i := end
	switch p.text[start:end] {
	case "Dear":
		i = afterTitle(p, end)
	case "Mr", "Mrs", "Ms", "Miss", "Prof":
		i = afterDot(p, end)
	case "Dr":
		if p.at(start-1) == ' ' && p.is(start-2, alnum) && p.at(end) == '.' { // "12 Elm Dr."
			return
		}
		i = afterDot(p, end)
	default:
		return
	}
	addPerson(p, i)
}

func afterDot(p *passage, i int) int {
	if p.at(i) == '.' {
		i++
	}
	return i
}

// afterTitle skips a title after "Dear".
func afterTitle(p *passage, i int) int {
	rest := p.text[i:min(len(p.text), i+8)]
	for _, t := range []string{" Mr", " Mrs", " Ms", " Miss", " Dr", " Prof"} {
		if after, ok := strings.CutPrefix(rest, t); ok && after != "" && (after[0] == ' ' || after[0] == '.') {
			return afterDot(p, i+len(t))
		}
	}
	return i
}

// notNames lists words after "Dear" that are not names.
var notNames = map[string]bool{"Sir": true, "Madam": true, "Team": true, "Customer": true, "All": true, "Colleague": true,
	"Colleagues": true,
	"Friend":     true, "Friends": true, "Hiring": true, "User": true, "Users": true, "Reader": true, "Support": true, "Members": true}

// addPerson adds up to three capitalized words after the space at i.
func addPerson(p *passage, i int) {
	start, end := i+1, i
	for n := 0; n < 3 && p.at(end) == ' ' && (p.is(end+1, upper) || p.is(end+1, high)); n++ {
		stop := end + 1
		for stop-end < 32 && (p.is(stop, letter|high) || (p.at(stop) == '-' || p.at(stop) == '\'') && p.is(stop+1, letter|high)) {
			stop++
		}
		if notNames[p.text[end+1:stop]] || stop-end >= 32 {
			break
		}
		end = stop
	}
	if end-start >= 2 && !p.is(end, digit) {
		p.add(start, end, 0.7)
	}
}
