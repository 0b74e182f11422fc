// Package embedding finds tools by their meaning, with a model in this process or at an endpoint.
package embedding

import (
	"github.com/sandpiper-mcp/sandpiper/internal/config"
	"github.com/sandpiper-mcp/sandpiper/internal/daemon"
	"github.com/sandpiper-mcp/sandpiper/internal/feature"
)

// Feature returns the feature: search by meaning, its settings, and the command models.
func Feature() feature.Feature {
	return feature.Feature{
		Feature: daemon.Feature{
			Name:     "embedding",
			Config:   config.Section{Settings: func() any { return new(Settings) }},
			Embedder: embedder,
		},
		Docs:     "search.md",
		Commands: commands,
	}
}
