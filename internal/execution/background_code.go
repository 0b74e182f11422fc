package execution

import (
	"context"
	"encoding/json"

	"github.com/sandpiper-mcp/sandpiper/internal/fault"
	"github.com/sandpiper-mcp/sandpiper/internal/home"
	"github.com/sandpiper-mcp/sandpiper/internal/home/journal"
)

// Writers write the code of executions that were stored without it.
type Writers struct {
	Solve   Solve   // nil means that tasks in words fail
	Compile Compile // nil means that stored workflows fail
}

// Compile returns the request for a run of the workflow that req names, as it is now.
type Compile func(ctx context.Context, h *home.Home, req Request) (Request, error)

// compileBackground adds the code of a workflow to a request, and stores it: what the workflow is
// changed to later does not matter.
func (r *Runner) compileBackground(ctx context.Context, h *home.Home, id string, b *StoredRequest, compile Compile) (err error) {
	if compile == nil {
		return fault.New(fault.Invalid, "this daemon does not run workflows")
	}
	if b.Request, err = compile(ctx, h, b.Request); err != nil {
		return err
	}
	b.Request.Background = true
	text, err := json.Marshal(b)
	if err != nil {
		return err
	}
	return h.Runs.SetRequest(ctx, id, text)
}

// notCompiled ends an execution whose workflow cannot run, or lets it run later.
func (r *Runner) notCompiled(ctx context.Context, h *home.Home, id string, err error) error {
	if fault.KindOf(err) == fault.Unavailable {
		return r.backgroundNotRun(ctx, h, id, err)
	}
	why := fault.Message(err)
	if hint := fault.Hint(err); hint != "" {
		why += "; " + hint
	}
	return r.endBackground(ctx, h, id, journal.Unsuccessful, why)
}
