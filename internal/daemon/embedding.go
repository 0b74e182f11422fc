package daemon

import (
	"context"
	"log/slog"
	"time"

	"github.com/sandpiper-mcp/sandpiper/internal/home"
	"github.com/sandpiper-mcp/sandpiper/internal/store/secret"
	"github.com/sandpiper-mcp/sandpiper/internal/tool/catalog/embedding"
	"github.com/sandpiper-mcp/sandpiper/internal/tool/catalog/embedding/local"
	"github.com/sandpiper-mcp/sandpiper/internal/tool/catalog/embedding/model"
)

// OpenModels returns the local models of a data directory, which it creates if it is missing.
func OpenModels(dir string) (local.Store, error) {
	return Models(dir), home.Prepare(dir)
}

// Models returns the store of models in a data directory, which it neither checks nor creates.
func Models(dir string) local.Store { return local.Store(dataDir(dir).sub("models")) }

// vectorsDir returns the directory of the vectors of tools.
func (d dataDir) vectorsDir() string { return d.sub("catalog/vectors") }

// removeTime is how long RemoveModel waits for a daemon that creates vectors of the model.
const removeTime = time.Minute

// RemoveModel removes a local model, and its vectors unless another name has the same model. It
// returns the size of the vectors. Running daemons search with keywords from then on.
func RemoveModel(ctx context.Context, dir, name string) (vectors int64, err error) {
	store, err := OpenModels(dir)
	if err != nil {
		return 0, err
	}
	sum, err := store.Checksum(name)
	if err == nil {
		err = store.Remove(name)
	}
	if err != nil {
		return 0, err
	}
	rest, err := store.List()
	if err != nil {
		return 0, err
	}
	for _, m := range rest {
		if other, err := store.Checksum(m.Name); err == nil && other == sum {
			return 0, nil
		}
	}
	ctx, cancel := context.WithTimeout(ctx, removeTime)
	defer cancel()
	return embedding.RemoveVectors(ctx, dataDir(dir).vectorsDir(), model.LocalIdentity(sum))
}

// openEmbedding opens search by embeddings; nil if no model is configured. The model is
// first called in the background.
func openEmbedding(c Config, log *slog.Logger) (*embedding.Index, error) {
	m, err := newEmbedder(c)
	if m == nil || err != nil {
		return nil, err
	}
	return embedding.New(embedding.Config{Dir: dataDir(c.DataDir).vectorsDir(), Model: m, Timeout: c.Search.Timeout, Log: log}), nil
}

// newEmbedder returns the configured model, nil if there is none.
func newEmbedder(c Config) (*model.Embedder, error) {
	cfg := c.Search.Embeddings
	if cfg.Provider == "" {
		return nil, nil
	}
	cfg.Resolve = (&secret.References{Lookup: c.Lookup}).Resolve
	cfg.Dir = string(Models(c.DataDir))
	return model.New(cfg)
}
