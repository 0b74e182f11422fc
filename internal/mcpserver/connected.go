package mcpserver

import (
	"cmp"
	"fmt"
	"slices"
	"sort"
	"strings"

	"github.com/sandpiper-mcp/sandpiper/internal/tool/tokens"
)

// Limits of the description of the connected servers. Clients with a tool search of their own show
// their model nothing but the names of tools and the instructions, and search the descriptions.
const (
	maxNamed        = 40  // servers that are listed by name; more are grouped
	maxServerTokens = 100 // of the list of servers
	maxTopics       = 200 // words for the search of a client
	maxTopicTokens  = 40  // of the words in a description; a few in the profile lean
	maxLeanTokens   = 15
)

// aboutTopics returns the first topics of the tools, at most a number of tokens.
func aboutTopics(topics string, most int) string {
	words := strings.Fields(topics)
	n := fitting(len(words), most, func(n int) string { return strings.Join(words[:n], ", ") })
	if n == 0 {
		return ""
	}
	return " They have " + strings.Join(words[:n], ", ") + "."
}

// listServers lists servers: up to 40 by name, more by category.
func listServers(names []string, categories map[string]string) string {
	if len(names) > maxNamed {
		return groupServers(names, categories)
	}
	return some(names, fitting(len(names), maxServerTokens, func(n int) string { return some(names, n) }))
}

// groupServers lists servers by category, the largest first, with as many names of each as fit.
func groupServers(names []string, categories map[string]string) string {
	groups := map[string][]string{}
	var order []string
	for _, name := range names {
		category := cmp.Or(categories[name], "general")
		if groups[category] == nil {
			order = append(order, category)
		}
		groups[category] = append(groups[category], name)
	}
	slices.SortStableFunc(order, func(a, b string) int { return cmp.Compare(len(groups[b]), len(groups[a])) })
	list := func(shown, each int) string {
		var all []string
		for _, category := range order[:shown] {
			all = append(all, category+" ("+some(groups[category], each)+")")
		}
		return strings.Join(all, ", ") + rest(len(order)-shown, "more categories")
	}
	head := fmt.Sprintf("%d servers: ", len(names))
	shown := fitting(len(order), maxServerTokens, func(n int) string { return list(n, 1) })
	return head + list(shown, max(1, fitting(maxNamed, maxServerTokens, func(n int) string { return list(shown, n) })))
}

// fitting returns the greatest n up to most for which text(n) has at most limit tokens.
func fitting(most, limit int, text func(n int) string) int {
	return sort.Search(most, func(n int) bool { return tokens.Count(text(n+1)) > limit })
}

// some lists the first names, and the number of the others.
func some(names []string, most int) string {
	return strings.Join(names[:min(most, len(names))], ", ") + rest(len(names)-most, "more")
}

func rest(n int, of string) string {
	if n <= 0 {
		return ""
	}
	return fmt.Sprintf(" and %d %s", n, of)
}
