package daemon

import (
	"strconv"

	"github.com/sandpiper-mcp/sandpiper/internal/mcpserver"
	"github.com/sandpiper-mcp/sandpiper/internal/mcpserver/builtin"
	"github.com/sandpiper-mcp/sandpiper/internal/sandbox/python"
	"github.com/sandpiper-mcp/sandpiper/internal/store/tenant"
)

// mcpConfig returns the configuration of the MCP server. key encrypts the states of requests.
func mcpConfig(d builder, key []byte) mcpserver.Config {
	return mcpserver.Config{
		Tools:          d.parts.tools(),
		Resources:      d.parts.resources(),
		Globals:        globals(d.cfg.Features),
		About:          d.parts.about(),
		Exports:        d.parts.exports(),
		Access:         d.HTTP.reportAccess(),
		ConfigFile:     d.cfg.ConfigFile,
		Key:            key,
		Audit:          d.data.auditLater,
		ProfileOf:      func(id tenant.ID) builtin.Profile { return builtin.Profile(d.data.settings(id).Profile) },
		HasSubset:      func(name string) bool { return d.now().Subsets[name] != nil },
		Revision:       func() string { return strconv.FormatUint(d.live.Load().number, 10) },
		Version:        d.cfg.Version,
		Python:         python.Version,
		Profile:        builtin.Profile(d.cfg.Profile),
		Tenant:         d.cfg.Tenant,
		Background:     d.Background,
		KeepBackground: d.cfg.Background.Keep,
		Tenants:        d.Tenants,
		Runner:         d.Runner,
		Privacy:        d.Privacy,
		Sandbox:        sandboxes(d).sandbox,
		Log:            d.log.Logger,
		Memory:         d.memory,
		Find:           d.Find,
		Servers:        d.Servers.connected,
		Relay:          d.parts.relay(d.cfg.Profile),
		Packages:       sandboxes(d).packageNames(),
		Network:        limits(d).networkHosts,
		Telemetry:      d.metrics.Recorder,
	}
}
