package detect

import "strings"

// salutation examines "Dear", "Mr" and similar words for the name that follows.
func (p *pass) salutation(start, end int) {
	if end-start > 4 || p.is(start-1, tokens|high) {
		return
	}
	i := end
	switch p.text[start:end] {
	case "Dear":
		i = p.title(end)
	case "Mr", "Mrs", "Ms", "Miss", "Prof":
		i = p.dot(end)
	case "Dr":
		if p.at(start-1) == ' ' && p.is(start-2, alnum) && p.at(end) == '.' { // "12 Elm Dr."
			return
		}
		i = p.dot(end)
	default:
		return
	}
	p.person(i)
}

func (p *pass) dot(i int) int {
	if p.at(i) == '.' {
		i++
	}
	return i
}

// title skips a title after "Dear".
func (p *pass) title(i int) int {
	rest := p.text[i:min(len(p.text), i+8)]
	for _, t := range []string{" Mr", " Mrs", " Ms", " Miss", " Dr", " Prof"} {
		if after, ok := strings.CutPrefix(rest, t); ok && after != "" && (after[0] == ' ' || after[0] == '.') {
			return p.dot(i + len(t))
		}
	}
	return i
}

// notNames lists words after "Dear" that are not names.
var notNames = map[string]bool{"Sir": true, "Madam": true, "Team": true, "Customer": true, "All": true, "Colleague": true, "Colleagues": true,
	"Friend": true, "Friends": true, "Hiring": true, "User": true, "Users": true, "Reader": true, "Support": true, "Members": true}

// person adds up to three capitalized words after the space at i.
func (p *pass) person(i int) {
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
		p.add(Name, start, end, 0.7)
	}
}
