package config

import (
	"math"
	"time"

	"github.com/sandpiper-mcp/sandpiper/internal/home"
	"github.com/sandpiper-mcp/sandpiper/internal/home/workspace"
)

// Workspace limits the disk usage of each tenant, with defaults applied.
type Workspace struct {
	Quota   workspace.Quota
	Results home.Results
}

func defaultWorkspace() Workspace {
	return Workspace{
		Quota:   workspace.Quota{Bytes: 2 << 30, Files: 100_000, Reserve: 512 << 20},
		Results: home.Results{Age: 7 * 24 * time.Hour, Bytes: 512 << 20},
	}
}

// workspaceKeys are the keys of workspaces.
var workspaceKeys = map[string]key{
	"workspace.max_mb": {
		read: func(d *draft, s setting) error { return megabytes(&d.Workspace.Quota.Bytes, s, 1, 1<<24) },
		project: func(c, p *Config, _ setting) bool {
			return atMost(&c.Workspace.Quota.Bytes, math.MaxInt64, p.Workspace.Quota.Bytes)
		},
		tenant: true,
	},
	"workspace.max_files": {
		read: func(d *draft, s setting) error {
			n := 0
			err := whole(&n, s, 100, 1<<30)
			d.Workspace.Quota.Files = int64(n)
			return err
		},
		project: func(c, p *Config, _ setting) bool {
			return atMost(&c.Workspace.Quota.Files, math.MaxInt64, p.Workspace.Quota.Files)
		},
		tenant: true,
	},
	"workspace.reserve_mb":  {read: func(d *draft, s setting) error { return megabytes(&d.Workspace.Quota.Reserve, s, 0, 1<<24) }},
	"workspace.results_age": {read: func(d *draft, s setting) error { return days(&d.Workspace.Results.Age, s) }, tenant: true},
	"workspace.results_max_mb": {
		read:   func(d *draft, s setting) error { return megabytes(&d.Workspace.Results.Bytes, s, 1, 1<<24) },
		tenant: true,
	},
}
