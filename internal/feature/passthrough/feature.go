package passthrough

import (
	"github.com/sandpiper-mcp/sandpiper/internal/config"
	"github.com/sandpiper-mcp/sandpiper/internal/daemon"
	"github.com/sandpiper-mcp/sandpiper/internal/feature"
)

const name = "passthrough"

// Feature returns the feature: the profile passthrough.
func Feature() feature.Feature {
	return feature.Feature{
		Feature: daemon.Feature{
			Name: name,
			Config: config.Section{Profile: config.Profile{Name: name, About: `passthrough has no code mode: it lists
the tools, resources and prompts of the configured servers directly, and needs no
sandbox.`}},
			Start: start,
		},
		Docs: "passthrough.md",
	}
}

func start(core daemon.Core) (daemon.Part, error) {
	t := core.Tools
	g := New(Config{Catalog: t.Catalog, Calls: t.Calls, Servers: t.Servers, ServersOf: t.ServersOf, Log: core.Log})
	return daemon.Part{Relay: Relay(g), Close: func() error { g.Close(); return nil }}, nil
}
