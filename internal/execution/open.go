package execution

import (
	"context"
	"errors"
	"fmt"
	"log/slog"

	"github.com/sandpiper-mcp/sandpiper/internal/execution/sessions"
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
	sb, err := e.r.cfg.Backend.Open(wait, sandbox.Spec{
		Owner:        e.home.ID().String(),
		UID:          e.home.UID(),
		Mounts:       mounts(wait, e),
		Backend:      kind.Name,
		PackageLayer: e.settings.PackageLayer,
		Limits:       sandboxLimits(e),
	})
	switch {
	case err == nil:
		e.sandbox = kind
		return sb, nil
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
		modules, _ := e.r.cfg.SubsetModules(e.home.ID(), e.run.Request.Subset)
		all = e.home.MountsWith(modules)
	}
	readOnly := e.run.Request.DryRun || e.home.Workspace.CheckQuota(ctx) != nil
	for i := range all {
		all[i].ReadOnly = all[i].ReadOnly || readOnly
	}
	return all
}

func hasSubset(e *executor) bool { return e.r.cfg.SubsetModules != nil && e.run.Request.Subset != "" }

// selection identifies the servers and tools that the code may use.
func selection(e *executor) string {
	if !hasSubset(e) {
		return e.home.Selection()
	}
	_, selection := e.r.cfg.SubsetModules(e.home.ID(), e.run.Request.Subset)
	return selection
}

func sandboxLimits(e *executor) sandbox.Limits {
	l, s := e.r.cfg.Sandbox, e.settings
	l.WorkspaceDisk, l.WorkspaceFiles = s.WorkspaceDisk, s.WorkspaceFiles
	l.MemoryBytes = int64(e.run.Request.MemoryMB) << 20
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

// enterStep waits for the turn of the request's session.
func enterStep(ctx context.Context, e *executor) (*sessions.Step, error) {
	cfg := sessions.Config{Key: sessions.Key{Owner: e.home.ID(), Session: e.run.Request.SessionID}, Log: e.home.Sessions,
		Workspace: e.home.Workspace}
	if again := e.run.Request.Replay; again != nil {
		cfg.Replayed, cfg.Acquired = true, again.Acquired
	}
	return e.r.interpreters.Enter(ctx, cfg)
}

// openInterpreter returns the sandbox of the session's live interpreter, or of a new one.
func openInterpreter(ctx context.Context, e *executor) (sandbox.Sandbox, error) {
	l := e.settings.Limits
	sb, is, err := e.step.Open(ctx, sessions.Want{
		Spec: interpreterOf(e, e.settings.Sandbox), DefaultMB: l.MemoryMB, MaxMemoryMB: l.MaxMemoryMB,
		Check: func(ctx context.Context, in policy.Sandbox) error { return checkSandbox(ctx, e, in) },
		Open: func(ctx context.Context, memoryMB int) (sandbox.Sandbox, sessions.Spec, error) {
			e.run.Request.MemoryMB = memoryMB
			sb, err := newSandbox(ctx, e)
			return sb, interpreterOf(e, e.sandbox), err
		},
	})
	if err != nil {
		return nil, err
	}
	e.run.Request.MemoryMB, e.sandbox = is.MemoryMB, is.Sandbox
	return sb, nil
}

// interpreterOf describes the interpreter in a sandbox that the settings of the tenant give now.
func interpreterOf(e *executor, in policy.Sandbox) sessions.Spec {
	limits := sandboxLimits(e)
	return sessions.Spec{
		MemoryMB:       e.run.Request.MemoryMB,
		Subset:         e.run.Request.Subset,
		Selection:      selection(e),
		Sandbox:        in,
		Layer:          e.settings.PackageLayer,
		Mode:           e.privacy.Mode(),
		WorkspaceDisk:  limits.WorkspaceDisk,
		WorkspaceFiles: limits.WorkspaceFiles,
	}
}
