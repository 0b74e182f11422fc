package cost_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/sandpiper-mcp/sandpiper/internal/feature/bench/cost"
	"github.com/sandpiper-mcp/sandpiper/internal/longtest"
	"github.com/sandpiper-mcp/sandpiper/internal/tool/tokens"
	"github.com/sandpiper-mcp/sandpiper/internal/toolcall/lookup"
)

// TestRecallOfFirstAnswer reports the share of the expected tools that the default answer of
// search_tools lists, by suite and kind, and its tokens.
func TestRecallOfFirstAnswer(t *testing.T) {
	longtest.Skip(t)
	tools, queries := readData(t)
	d, _ := openTools(t, tools, len(tools))
	defer d.Close()
	now := d.Servers.Catalog.Now()
	recall, most, sum := map[string][]float64{}, 0, 0
	for _, q := range queries {
		answer, err := d.Find.Brief(t.Context(), lookup.Query{Text: q.Query})
		if err != nil {
			t.Fatal(err)
		}
		listed, share := cost.Listed(now, answer), 0.0
		for _, e := range q.Expected {
			if slices.ContainsFunc(listed, func(l cost.Line) bool { return l.Server == e.Server && (e.Tool == "*" || l.Tool == e.Tool) }) {
				share += 1 / float64(len(q.Expected))
			}
		}
		group := q.Suite + " " + q.Kind
		recall[group] = append(recall[group], share)
		var text bytes.Buffer
		enc := json.NewEncoder(&text)
		enc.SetEscapeHTML(false)
		if err := enc.Encode(answer); err != nil {
			t.Fatal(err)
		}
		n := tokens.Count(strings.TrimSpace(text.String()))
		most, sum = max(most, n), sum+n
	}
	var b strings.Builder
	for _, group := range slices.Sorted(maps.Keys(recall)) {
		fmt.Fprintf(&b, "%-22s %4d  %s\n", group, len(recall[group]), interval(map[string][]float64{group: recall[group]}))
	}
	t.Logf("recall in the first answer, with 95 %% intervals\n%s%-22s %4d  %s\ntokens of an answer: %d on average, at most %d", b.String(),
		"macro", len(queries), interval(recall), sum/len(queries), most)
	if most > lookup.MaxBrief {
		t.Errorf("an answer has %d tokens, want at most %d", most, lookup.MaxBrief)
	}
	if got := macro(recall); got < minFirstAnswer {
		t.Errorf("the recall is %.3f, want at least %.2f", got, minFirstAnswer)
	}
}

// minFirstAnswer is the regression limit. Search was tuned on these queries.
const minFirstAnswer = .72

func macro(groups map[string][]float64) (mean float64) {
	for _, values := range groups {
		sum := 0.0
		for _, v := range values {
			sum += v
		}
		mean += sum / float64(len(values)) / float64(len(groups))
	}
	return mean
}

// interval returns the macro average with its bootstrap interval: queries are drawn again, with
// replacement, within each group.
func interval(groups map[string][]float64) string {
	r := rand.New(rand.NewPCG(1, 2))
	var drawn []float64
	for range 1000 {
		again := map[string][]float64{}
		for _, group := range slices.Sorted(maps.Keys(groups)) {
			for range groups[group] {
				again[group] = append(again[group], groups[group][r.IntN(len(groups[group]))])
			}
		}
		drawn = append(drawn, macro(again))
	}
	slices.Sort(drawn)
	return fmt.Sprintf("%.3f (%.3f-%.3f)", macro(groups), drawn[24], drawn[974])
}
