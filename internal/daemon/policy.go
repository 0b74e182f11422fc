package daemon

import (
	"github.com/sandpiper-mcp/sandpiper/internal/config"
	"github.com/sandpiper-mcp/sandpiper/internal/policy"
	"github.com/sandpiper-mcp/sandpiper/internal/toolcall"
)

// configuredNames returns the names of the configured servers.
func configuredNames(v *servers) (names []string) {
	for _, s := range v.now.Load().configured {
		names = append(names, s.Name)
	}
	return names
}

// Configured returns the servers of the configuration in force.
func (d *Daemon) Configured() []config.Server { return d.now().Servers }

// Findings checks the policy against the servers and tools that are known.
func (d *Daemon) Findings() []policy.Finding {
	k := policy.Inventory{Servers: configuredNames(d.Servers), Tools: map[string][]string{}}
	now := d.Servers.Catalog.Now()
	for _, name := range k.Servers {
		s, _ := now.Server(name)
		if s.Listed.IsZero() {
			continue
		}
		k.Tools[name] = []string{}
		for _, t := range now.Of(name) {
			k.Tools[name] = append(k.Tools[name], t.Tool)
		}
		k.Tools[name] = append(k.Tools[name], toolcall.RequestNames(s)...)
	}
	return d.Policy().Findings(k)
}
