package search_test

import (
	"cmp"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/sandpiper-mcp/sandpiper/internal/feature/embedding/local"
	"github.com/sandpiper-mcp/sandpiper/internal/feature/embedding/model"
	"github.com/sandpiper-mcp/sandpiper/internal/feature/embedding/vectors"
	"github.com/sandpiper-mcp/sandpiper/internal/longtest"
	"github.com/sandpiper-mcp/sandpiper/internal/tool/catalog"
	"github.com/sandpiper-mcp/sandpiper/internal/tool/catalog/search"
)

// realModel returns the model that the environment configures: EMBEDDINGS_WHEEL for a
// wheel with a local model, or EMBEDDINGS_URL and EMBEDDINGS_MODEL for an
// OpenAI-compatible endpoint. EMBEDDINGS_CACHE is a directory that keeps the vectors.
// Fake vectors cannot measure quality.
func realModel(t *testing.T) *vectors.Index {
	dir := os.Getenv("EMBEDDINGS_CACHE")
	if dir == "" {
		dir = t.TempDir()
	}
	cfg := model.Config{Provider: model.OpenAI, URL: os.Getenv("EMBEDDINGS_URL"), Model: os.Getenv("EMBEDDINGS_MODEL"),
		Key: os.Getenv("EMBEDDINGS_KEY")}
	wheel := os.Getenv("EMBEDDINGS_WHEEL")
	switch {
	case wheel != "":
		cfg = model.Config{Provider: model.Local, Dir: dir}
		if _, err := local.Store(dir).Add(t.Context(), model.DefaultLocal, local.Source{From: wheel}); err != nil {
			t.Fatal(err)
		}
	case cfg.URL == "":
		t.Skip("set EMBEDDINGS_WHEEL or EMBEDDINGS_URL to measure an embedding model")
	}
	m, err := model.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	x := vectors.New(vectors.Config{Dir: dir, Model: m, Timeout: time.Minute})
	t.Cleanup(func() {
		if err := x.Close(); err != nil {
			t.Error(err)
		}
	})
	return x
}

// rankCombined returns a search of rows by keywords and similarity.
func rankCombined(t *testing.T, m *vectors.Index, rows []toolRow) func(string) search.Hits {
	docs := docsOf(rows)
	x, space := search.New(docs), spaceOf(t, m, docs)
	return func(text string) search.Hits {
		return x.Search(search.Query{Text: text, Limit: 10, Similarities: space.Similarities(t.Context(), text, nil)})
	}
}

// spaceOf returns the vectors of docs when all are known.
func spaceOf(t *testing.T, m *vectors.Index, docs []search.Doc) catalog.Space {
	space := m.NewSpace(func() (texts []string) {
		for _, d := range docs {
			texts = append(texts, d.EmbeddingText())
		}
		return texts
	})
	for s := m.State(); s.Tools != len(docs) || s.Known < s.Tools; s = m.State() {
		if s.Reason != "" {
			t.Fatalf("%d of %d tools: %s", s.Known, s.Tools, s.Reason)
		}
		select {
		case <-time.After(50 * time.Millisecond):
		case <-t.Context().Done():
			t.Fatal("the test ended before all tools were embedded")
		}
	}
	return space
}

func TestEmbeddingsImproveRecall(t *testing.T) {
	e, m := loadEvaluation(t), realModel(t)
	words := e.report(byWords(e.suite("")), byWords(e.suite("azure-mcp")))
	alone := rankCombined(t, m, e.suite("azure-mcp"))
	combined := e.report(rankCombined(t, m, e.suite("")), alone)
	t.Logf("keywords:\n%v\nkeywords and similarity:\n%v", words, combined)
	atLeast(t, "recall at 5", combined.groups["all"].macro().of(1), words.groups["all"].macro().of(1))
	atLeast(t, "recall of paraphrases at 5", combined.kinds["paraphrase, all"].of(1), words.kinds["paraphrase, all"].of(1))
}

// similarityWeights are those among which the cross-validation chooses.
var similarityWeights = []float64{.02, .05, .08, .1, .13, .16, .2, .3}

// TestCrossValidationWithModel compares keyword search with the search that uses the model. For
// each suite, the weight of similarity is the best on the other suites; those of keywords are the
// weights of New, which were chosen on all suites for keyword search.
func TestCrossValidationWithModel(t *testing.T) {
	longtest.Skip(t)
	e, m := loadEvaluation(t), realModel(t)
	docs := docsOf(e.tools)
	similarities := e.similarities(t, spaceOf(t, m, docs))
	x := search.New(docs)
	depths := []int{1, 5, 10, 20}
	keywords := e.sample(x, depths...)
	var tried [][]sampled
	var b strings.Builder
	fmt.Fprintf(&b, "recall at %d, %d queries\n", depths, len(e.queries))
	for _, weight := range similarityWeights {
		x.SetSimilarity(weight)
		s := e.sampleOf(func(q search.Query) search.Hits {
			q.Similarities = similarities[q.Text]
			return x.Search(q)
		}, depths...)
		tried = append(tried, s)
		fmt.Fprintf(&b, "weight %.2f: macro %s  paraphrase %s\n", weight, intervals(s, everySuite), intervals(paraphrases(s), everySuite))
	}
	model := crossed(tried)
	compare := func(name string, k, m []sampled, keep func(string) bool) {
		fmt.Fprintf(&b, "%-10s  keywords %s  model %s  gain %s\n", name, intervals(k, keep), intervals(m, keep),
			intervals(gains(k, m), keep))
	}
	for _, suite := range suitesOf(model[0]) {
		compare(suite, keywords, model, func(s string) bool { return s == suite })
	}
	compare("macro", keywords, model, everySuite)
	compare("paraphrase", paraphrases(keywords), paraphrases(model), everySuite)
	t.Log(b.String())
	atLeast(t, "the gain of recall at 5", gains(keywords, model)[1].macro(everySuite), 0)
}

func everySuite(string) bool { return true }

// similarities returns the similarities of the tools to each query.
func (e evaluation) similarities(t *testing.T, space catalog.Space) map[string]search.Similarities {
	all := map[string]search.Similarities{}
	for _, q := range e.queries {
		if all[q.Query] = space.Similarities(t.Context(), q.Query, nil); all[q.Query] == nil {
			t.Fatalf("no vector of %q", q.Query)
		}
	}
	return all
}

// crossed returns, for each suite, the recall with the setting that has the best recall at the
// second depth on the other suites.
func crossed(tried [][]sampled) (of []sampled) {
	for range tried[0] {
		of = append(of, sampled{})
	}
	for _, suite := range suitesOf(tried[0][0]) {
		others := func(s string) bool { return s != suite }
		best := slices.MaxFunc(tried, func(x, y []sampled) int { return cmp.Compare(x[1].macro(others), y[1].macro(others)) })
		for i := range of {
			for group, values := range best[i] {
				if strings.HasPrefix(group, suite+" ") {
					of[i][group] = values
				}
			}
		}
	}
	return of
}

// gains returns the difference of each query.
func gains(from, to []sampled) (of []sampled) {
	for i := range from {
		gain := sampled{}
		for group, values := range from[i] {
			for j, v := range values {
				gain[group] = append(gain[group], to[i][group][j]-v)
			}
		}
		of = append(of, gain)
	}
	return of
}

// intervals returns the macro averages at each depth with their intervals.
func intervals(all []sampled, keep func(suite string) bool) string {
	var texts []string
	for _, s := range all {
		texts = append(texts, s.interval(keep))
	}
	return strings.Join(texts, " ")
}

// paraphrases returns the paraphrases of all suites as one group.
func paraphrases(all []sampled) (of []sampled) {
	for _, s := range all {
		one := sampled{}
		for _, group := range slices.Sorted(maps.Keys(s)) {
			if strings.HasSuffix(group, " paraphrase") {
				one["all paraphrase"] = append(one["all paraphrase"], s[group]...)
			}
		}
		of = append(of, one)
	}
	return of
}
