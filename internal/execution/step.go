package execution

import (
	"context"

	"github.com/sandpiper-mcp/sandpiper/internal/execution/sessions"
	"github.com/sandpiper-mcp/sandpiper/internal/policy"
	"github.com/sandpiper-mcp/sandpiper/internal/sandbox"
)

// enterStep waits for the turn of the request's session.
func enterStep(ctx context.Context, e *executor) (*sessions.Step, error) {
	cfg := sessions.Config{Key: sessions.Key{Owner: e.home.ID(), Session: e.req.SessionID}, Log: e.home.Sessions, Workspace: e.home.Workspace}
	if again := e.req.Replay; again != nil {
		cfg.Replayed, cfg.Held = true, again.turn
	}
	return e.r.interpreters.Enter(ctx, cfg)
}

// openInterpreter returns the sandbox of the session's live interpreter, or of a new one.
func openInterpreter(ctx context.Context, e *executor) (sandbox.Sandbox, error) {
	l := e.settings.Limits
	box, is, err := e.step.Open(ctx, sessions.Want{
		Spec: interpreterOf(e, e.settings.Sandbox), DefaultMB: l.MemoryMB, MaxMemoryMB: l.MaxMemoryMB,
		Check: func(ctx context.Context, in policy.Sandbox) error { return checkSandbox(ctx, e, in) },
		Open: func(ctx context.Context, memoryMB int) (sandbox.Sandbox, sessions.Spec, error) {
			e.req.MemoryMB = memoryMB
			box, err := newSandbox(ctx, e)
			return box, interpreterOf(e, e.sandbox), err
		},
	})
	if err != nil {
		return nil, err
	}
	e.req.MemoryMB, e.sandbox = is.MemoryMB, is.Sandbox
	return box, nil
}

// interpreterOf describes the interpreter in a sandbox that the settings of the tenant give now.
func interpreterOf(e *executor, in policy.Sandbox) sessions.Spec {
	limits := sandboxLimits(e)
	return sessions.Spec{
		MemoryMB: e.req.MemoryMB, Subset: e.req.Subset, Selection: selection(e), Sandbox: in, Layer: e.settings.PackageLayer, Mode: e.privacy.Mode(),
		WorkspaceDisk: limits.WorkspaceDisk, WorkspaceFiles: limits.WorkspaceFiles,
	}
}
