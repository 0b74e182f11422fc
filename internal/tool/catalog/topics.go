package catalog

import (
	"cmp"
	"maps"
	"slices"
	"strings"

	"github.com/sandpiper-mcp/sandpiper/internal/tool/catalog/search"
)

// toolNames are the names of a server's tools, and of the server itself.
type toolNames struct {
	server string
	tools  []string
}

// combineTopics returns the topics of several servers, of which topics returns those of one. Each server
// in turn adds its most frequent word, so that the first words are of many servers.
func combineTopics(byServer [][]string) (all []string) {
	longest := 0
	for _, words := range byServer {
		longest = max(longest, len(words))
	}
	seen := map[string]bool{}
	for i := range longest {
		for _, words := range byServer {
			if i < len(words) && !seen[singular(words[i])] {
				seen[singular(words[i])] = true
				all = append(all, words[i])
			}
		}
	}
	return all
}

// newIsVerb returns search.IsVerb, which computes the answer for a word once: few words are in many names.
func newIsVerb() func(word string) bool {
	known := map[string]bool{}
	return func(word string) bool {
		is, ok := known[word]
		if !ok {
			is = search.IsVerb(word)
			known[word] = is
		}
		return is
	}
}

// topicsOf returns the topics of a server, nil if it was never listed.
func (l *listing) topicsOf(name string, isVerb func(string) bool) []string {
	if l == nil {
		return nil
	}
	return l.topics.once(func() []string {
		n := toolNames{server: name + " " + l.Title}
		for _, k := range l.Tools {
			if !k.New {
				n.tools = append(n.tools, k.Trusted.Tool)
			}
		}
		return n.topics(isVerb)
	})
}

// topics returns words for the objects of tools, the most frequent first: those of their names that are no
// verbs and do not name their server, such as contacts of list_contacts.
func (n toolNames) topics(isVerb func(string) bool) []string {
	own := map[string]bool{}
	for w := range words(n.server) {
		own[singular(string(w))] = true
	}
	count, form := map[string]int{}, map[string]string{}
	for _, name := range n.tools {
		for _, w := range objects(name, own, isVerb) {
			key := singular(w)
			count[key]++
			form[key] = max(form[key], w) // the plural
		}
	}
	keys := slices.SortedFunc(maps.Keys(count), func(a, b string) int {
		return cmp.Or(cmp.Compare(count[b], count[a]), strings.Compare(a, b))
	})
	for i, key := range keys {
		keys[i] = form[key]
	}
	return keys
}

// objects returns the words of a tool's name except those of its server and verbs: known ones, and
// the first of several words unless the last is a known verb, as in invoice_delete.
func objects(name string, own map[string]bool, isVerb func(string) bool) []string {
	var all []string
	for w := range words(name) {
		if s := string(w); !own[singular(s)] {
			all = append(all, s)
		}
	}
	if n := len(all); n > 1 && !isVerb(all[n-1]) {
		all = all[1:]
	}
	return slices.DeleteFunc(all, func(w string) bool { return len(w) < 3 || isVerb(w) })
}

// singular removes the s of a plural.
func singular(word string) string {
	if strings.HasSuffix(word, "ss") {
		return word
	}
	return strings.TrimSuffix(word, "s")
}
