// Package restricted limits code to a part of Python: a guardrail, on which no isolation depends.
//
// Its Python checks code before it runs, and while it runs.
package restricted

import (
	"embed"

	"github.com/sandpiper-mcp/sandpiper/internal/config"
	"github.com/sandpiper-mcp/sandpiper/internal/daemon"
	"github.com/sandpiper-mcp/sandpiper/internal/execution"
	"github.com/sandpiper-mcp/sandpiper/internal/feature"
)

//go:embed restricted/*.py
var modules embed.FS

// Settings are the keys of the feature.
type Settings struct {
	Restricted bool `key:"sandbox.restricted,restart" alias:"guardrails.restricted" project:"enable"`
}

// Loaded leaves out modules that were not generated: they could give code any module.
func (s *Settings) Loaded(c *config.Config) error {
	if s.Restricted && c.ServersDir != "" {
		c.ServersDir = ""
		c.Warn("SERVERS_DIR has no effect with sandbox.restricted: its modules could give restricted code access to any module")
	}
	return nil
}

// Feature returns the feature: the key sandbox.restricted.
func Feature() feature.Feature {
	return feature.Feature{
		Feature: daemon.Feature{
			Name:        "restricted",
			Config:      config.Section{Settings: func() any { return new(Settings) }},
			Python:      modules,
			Restriction: restriction,
		},
		Docs: "restricted.md",
	}
}

func restriction(c *config.Config) execution.Restriction {
	if !config.Of[Settings](c).Restricted {
		return execution.Restriction{}
	}
	return execution.Restriction{Module: "restricted", Library: "a safe part of its standard library (no os, sys, open, __dunder__)"}
}
