package embedding

import (
	"context"
	"log/slog"
	"path/filepath"
	"time"

	"github.com/sandpiper-mcp/sandpiper/internal/config"
	"github.com/sandpiper-mcp/sandpiper/internal/daemon"
	"github.com/sandpiper-mcp/sandpiper/internal/feature/embedding/local"
	"github.com/sandpiper-mcp/sandpiper/internal/feature/embedding/model"
	"github.com/sandpiper-mcp/sandpiper/internal/feature/embedding/vectors"
	"github.com/sandpiper-mcp/sandpiper/internal/home"
	"github.com/sandpiper-mcp/sandpiper/internal/store/secret"
)

// openModels returns the local models of a data directory, which it creates if it is missing.
func openModels(dir string) (local.Store, error) {
	return models(dir), home.Prepare(dir)
}

// models returns the store of models in a data directory, which it neither checks nor creates.
func models(dir string) local.Store { return local.Store(filepath.Join(dir, "models")) }

// vectorsDir returns the directory of the vectors of tools in a data directory.
func vectorsDir(dir string) string { return filepath.Join(dir, "catalog", "vectors") }

// removeTime is how long removeModel waits for a daemon that creates vectors of the model.
const removeTime = time.Minute

// removeModel removes a local model, and its vectors unless another name has the same model. It
// returns the size of the vectors in bytes. Running daemons search with keywords from then on.
func removeModel(ctx context.Context, dir, name string) (bytes int64, err error) {
	store, err := openModels(dir)
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
	return vectors.RemoveVectors(ctx, vectorsDir(dir), model.LocalIdentity(sum))
}

// embedder returns the index of the configured model; nil if there is none.
func embedder(c *config.Config, log *slog.Logger) (daemon.Embedder, error) {
	s := config.Of[Settings](c)
	cfg := s.Model
	if cfg.Provider == "" {
		return nil, nil
	}
	cfg.Resolve = (&secret.References{Lookup: c.Lookup}).Resolve
	cfg.Dir = string(models(c.DataDir))
	m, err := model.New(cfg)
	if err != nil {
		return nil, err
	}
	return vectors.New(vectors.Config{Dir: vectorsDir(c.DataDir), Model: m, Timeout: s.Timeout, Log: log}), nil
}
