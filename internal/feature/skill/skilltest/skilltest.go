// Package skilltest records, stores and runs tests of skills: code that calls a skill, with the answers that it
// received from outside.
package skilltest

import (
	"context"
	"slices"

	"github.com/sandpiper-mcp/sandpiper/internal/execution"
	"github.com/sandpiper-mcp/sandpiper/internal/execution/reply"
	"github.com/sandpiper-mcp/sandpiper/internal/fault"
	"github.com/sandpiper-mcp/sandpiper/internal/home"
	"github.com/sandpiper-mcp/sandpiper/internal/sandbox"
	"github.com/sandpiper-mcp/sandpiper/internal/tool/shape"
)

// Record runs code that calls a skill, and returns it as a test with the answers that it
// received and the type of its result. Calls of tools are real.
func Record(ctx context.Context, r *execution.Runner, h *home.Home, name, code string) (Test, error) {
	if _, err := h.Skills.Find(ctx, name, 0); err != nil {
		return Test{}, err
	}
	tp := &tape{}
	done, used, err := run(ctx, r, h, code, tp, false)
	switch {
	case err != nil:
		return Test{}, err
	case !done.Success():
		return Test{}, fault.New(fault.Invalid, "the code failed, so that there is no test: %.300s", explain(done)).
			WithHint("%s", done.Hint)
	case !slices.Contains(used, name):
		return Test{}, fault.New(fault.Invalid, "the code does not import skill %q", name).
			WithHint("begin it with: from skills import %s", name)
	case tp.err != nil:
		return Test{}, tp.err
	}
	return Test{Code: code, Answers: tp.answers, Result: shape.Learn(tp.result)}, nil
}

// Run runs a test of a skill and returns why it fails, "" if it passes. Unless live, tools
// are not called: the code receives the recorded answers, and what it writes to files is not
// kept.
func Run(ctx context.Context, r *execution.Runner, h *home.Home, t Test, live bool) (why []string, err error) {
	tp := &tape{replay: !live, answers: slices.Clone(t.Answers)}
	done, _, err := run(ctx, r, h, t.Code, tp, !live)
	switch {
	case err != nil:
		return nil, err
	case tp.replay && tp.err != nil:
		return []string{tp.err.Error()}, nil
	case !done.Success():
		return []string{explain(done)}, nil
	}
	return t.Result.Differences("result", shape.Learn(tp.result)), nil
}

// explain returns why an execution failed.
func explain(r reply.Result) string {
	if r.Status == sandbox.Raised && r.ErrorType != "" {
		return r.ErrorType + ": " + r.Error
	}
	return r.Error
}

// run runs code with a tape and returns its result and the skills that it imported.
func run(ctx context.Context, r *execution.Runner, h *home.Home, code string, tp *tape, dry bool) (reply.Result, []string, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	x, err := r.Start(ctx, h, execution.Request{Code: code, DryRun: dry, Tape: tp})
	if err != nil {
		return reply.Result{}, nil, err
	}
	for {
		switch e, err := x.Next(ctx); {
		case err != nil:
			return reply.Result{}, nil, err
		case len(e.Questions) > 0:
			return reply.Result{}, nil, fault.New(fault.Denied, "the code asks a question, which a test cannot answer: %.200s",
				e.Questions[0].Text)
		case e.Done != nil:
			return *e.Done, x.Skills(), nil
		}
	}
}
