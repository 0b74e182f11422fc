package daemon

import (
	"context"

	"github.com/sandpiper-mcp/sandpiper/internal/execution/background"
	"github.com/sandpiper-mcp/sandpiper/internal/home"
	"github.com/sandpiper-mcp/sandpiper/internal/mcpserver"
)

// newBackground builds the scheduler of background executions, which runs nothing before prepare.
// The runner is closed after it has stopped, and before it is waited for.
func (d builder) newBackground() *background.Scheduler {
	running := d.cfg.Background.Running
	if running == 0 { // interactive executions have at least as many slots
		running = max(1, d.cfg.Admit.WithDefaults().Concurrent/2)
	}
	return background.New(background.Config{
		Homes:   d.Tenants,
		Runner:  d.Runner,
		Writers: background.Writers{Solve: d.parts.solve(), Compile: d.parts.compile()},
		Running: running,
		Before:  d.parts.before,
		Log:     d.log.Logger,
	})
}

// DescribeBackground returns the state of a background execution, for the person.
func (d *Daemon) DescribeBackground(ctx context.Context, h *home.Home, id string) (mcpserver.Background, error) {
	return d.server.Describe(ctx, h, id)
}

// ListBackground returns the latest background executions of a tenant.
func (d *Daemon) ListBackground(ctx context.Context, h *home.Home) ([]mcpserver.Background, error) {
	return d.server.ListBackground(ctx, h)
}
