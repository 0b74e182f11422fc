package execution

import (
	"cmp"

	"github.com/sandpiper-mcp/sandpiper/internal/policy"
	"github.com/sandpiper-mcp/sandpiper/internal/store/tenant"
)

// Settings are the limits of one tenant's executions.
type Settings struct {
	Limits         Limits
	WorkspaceDisk  int64          // bytes that the workspace may contain; 0 means no limit
	WorkspaceFiles int64          // files and directories; 0 means no limit
	OutputBytes    int64          // output of an execution; 0 means 64 MiB
	Interpreters   int            // live interpreters; 0 means 8
	Sandbox        policy.Sandbox // in which code runs, unless policy requires a stronger one; "" means Process
	PackageLayer   string         // see sandbox.Spec
	Network        bool           // code may send requests, by tools of the server network
}

// settings returns the limits of a tenant's executions.
func (r *Runner) settings(id tenant.ID) Settings {
	c := r.cfg
	s := Settings{Limits: c.Limits, WorkspaceDisk: c.Sandbox.WorkspaceDisk, WorkspaceFiles: c.Sandbox.WorkspaceFiles, OutputBytes: c.OutputBytes, Interpreters: c.Sessions.PerTenant}
	if c.Settings != nil {
		s = c.Settings(id)
	}
	s.Sandbox = cmp.Or(s.Sandbox, policy.Process)
	s.Limits = s.Limits.WithDefaults()
	s.OutputBytes = orDefault(s.OutputBytes, 64<<20)
	s.Interpreters = orDefault(s.Interpreters, Sessions{}.WithDefaults().PerTenant)
	return s
}

// Limits returns the time and memory limits of a tenant's executions.
func (r *Runner) Limits(id tenant.ID) Limits { return r.settings(id).Limits }
