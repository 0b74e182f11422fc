package config

import (
	"github.com/sandpiper-mcp/sandpiper/internal/home"
	"github.com/sandpiper-mcp/sandpiper/internal/home/workspace"
)

// Workspace limits the disk usage of each tenant, with defaults applied.
type Workspace struct {
	Quota   workspace.Quota `key:",inline"`
	Results home.Results    `key:",inline"`
}
