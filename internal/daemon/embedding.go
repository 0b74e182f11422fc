package daemon

import (
	"github.com/sandpiper-mcp/sandpiper/internal/store/secret"
	"github.com/sandpiper-mcp/sandpiper/internal/tool/catalog/embedding"
	"github.com/sandpiper-mcp/sandpiper/internal/tool/catalog/embedding/model"
)

// openEmbedding opens search by embeddings, if a model is configured. The model is first
// called in the background.
func (d *Daemon) openEmbedding() error {
	cfg := d.cfg.Search.Embeddings
	if cfg.Provider == "" {
		return nil
	}
	cfg.Resolve = (&secret.References{Lookup: d.cfg.Lookup}).Resolve
	m, err := model.New(cfg)
	if err != nil {
		return err
	}
	d.Meaning = embedding.New(embedding.Config{Dir: d.dir("catalog/vectors"), Model: m, Timeout: d.cfg.Search.Timeout, Log: d.log})
	return nil
}
