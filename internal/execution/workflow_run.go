package execution

import (
	"context"

	"github.com/sandpiper-mcp/sandpiper/internal/home"
	"github.com/sandpiper-mcp/sandpiper/internal/home/journal"
)

// beginWorkflow records that the execution runs a workflow. It writes the record first, so that a run
// that is killed before its first call can be resumed. A background execution is resumed without one.
func beginWorkflow(ctx context.Context, h *home.Home, x *run, req Request) error {
	if !keepsRun(req) {
		return nil
	}
	if x.background.Load() == nil {
		if err := x.record.Flush(ctx); err != nil {
			return err
		}
	}
	return journal.SetWorkflow(ctx, h.Runs, x.id, req.Workflow.Name, req.Workflow.Version)
}

// keepsRun reports whether the run of a request is kept when it has ended: that of a workflow.
func keepsRun(req Request) bool { return req.Workflow.Name != "" && !req.DryRun }
