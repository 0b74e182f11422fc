package detect

import "strings"

var lineLabels = recognizer{
	Anchors: []anchor{{Text: ": "}},
	Find:    findLineLabel,
	Examples: []string{
		"Surname: «Lovelace»¶Address: «12 Main Street, Springfield»¶Phone: «5551234567»",
		"Name: Blue Lamp, surname: Lovelace and address: 10.0.0.1",
	},
}

// findLineLabel examines a ':' after a line that so far has only words.
func findLineLabel(p *passage, colon, _ int) {
	if p.at(colon-1) < 'a' {
		return
	}
	first := colon
	for first > 0 && colon-first < 24 && (p.is(first-1, letter) || p.text[first-1] == ' ' || p.text[first-1] == '_') {
		first--
	}
	if first > 0 && p.text[first-1] != '\n' && p.text[first-1] != '"' { // a JSON string often contains output lines
		return
	}
	end := colon + 1
	for end < len(p.text) && end-colon < maxValue && p.text[end] != '\n' && p.text[end] != '\r' && p.text[end] != '\\' &&
		p.text[end] != '"' {
		end++
	}
	have := len(p.found)
	addKeyed(p, p.text[first:colon], colon+1, end)
	for i := have; i < len(p.found); i++ {
		if p.found[i].Type == nameInObject {
			p.found[i].Type = nameInLine
		}
	}
	addKeyEvidence(p, p.text[first:colon], first)
}

const maxValue = 200

var quotedKeys = recognizer{
	Anchors: []anchor{{Text: ":"}},
	Find:    findQuotedKey,
	Examples: []string{
		`{"first_name": "«Zoë»", "phones": ["«5551234567»", "«5551234568»"], "ssn": «123456789»}`,
		`{\"full_name\": \"«Ada Lovelace»\", 'address': '«12 Main St, Springfield»'}`,
		`{"first_name": null, "phone": "none", "address": "10.0.0.1", "title": "Ada Lovelace"} first_name: Ada`,
	},
}

// findQuotedKey examines a ':' after a quoted key.
func findQuotedKey(p *passage, colon, _ int) {
	quote := p.at(colon - 1)
	if quote != '"' && quote != '\'' {
		return
	}
	end := colon - 1
	slash := p.at(end-1) == '\\'
	if slash {
		end--
	}
	first := end
	for first > 0 && end-first <= maxKey && p.text[first-1] != quote {
		first--
	}
	if first == end || end-first > maxKey {
		return
	}
	key := p.text[first:end]
	if _, ok := p.keys.find(key); !ok {
		return
	}
	addKeyEvidence(p, key, first)
	i := colon + 1
	list := false
	for i < len(p.text) && i-colon < 32 && strings.IndexByte(" \t\r\n[", p.text[i]) >= 0 {
		list = list || p.text[i] == '['
		i++
	}
	for n := 0; n < 16; n++ {
		i = addElement(p, key, i, quote, slash)
		if !list || p.at(i) != ',' {
			return
		}
		for i++; i < len(p.text) && strings.IndexByte(" \t\r\n", p.text[i]) >= 0 && i-colon < 4096; i++ {
		}
	}
}

// addElement examines the string or number at i and returns the position after it.
func addElement(p *passage, key string, i int, quote byte, slash bool) int {
	for n := 0; slash && n < 4 && p.at(i) == '\\'; n++ {
		i++
	}
	if p.at(i) != quote {
		end := i
		for end-i < maxValue && (p.is(end, digit) || p.at(end) == '.') {
			end++
		}
		addKeyed(p, key, i, end)
		return end
	}
	i++
	end := i
	for end < len(p.text) && end-i < maxValue && p.text[end] != quote && p.text[end] != '\n' {
		if p.text[end] == '\\' && !slash {
			end++
		}
		end++
	}
	if p.at(end) != quote {
		return end
	}
	stop := end
	for slash && stop > i && p.text[stop-1] == '\\' {
		stop--
	}
	addKeyed(p, key, i, stop)
	return end + 1
}

func addKeyEvidence(p *passage, key string, start int) {
	p.found = p.keys.addEvidence(p.found, key, p.base+start)
}

func addKeyed(p *passage, key string, start, end int) {
	if start >= end {
		return
	}
	have := len(p.found)
	p.found = p.keys.addHinted(p.found, p.text, key, start, end)
	for i := have; i < len(p.found); i++ {
		p.found[i].Start += p.base
		p.found[i].End += p.base
	}
}
