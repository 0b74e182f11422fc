// Package importer imports the servers of other MCP clients to sandpiper.yaml, and adds Sandpiper to them.
package importer

import (
	"github.com/sandpiper-mcp/sandpiper/internal/daemon"
	"github.com/sandpiper-mcp/sandpiper/internal/feature"
)

// Feature returns the feature: the command init.
func Feature() feature.Feature {
	return feature.Feature{
		Feature:  daemon.Feature{Name: "importer"},
		Docs:     "init.md",
		Commands: commands,
	}
}
