//go:build onnx

package model_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/sandpiper-mcp/sandpiper/internal/fault"
	"github.com/sandpiper-mcp/sandpiper/internal/tool/catalog/embedding/model"
)

// TestLocalModelEmbeds needs EMBEDDINGS_DIR, the directory of an ONNX export of a
// sentence transformer, which the repository does not contain.
func TestLocalModelEmbeds(t *testing.T) {
	dir := os.Getenv("EMBEDDINGS_DIR")
	if dir == "" {
		t.Skip("EMBEDDINGS_DIR is not set")
	}
	e, err := model.New(model.Config{Provider: model.ONNX, Dir: dir})
	if err != nil {
		t.Fatal(err)
	}
	defer e.Close()
	vs, err := e.Embed(t.Context(), []string{"put a page on the web", "publish an article on the blog", "restart the virtual machine"})
	if err != nil || !e.Local() {
		t.Fatal(err)
	}
	if dot(vs[0], vs[1]) < dot(vs[0], vs[2])+.1 {
		t.Errorf("the similarity of two texts on publishing is %.2f, that of publishing and restarting %.2f", dot(vs[0], vs[1]), dot(vs[0], vs[2]))
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := e.Embed(ctx, []string{"x"}); !errors.Is(err, context.Canceled) {
		t.Errorf("%v", err)
	}
}

func TestLocalRejectsInvalidDirectory(t *testing.T) {
	dir := t.TempDir()
	_, err := model.New(model.Config{Provider: model.ONNX, Dir: dir})
	if fault.KindOf(err) != fault.Invalid || !strings.Contains(fault.Message(err), "has no file model.onnx") {
		t.Errorf("%v", err)
	}
	for _, name := range []string{"model.onnx", "tokenizer.json"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte("{rubbish"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	e, err := model.New(model.Config{Provider: model.ONNX, Dir: dir})
	if err != nil {
		t.Fatal(err)
	}
	defer e.Close()
	if _, err := e.EmbedOne(t.Context(), "x"); fault.KindOf(err) != fault.Unavailable || !strings.Contains(fault.Message(err), "cannot be used") {
		t.Errorf("%v", err)
	}
}
