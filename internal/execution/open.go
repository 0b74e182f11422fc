package execution

import (
	"context"
	"errors"
	"fmt"
	"log/slog"

	"github.com/sandpiper-mcp/sandpiper/internal/execution/tools"
	"github.com/sandpiper-mcp/sandpiper/internal/fault"
	"github.com/sandpiper-mcp/sandpiper/internal/policy"
	"github.com/sandpiper-mcp/sandpiper/internal/sandbox"
)

// newSandbox opens a sandbox within Config.OpenWait.
func newSandbox(ctx context.Context, e *executor) (sandbox.Sandbox, error) {
	required, _, err := requiredSandbox(ctx, e)
	if err != nil {
		return nil, err
	}
	kind := policy.Requirement{Sandbox: e.settings.Sandbox}.Stronger(required).Sandbox
	wait, cancel := context.WithTimeout(ctx, e.r.cfg.OpenWait)
	defer cancel()
	box, err := e.r.cfg.Backend.Open(wait, sandbox.Spec{
		Owner:        e.home.ID().String(),
		UID:          e.home.UID(),
		Mounts:       mounts(wait, e),
		Backend:      string(kind),
		PackageLayer: e.settings.PackageLayer,
		Limits:       sandboxLimits(e),
	})
	switch {
	case err == nil:
		e.sandbox = kind
		return box, nil
	case ctx.Err() != nil: // cancelled
		return nil, err
	}
	if wait.Err() != nil {
		return nil, publicError(e.r.cfg.Log, err, fmt.Sprintf("no sandbox could be opened within %s", e.r.cfg.OpenWait))
	}
	return nil, publicError(e.r.cfg.Log, err, "no sandbox could be opened")
}

// mounts returns the directories that the code sees. They are read-only for a dry run,
// and while the workspace or the disk is full: delete_file can then free space.
func mounts(ctx context.Context, e *executor) []sandbox.Mount {
	tools.Infer(ctx, e.r.cfg.Tools, e.home)
	all := e.home.Mounts()
	if hasSubset(e) {
		modules, _ := e.r.cfg.SubsetModules(e.home.ID(), e.req.Subset)
		all = e.home.MountsWith(modules)
	}
	readOnly := e.req.DryRun || e.home.Workspace.CheckQuota(ctx) != nil
	for i := range all {
		all[i].ReadOnly = all[i].ReadOnly || readOnly
	}
	return all
}

func hasSubset(e *executor) bool { return e.r.cfg.SubsetModules != nil && e.req.Subset != "" }

// selection identifies the servers and tools that the code may use.
func selection(e *executor) string {
	if !hasSubset(e) {
		return e.home.Selection()
	}
	_, selection := e.r.cfg.SubsetModules(e.home.ID(), e.req.Subset)
	return selection
}

func sandboxLimits(e *executor) sandbox.Limits {
	l, s := e.r.cfg.Sandbox, e.settings
	l.WorkspaceDisk, l.WorkspaceFiles = s.WorkspaceDisk, s.WorkspaceFiles
	l.MemoryBytes = int64(e.req.MemoryMB) << 20
	return l
}

// publicError converts err into an error without internal details, which are logged
// here: front ends do not log Unavailable errors.
func publicError(log *slog.Logger, err error, what string) error {
	if fe, ok := errors.AsType[*fault.Error](err); ok {
		return fe
	}
	log.Error(what, "error", err)
	return fault.Wrap(fault.Unavailable, err, "%s", what).
		WithHint("`sandpiper doctor` reports what is missing on this machine")
}
