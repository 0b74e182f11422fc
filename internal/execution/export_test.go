package execution

import (
	"context"

	"github.com/sandpiper-mcp/sandpiper/internal/execution/live"
	"github.com/sandpiper-mcp/sandpiper/internal/home"
)

// CompileCode is the Python that checks code, for tests without Python.
const CompileCode = compileCode

// CheckPython returns code that compiles, with its tokens replaced.
func (r *Runner) CheckPython(ctx context.Context, h *home.Home, code string, tokens map[string]string) (string, error) {
	c, err := checkPython(ctx, r, h, code, tokens)
	return c.Source, err
}

// Latest returns the latest progress of an execution and its number.
func Latest(x *Execution) (live.Progress, int) {
	p, n, _ := x.run.latest()
	return p, n
}
