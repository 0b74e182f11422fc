package daemon

import (
	"log/slog"

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

// openEmbedding opens search by embeddings; nil if no model is configured. The model is
// first called in the background.
func openEmbedding(c Config, log *slog.Logger) (*embedding.Index, error) {
	cfg := c.Search.Embeddings
	if cfg.Provider == "" {
		return nil, nil
	}
	cfg.Resolve = (&secret.References{Lookup: c.Lookup}).Resolve
	cfg.Dir = string(Models(c.DataDir))
	m, err := model.New(cfg)
	if err != nil {
		return nil, err
	}
	return embedding.New(embedding.Config{Dir: dataDir(c.DataDir).sub("catalog/vectors"), Model: m, Timeout: c.Search.Timeout, Log: log}), nil
}
