package network

import (
	"embed"

	"github.com/sandpiper-mcp/sandpiper/internal/config"
	"github.com/sandpiper-mcp/sandpiper/internal/daemon"
	"github.com/sandpiper-mcp/sandpiper/internal/execution"
	"github.com/sandpiper-mcp/sandpiper/internal/feature"
)

//go:embed network/*.py
var python embed.FS

const name = "network"

// Feature returns the feature: HTTP requests of code, and its keys network.allow and sandbox.allow_network_access.
func Feature() feature.Feature {
	return feature.Feature{
		Feature: daemon.Feature{
			Name:   name,
			Config: config.Section{Settings: func() any { return new(Settings) }},
			Python: python,
			Network: daemon.Network{
				Network: execution.Network{Module: name, Server: ServerName},
				Hosts:   func(c *config.Config) []string { return rulesOf(c).Hosts() },
			},
		},
		Docs: "network.md",
	}
}
