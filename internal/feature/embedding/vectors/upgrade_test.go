package vectors_test

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"

	"github.com/sandpiper-mcp/sandpiper/internal/feature/embedding/bert/berttest"
	"github.com/sandpiper-mcp/sandpiper/internal/feature/embedding/local"
	"github.com/sandpiper-mcp/sandpiper/internal/feature/embedding/model"
	"github.com/sandpiper-mcp/sandpiper/internal/feature/embedding/vectors"
)

// Another version of a local model creates its vectors in a file of its own, while an index with the
// old one works; those of the old version are used when it is installed again.
func TestLocalModelUpgradeKeepsOldVectors(t *testing.T) {
	t.Parallel()
	models, dir := t.TempDir(), t.TempDir()
	start := func(seed uint64) *vectors.Index {
		files := t.TempDir()
		if err := os.CopyFS(files, berttest.Files(seed)); err != nil {
			t.Fatal(err)
		}
		if _, err := local.Store(models).Add(t.Context(), model.DefaultLocal, local.Source{From: files}); err != nil {
			t.Fatal(err)
		}
		x, _ := open(t, nil, dir, func(_ *vectors.Config, m *model.Config) { *m = model.Config{Provider: model.Local, Dir: models} })
		follow(x, texts...)
		until(t, "all tools have vectors", known(x, len(texts)))
		return x
	}
	vectors := func() map[string][]byte {
		all, err := filepath.Glob(filepath.Join(dir, "*.vectors"))
		if err != nil {
			t.Fatal(err)
		}
		of := map[string][]byte{}
		for _, path := range all {
			if of[path], err = os.ReadFile(path); err != nil {
				t.Fatal(err)
			}
		}
		return of
	}
	old := start(1)
	before := vectors()
	start(2)
	after := vectors()
	if len(before) != 1 || len(after) != 2 {
		t.Fatalf("%d files of vectors, then %d; want 1 and 2", len(before), len(after))
	}
	for path, content := range before {
		if !bytes.Equal(after[path], content) {
			t.Error("the vectors of the old model have changed")
		}
	}
	if n := follow(old, texts...).Similarities(t.Context(), texts[1], nil); n == nil || n.Best(1, everything)[0] != 1 {
		t.Errorf("the index with the old model found %v", n)
	}
	start(1)
	if again := vectors(); len(again) != 2 {
		t.Errorf("%d files of vectors", len(again))
	}
}
