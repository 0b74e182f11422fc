package config

import (
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

var workspaceKeys = map[string]func(d *draft, s setting) error{
	"workspace.max_mb": func(d *draft, s setting) error { return megabytes(&d.Workspace.Quota.Bytes, s, 1, 1<<24) },
	"workspace.max_files": func(d *draft, s setting) error {
		n := 0
		err := whole(&n, s, 100, 1<<30)
		d.Workspace.Quota.Files = int64(n)
		return err
	},
	"workspace.reserve_mb":     func(d *draft, s setting) error { return megabytes(&d.Workspace.Quota.Reserve, s, 0, 1<<24) },
	"workspace.results_age":    func(d *draft, s setting) error { return days(&d.Workspace.Results.Age, s) },
	"workspace.results_max_mb": func(d *draft, s setting) error { return megabytes(&d.Workspace.Results.Bytes, s, 1, 1<<24) },
}
