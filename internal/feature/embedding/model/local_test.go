package model_test

import (
	"context"
	"errors"
	"math"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/sandpiper-mcp/sandpiper/internal/fault"
	"github.com/sandpiper-mcp/sandpiper/internal/feature/embedding/bert/berttest"
	"github.com/sandpiper-mcp/sandpiper/internal/feature/embedding/local"
	"github.com/sandpiper-mcp/sandpiper/internal/feature/embedding/model"
)

// install installs a small model as minilm in dir.
func install(t *testing.T, dir string, seed uint64) {
	t.Helper()
	files := t.TempDir()
	if err := os.CopyFS(files, berttest.Files(seed)); err != nil {
		t.Fatal(err)
	}
	if _, err := local.Store(dir).Add(t.Context(), model.DefaultLocal, local.Source{From: files}); err != nil {
		t.Fatal(err)
	}
}

func TestLocalModelEmbeds(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	install(t, dir, 1)
	e := embedder(t, model.Config{Provider: model.Local, Model: model.DefaultLocal, Dir: dir})
	texts := []string{"list issues", "send mail", "list issues"}
	vs, err := e.Embed(t.Context(), texts)
	if err != nil || !e.Local() || e.Dimensions() != 32 {
		t.Fatal(err, e.Dimensions())
	}
	if math.Abs(dot(vs[0], vs[0])-1) > 1e-5 || math.Abs(dot(vs[0], vs[2])-1) > 1e-5 || dot(vs[0], vs[1]) > .9999 {
		t.Errorf("the products are %v, %v and %v", dot(vs[0], vs[0]), dot(vs[0], vs[2]), dot(vs[0], vs[1]))
	}
	// Queries run while tools are embedded.
	var all sync.WaitGroup
	for i := range 8 {
		all.Go(func() {
			if v, err := e.EmbedOne(t.Context(), texts[i%2]); err != nil || dot(v, vs[i%2]) < 1-1e-5 {
				t.Errorf("%v", err)
			}
			if _, err := e.Embed(t.Context(), texts); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := e.Embed(ctx, texts); !errors.Is(err, context.Canceled) {
		t.Errorf("%v", err)
	}
	first, err := e.Identity()
	if err != nil {
		t.Fatal(err)
	}
	install(t, dir, 2)
	second, err := embedder(t, model.Config{Provider: model.Local, Dir: dir, Model: model.DefaultLocal}).Identity()
	if err != nil || second == first {
		t.Errorf("another model has the identity %s, %v", second, err)
	}
	if now, err := e.Identity(); err != nil || now != first {
		t.Errorf("the open model has the identity %s instead of %s, %v", now, first, err)
	}
}

func TestUnusableLocalModelIsReported(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	install(t, dir, 1)
	file := filepath.Join(dir, "minilm.model")
	whole, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct {
		name, want string
		spoil      func() error
	}{
		{"missing", "the embedding model minilm is not installed", func() error { return os.Remove(file) }},
		{"truncated", "the model file is damaged", func() error { return os.WriteFile(file, whole[:len(whole)/2], 0o600) }},
		{"changed", "the model file is damaged: its checksum is wrong", func() error {
			changed := append([]byte{}, whole...)
			changed[len(changed)/2]++
			return os.WriteFile(file, changed, 0o600)
		}},
	} {
		if err := test.spoil(); err != nil {
			t.Fatal(err)
		}
		e := embedder(t, model.Config{Provider: model.Local, Model: model.DefaultLocal, Dir: dir})
		_, byIdentity := e.Identity()
		_, byText := e.EmbedOne(t.Context(), "x")
		for _, err := range []error{byIdentity, byText} {
			if fault.KindOf(err) != fault.Unavailable || !strings.Contains(fault.Message(err), test.want) ||
				!strings.Contains(fault.Hint(err), "sandpiper models add") {
				t.Errorf("%s: %v", test.name, err)
			}
		}
	}
	e := embedder(t, model.Config{Provider: model.Local, Model: model.DefaultLocal, Dir: dir})
	if err := e.Close(); err != nil {
		t.Error(err)
	}
}

// Nothing would close a model that is opened after Close.
func TestClosedLocalModelIsNotOpened(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	install(t, dir, 1)
	e := embedder(t, model.Config{Provider: model.Local, Model: model.DefaultLocal, Dir: dir})
	if err := e.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := e.EmbedOne(t.Context(), "x"); fault.Message(err) != "the embedding model is closed" {
		t.Errorf("%v", err)
	}
}

// A model that is removed is not used, although it is open, so that its vectors can be deleted.
func TestRemovedLocalModelIsNotUsed(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	install(t, dir, 1)
	e := embedder(t, model.Config{Provider: model.Local, Model: model.DefaultLocal, Dir: dir})
	before, err := e.EmbedOne(t.Context(), "x")
	if err != nil {
		t.Fatal(err)
	}
	if err := local.Store(dir).Remove(model.DefaultLocal); err != nil {
		t.Fatal(err)
	}
	if _, err := e.EmbedOne(t.Context(), "x"); fault.KindOf(err) != fault.Unavailable ||
		fault.Message(err) != "the embedding model minilm is not installed" {
		t.Errorf("%v", err)
	}
	install(t, dir, 1)
	if after, err := e.EmbedOne(t.Context(), "x"); err != nil || dot(before, after) < 1-1e-5 {
		t.Errorf("%v", err)
	}
	sum, err := local.Store(dir).Checksum(model.DefaultLocal)
	if identity, err2 := e.Identity(); err != nil || err2 != nil || identity != model.LocalIdentity(sum) {
		t.Errorf("the identity is %s, the checksum %s, %v, %v", identity, sum, err, err2)
	}
}
