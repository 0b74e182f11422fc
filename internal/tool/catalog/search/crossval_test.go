package search_test

import (
	"cmp"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/sandpiper-mcp/sandpiper/internal/longtest"
	"github.com/sandpiper-mcp/sandpiper/internal/tool/catalog/search"
)

// settings is the number of random weights among which the cross-validation chooses.
const settings = 40

// sampled is the recall of each query, by suite and kind.
type sampled map[string][]float64

// macro returns the mean over (suite, kind) of those suites that keep accepts.
func (s sampled) macro(keep func(suite string) bool) float64 {
	sum, n := 0.0, 0.0
	for group, values := range s {
		if suite, _, _ := strings.Cut(group, " "); keep(suite) {
			total := 0.0
			for _, v := range values {
				total += v
			}
			sum, n = sum+total/float64(len(values)), n+1
		}
	}
	return sum / max(n, 1)
}

// interval returns the macro average with its 95 % interval: queries are drawn again, with
// replacement, within each suite and kind.
func (s sampled) interval(keep func(suite string) bool) string {
	r := rand.New(rand.NewPCG(1, 2))
	var drawn []float64
	for range 1000 {
		again := sampled{}
		for _, group := range slices.Sorted(maps.Keys(s)) {
			values := s[group]
			for range values {
				again[group] = append(again[group], values[r.IntN(len(values))])
			}
		}
		drawn = append(drawn, again.macro(keep))
	}
	slices.Sort(drawn)
	return fmt.Sprintf("%.3f (%.3f-%.3f)", s.macro(keep), drawn[24], drawn[974])
}

// sample returns the recall of all queries at each depth.
func (e evaluation) sample(x *search.Index, depths ...int) []sampled {
	return e.sampleOf(func(q search.Query) search.Hits { return x.Search(q) }, depths...)
}

// sampleOf returns the recall of a search.
func (e evaluation) sampleOf(ask func(search.Query) search.Hits, depths ...int) []sampled {
	rows, all := e.tools, make([]sampled, len(depths))
	for i := range all {
		all[i] = sampled{}
	}
	for _, q := range e.queries {
		found := ask(search.Query{Text: q.Query, Limit: slices.Max(depths)}).Found
		group := q.Suite + " " + q.Kind
		for i, depth := range depths {
			share := 0.0
			for _, want := range q.Expected {
				if slices.ContainsFunc(found[:min(depth, len(found))], func(h search.Hit) bool {
					return rows[h.Doc].Server == want.Server && (want.Tool == "*" || rows[h.Doc].Tool == want.Tool)
				}) {
					share += 1 / float64(len(q.Expected))
				}
			}
			all[i][group] = append(all[i][group], share)
		}
	}
	return all
}

// suitesOf returns the names of the suites.
func suitesOf(s sampled) []string {
	suites := map[string]bool{}
	for group := range s {
		suite, _, _ := strings.Cut(group, " ")
		suites[suite] = true
	}
	return slices.Sorted(maps.Keys(suites))
}

// TestCrossValidation reports, for each suite, the recall with the weights that are best on
// the other suites, and with the weights of New, which were chosen on all of them. The
// difference is what the figures of New overstate.
func TestCrossValidation(t *testing.T) {
	longtest.Skip(t)
	e := loadEvaluation(t)
	docs := docsOf(e.tools)
	shipped := e.sample(search.New(docs), 5, 20)
	r := rand.New(rand.NewPCG(3, 4))
	var tried [][]sampled
	for range settings {
		tried = append(tried, e.sample(search.NewWeighted(docs, search.RandomWeights(r)), 5, 20))
	}
	crossed := []sampled{{}, {}}
	var b strings.Builder
	fmt.Fprintf(&b, "recall at 5 and 20, %d queries, %d settings of the weights\n%-10s  %-42s  %s\n", len(e.queries), settings, "suite",
		"weights chosen on the other suites", "weights of this version")
	for _, suite := range suitesOf(shipped[0]) {
		only := func(s string) bool { return s == suite }
		best := slices.MaxFunc(tried, func(x, y []sampled) int {
			others := func(s string) bool { return s != suite }
			return cmp.Compare(x[0].macro(others), y[0].macro(others))
		})
		for i := range crossed {
			for group, values := range best[i] {
				if strings.HasPrefix(group, suite+" ") {
					crossed[i][group] = values
				}
			}
		}
		fmt.Fprintf(&b, "%-10s  %s %s  %s %s\n", suite, best[0].interval(only), best[1].interval(only), shipped[0].interval(only),
			shipped[1].interval(only))
	}
	all := func(string) bool { return true }
	fmt.Fprintf(&b, "%-10s  %s %s  %s %s\n", "macro", crossed[0].interval(all), crossed[1].interval(all), shipped[0].interval(all),
		shipped[1].interval(all))
	t.Log(b.String())
	atLeast(t, "cross-validated recall at 5", crossed[0].macro(all), .50)
}
