package search_test

import (
	"os"
	"testing"
	"time"

	"github.com/sandpiper-mcp/sandpiper/internal/tool/catalog/embedding"
	"github.com/sandpiper-mcp/sandpiper/internal/tool/catalog/embedding/model"
	"github.com/sandpiper-mcp/sandpiper/internal/tool/catalog/search"
)

// realModel returns the model that the environment configures: EMBEDDINGS_URL and
// EMBEDDINGS_MODEL for an OpenAI-compatible endpoint, or EMBEDDINGS_DIR for an ONNX
// model in a build with the tag onnx. Fake vectors cannot measure quality.
func realModel(t *testing.T) *embedding.Index {
	cfg := model.Config{Provider: model.OpenAI, URL: os.Getenv("EMBEDDINGS_URL"), Model: os.Getenv("EMBEDDINGS_MODEL"), Key: os.Getenv("EMBEDDINGS_KEY")}
	if cfg.Dir = os.Getenv("EMBEDDINGS_DIR"); cfg.Dir != "" {
		cfg.Provider = model.ONNX
	}
	if cfg.URL == "" && cfg.Dir == "" {
		t.Skip("set EMBEDDINGS_URL or EMBEDDINGS_DIR to measure an embedding model")
	}
	m, err := model.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	dir := os.Getenv("EMBEDDINGS_CACHE") // reuses vectors of earlier runs
	if dir == "" {
		dir = t.TempDir()
	}
	x := embedding.New(embedding.Config{Dir: dir, Model: m, Timeout: time.Minute})
	t.Cleanup(func() {
		if err := x.Close(); err != nil {
			t.Error(err)
		}
	})
	return x
}

// rankCombined returns a search of rows by keywords and similarity.
func rankCombined(t *testing.T, m *embedding.Index, rows []toolRow) func(string) search.Hits {
	docs := docsOf(rows)
	x := search.New(docs)
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
	return func(text string) search.Hits {
		return x.Search(search.Query{Text: text, Limit: 10, Similarities: space.Similarities(t.Context(), text, nil)})
	}
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
