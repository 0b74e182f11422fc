package execution

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"

	"github.com/sandpiper-mcp/sandpiper/internal/execution/reply"
	"github.com/sandpiper-mcp/sandpiper/internal/fault"
	"github.com/sandpiper-mcp/sandpiper/internal/home"
	"github.com/sandpiper-mcp/sandpiper/internal/home/workflow"
)

// beginWorkflow records that the execution runs a workflow. It writes the record first, so that a run
// that is killed before its first call can be resumed. A background execution is resumed without one.
func beginWorkflow(ctx context.Context, h *home.Home, x *run, req Request) error {
	if req.Workflow.Name == "" || req.DryRun {
		return nil
	}
	var vars struct {
		Inputs json.RawMessage `json:"inputs"`
	}
	if len(bytes.TrimSpace(req.Vars)) > 0 {
		if err := json.Unmarshal(req.Vars, &vars); err != nil {
			return fmt.Errorf("read the inputs: %w", err)
		}
	}
	if x.background.Load() == nil {
		if err := x.record.Flush(ctx); err != nil {
			return err
		}
	}
	r := workflow.Run{Execution: x.id, Workflow: req.Workflow.Name, Version: req.Workflow.Version}
	return h.Workflows.Begin(ctx, r, workflow.Request{Inputs: vars.Inputs, Code: req.Code})
}

// endWorkflow records how the run of a workflow has ended.
func (e *executor) endWorkflow(ctx context.Context) {
	x := e.run
	if e.req.Workflow.Name == "" || e.req.DryRun {
		return
	}
	how := workflow.Result{Value: x.result.Value, Error: x.result.Error, ErrorType: x.result.ErrorType}
	state := cmp.Or(how.ErrorType, workflow.Completed)
	switch {
	case x.err != nil:
		how.Error, how.ErrorType = fault.Message(x.err), ""
		state = "failed"
	case x.suspended(), x.wait.until():
		return // it has not ended: another process may resume it
	case how.Error != "" && how.ErrorType != reply.TypeCancelled:
		state = "failed"
	}
	if err := e.home.Workflows.End(context.WithoutCancel(ctx), x.id, state, how); err != nil {
		e.r.cfg.Log.Error("record the end of a workflow", "execution", x.id, "error", err)
	}
}
