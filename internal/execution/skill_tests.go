package execution

import (
	"context"
	"encoding/json"
	"slices"

	"github.com/sandpiper-mcp/sandpiper/internal/execution/reply"
	"github.com/sandpiper-mcp/sandpiper/internal/fault"
	"github.com/sandpiper-mcp/sandpiper/internal/home"
	"github.com/sandpiper-mcp/sandpiper/internal/home/skill"
	"github.com/sandpiper-mcp/sandpiper/internal/sandbox"
	"github.com/sandpiper-mcp/sandpiper/internal/tool/shape"
)

// RecordTest runs code that calls a skill, and returns it as a test with the answers that it
// received and the type of its result. Calls of tools are real.
func RecordTest(ctx context.Context, r *Runner, h *home.Home, name, code string) (skill.Test, error) {
	if _, err := h.Skills.Find(ctx, name, 0); err != nil {
		return skill.Test{}, err
	}
	tape := &Tape{}
	done, used, err := runTape(ctx, r, h, code, tape, false)
	switch {
	case err != nil:
		return skill.Test{}, err
	case !done.Success():
		return skill.Test{}, fault.New(fault.Invalid, "the code failed, so that there is no test: %.300s", explain(done)).WithHint("%s", done.Hint)
	case !slices.Contains(used, name):
		return skill.Test{}, fault.New(fault.Invalid, "the code does not import skill %q", name).WithHint("begin it with: from skills import %s", name)
	case tape.err != nil:
		return skill.Test{}, tape.err
	}
	return skill.Test{Code: code, Answers: tape.answers, Result: shape.Learn(tape.result)}, nil
}

// RunTest runs a test of a skill and returns why it fails, "" if it passes. Unless live, tools
// are not called: the code receives the recorded answers, and what it writes to files is not
// kept.
func RunTest(ctx context.Context, r *Runner, h *home.Home, t skill.Test, live bool) (why []string, err error) {
	tape := &Tape{replay: !live, answers: slices.Clone(t.Answers)}
	done, _, err := runTape(ctx, r, h, t.Code, tape, !live)
	switch {
	case err != nil:
		return nil, err
	case tape.replay && tape.err != nil:
		return []string{tape.err.Error()}, nil
	case !done.Success():
		return []string{explain(done)}, nil
	}
	return t.Result.Differences("result", shape.Learn(tape.result)), nil
}

// explain returns why an execution failed.
func explain(r reply.Result) string {
	if r.Status == sandbox.Raised && r.ErrorType != "" {
		return r.ErrorType + ": " + r.Error
	}
	return r.Error
}

// AcceptTools stores the present schemas of the tools of a skill, which has worked with them.
func AcceptTools(ctx context.Context, r *Runner, h *home.Home, m skill.Metadata) error {
	if r.cfg.Tools == nil {
		return nil
	}
	now, tools := viewOf(r, h, "").Now(), slices.Clone(m.Tools)
	for i, t := range tools {
		if found, ok := now.Find(t.Ref); ok && found.Quarantined == nil {
			tools[i] = skill.NewTool(found.Definition)
		}
	}
	return h.Skills.SetTools(ctx, m.Name, m.Version, tools)
}

// runTape runs code with a tape and returns its result and the skills that it imported.
func runTape(ctx context.Context, r *Runner, h *home.Home, code string, tape *Tape, dry bool) (reply.Result, []string, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	x, err := r.Start(ctx, h, Request{Code: code, DryRun: dry, Tape: tape})
	if err != nil {
		return reply.Result{}, nil, err
	}
	for {
		switch e, err := x.Next(ctx); {
		case err != nil:
			return reply.Result{}, nil, err
		case len(e.Questions) > 0:
			return reply.Result{}, nil, fault.New(fault.Denied, "the code asks a question, which a test cannot answer: %.200s", e.Questions[0].Text)
		case e.Done != nil:
			return *e.Done, x.run.skills.List(), nil
		}
	}
}

// keepResult keeps the result for the type that a test expects.
func (t *Tape) keepResult(result json.RawMessage) {
	if t != nil {
		t.result = result
	}
}
