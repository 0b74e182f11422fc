package gvisor

import (
	"context"

	"github.com/sandpiper-mcp/sandpiper/internal/config"
	"github.com/sandpiper-mcp/sandpiper/internal/daemon"
	"github.com/sandpiper-mcp/sandpiper/internal/feature"
	"github.com/sandpiper-mcp/sandpiper/internal/policy"
	"github.com/sandpiper-mcp/sandpiper/internal/sandbox"
)

const name = "gvisor"

// Settings are the keys of the feature.
type Settings struct {
	Runsc string `key:"sandbox.runsc,restart" form:"path"` // Config.Runsc
}

// Feature returns the feature: the backend gvisor and its key.
func Feature() feature.Feature {
	return feature.Feature{
		Feature: daemon.Feature{
			Name: name,
			Config: config.Section{
				Settings: func() any { return new(Settings) },
				Sandbox:  config.Sandbox{Sandbox: policy.Sandbox{Name: name, Strength: 2}}, // a second kernel
			},
			Backend: daemon.Backend{Check: check, Start: open},
		},
		Docs: "gvisor.md",
	}
}

func configure(c *config.Config, common sandbox.Config) Config {
	return Config{Config: common, Runsc: config.Of[Settings](c).Runsc}
}

func check(ctx context.Context, c *config.Config, common sandbox.Config) error {
	return Check(ctx, configure(c, common))
}

func open(ctx context.Context, c *config.Config, common sandbox.Config) (sandbox.Backend, error) {
	b, err := New(ctx, configure(c, common))
	return b, sandbox.NotNow(err)
}
