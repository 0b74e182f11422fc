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

// topicsOf returns words for the objects of tools: those of their names that are no verbs
// and do not name their server, such as contacts of list_contacts. Each server in turn adds its
// most frequent word, so that the first words are of many servers.
func topicsOf(servers []toolNames) (all []string) {
	known := map[string]bool{} // few words are in many names
	isVerb := func(word string) bool {
		is, ok := known[word]
		if !ok {
			is = search.IsVerb(word)
			known[word] = is
		}
		return is
	}
	byServer := make([][]string, len(servers))
	longest := 0
	for i, s := range servers {
		byServer[i] = s.topics(isVerb)
		longest = max(longest, len(byServer[i]))
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

// topics returns the topics of one server, the most frequent first.
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
