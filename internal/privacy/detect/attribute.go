package detect

import "strings"

// attributes returns the findings in values of attributes and contents of elements, by their
// names: name='Ada Lovelace', as in a repr of Python, first_name = "Ada",
// <street>1 Main Street</street>. Scan returns the findings without a key.
func attributes(keys *keyTable, text string) (found []Finding) {
	for at := 0; ; {
		i := strings.IndexAny(text[at:], "=<")
		if i < 0 {
			return found
		}
		at += i + 1
		key, start, end := "", 0, 0
		if text[at-1] == '=' {
			key, start, end = attribute(text, at-1)
		} else {
			key, start, end = element(text, at)
		}
		if text[at-1] == '<' {
			n := at
			for n < len(text) && n-at < maxKey && class[text[n]]&tokens != 0 {
				n++
			}
			found = keys.addEvidence(found, text[at:n], at)
		} else if key != "" {
			found = keys.addEvidence(found, key, strings.LastIndex(text[:at], key))
		}
		if start < end {
			found = keys.addHinted(found, text, key, start, end)
		}
	}
}

// attribute returns the name before a '=' and the range of the quoted text after it; both
// are 0 if there is none.
func attribute(text string, equals int) (key string, start, end int) {
	start = equals + 1
	for start < len(text) && start-equals < 3 && text[start] == ' ' {
		start++
	}
	if start == len(text) || text[start] != '\'' && text[start] != '"' {
		return "", 0, 0
	}
	last := equals
	for last > 0 && equals-last < 3 && text[last-1] == ' ' {
		last--
	}
	first := last
	for first > 0 && last-first < maxKey && (class[text[first-1]]&alnum != 0 || text[first-1] == '_' || text[first-1] == '-') {
		first--
	}
	n := strings.IndexAny(text[start+1:min(len(text), start+1+maxValue)], string(text[start])+"\n")
	if n < 0 || text[start+1+n] == '\n' {
		return "", 0, 0
	}
	return text[first:last], start + 1, start + 1 + n
}

// element returns the name of the element that begins before i, and the range of its content
// if that is text.
func element(text string, i int) (key string, start, end int) {
	n := strings.IndexAny(text[i:min(len(text), i+maxKey)], "> \n<")
	if n <= 0 || text[i+n] != '>' || text[i] == '/' {
		return "", 0, 0
	}
	start = i + n + 1
	m := strings.IndexAny(text[start:min(len(text), start+maxValue)], "<\n")
	if m < 0 || text[start+m] != '<' {
		return "", 0, 0
	}
	return text[i : i+n], start, start + m
}
