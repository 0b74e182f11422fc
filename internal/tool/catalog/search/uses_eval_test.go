package search_test

import (
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/sandpiper-mcp/sandpiper/internal/longtest"
	"github.com/sandpiper-mcp/sandpiper/internal/tool/catalog/search"
)

// The simulated tenants: each makes half of its queries, and calls the expected tool if it is among
// the tools that the search returned.
const (
	tenantsPerSuite = 5
	tenantQueries   = 100
	shown           = 20
)

// learning evaluates searches with records of use.
type learning struct {
	evaluation
	index *search.Index
	docs  []search.Doc
	at    map[[2]string]int
}

// rank returns the position of a tool in the result of a query, or shown.
func (l learning) rank(query, server, tool string, u *search.Uses) int {
	boosts := map[int]search.Boost{}
	l.index.Boosts(u, query, func(server, tool string, b search.Boost) { boosts[l.at[[2]string{server, tool}]] = b })
	found := l.index.Search(search.Query{Text: query, Limit: shown, Boosts: boosts}).Found
	at := slices.IndexFunc(found, func(h search.Hit) bool { return l.docs[h.Doc].Server == server && l.docs[h.Doc].Name == tool })
	if at < 0 {
		return shown
	}
	return at
}

// use returns the records of a tenant that has made the queries.
func (l learning) use(queries []queryRow) (uses []search.Use) {
	for _, q := range queries {
		for _, want := range q.Expected {
			if at := l.rank(q.Query, want.Server, want.Tool, nil); at < shown {
				uses = append(uses, search.Use{Server: want.Server, Tool: want.Tool, Terms: search.Terms(q.Query), Searches: 1,
					Lower: min(at, 1)})
			}
		}
	}
	return uses
}

// change counts the ranks of expected tools without and with records.
type change struct {
	n, better, worse float64
	before, after    [len(depths)]float64
}

func (c *change) add(before, after int) {
	c.n++
	for i, d := range depths {
		if before < d {
			c.before[i]++
		}
		if after < d {
			c.after[i]++
		}
	}
	switch {
	case after < before:
		c.better++
	case after > before:
		c.worse++
	}
}

func (c *change) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%5.0f ", c.n)
	for i := range depths {
		gain := (c.after[i] - c.before[i]) / c.n
		fmt.Fprintf(&b, "  %.3f %+.3f", c.before[i]/c.n, gain)
	}
	return b.String() + fmt.Sprintf("   %3.0f better, %3.0f worse", c.better, c.worse)
}

// TestRecallWithUse reports the change of recall for queries that a tenant makes after it has used
// the right tools of others: for the same queries again, for other queries about a used tool, and for
// queries about other tools, which must not lose.
func TestRecallWithUse(t *testing.T) {
	longtest.Skip(t)
	l := learning{evaluation: loadEvaluation(t), at: map[[2]string]int{}}
	l.docs = docsOf(l.tools)
	l.index = search.New(l.docs)
	for i, d := range l.docs {
		l.at[[2]string{d.Server, d.Name}] = i
	}
	suites := map[string][]queryRow{}
	for _, q := range l.queries {
		if q.Kind != "server" { // any tool of a server is right
			suites[q.Suite] = append(suites[q.Suite], q)
			suites["all"] = append(suites["all"], q)
		}
	}
	changes := map[string]*change{}
	for _, suite := range slices.Sorted(maps.Keys(suites)) {
		for seed := range uint64(tenantsPerSuite) {
			l.simulate(suite, suites[suite], seed, changes)
		}
	}
	var b strings.Builder
	fmt.Fprintln(&b, "recall at 1, 5 and 10 without use, and its change")
	totals := map[string]*change{}
	for _, key := range slices.Sorted(maps.Keys(changes)) {
		fmt.Fprintf(&b, "%-24s %v\n", key, changes[key])
		_, kind, _ := strings.Cut(key, ", ")
		if totals[kind] == nil {
			totals[kind] = &change{}
		}
		for i := range depths { // each suite has the same weight
			totals[kind].before[i] += changes[key].before[i] / changes[key].n
			totals[kind].after[i] += changes[key].after[i] / changes[key].n
		}
		totals[kind].n++
	}
	t.Log(b.String())
	for kind, least := range map[string]float64{"again": .1, "used tool": .01, "other tool": -.01} {
		for i := range depths {
			gain := (totals[kind].after[i] - totals[kind].before[i]) / totals[kind].n
			t.Logf("%s: recall at %d changes by %+.3f", kind, depths[i], gain)
			if i == 0 && gain < least || math.IsNaN(gain) {
				t.Errorf("%s: recall at 1 changes by %.3f, want at least %.3f", kind, gain, least)
			}
		}
	}
}

// simulate adds the changes for one tenant.
func (l learning) simulate(suite string, queries []queryRow, seed uint64, changes map[string]*change) {
	r := rand.New(rand.NewPCG(seed, 7))
	queries = slices.Clone(queries)
	r.Shuffle(len(queries), func(i, j int) { queries[i], queries[j] = queries[j], queries[i] })
	queries = queries[:min(len(queries), tenantQueries)]
	half := len(queries) / 2
	uses := l.use(queries[:half])
	u := search.NewUses(uses)
	for i, q := range queries {
		for _, want := range q.Expected {
			kind := "other tool"
			switch {
			case i < half:
				kind = "again"
			case slices.ContainsFunc(uses, func(u search.Use) bool { return u.Server == want.Server && u.Tool == want.Tool }):
				kind = "used tool"
			}
			key := suite + ", " + kind
			if changes[key] == nil {
				changes[key] = &change{}
			}
			changes[key].add(l.rank(q.Query, want.Server, want.Tool, nil), l.rank(q.Query, want.Server, want.Tool, u))
		}
	}
}
