package execution

import (
	"context"
	"encoding/json"

	"github.com/sandpiper-mcp/sandpiper/internal/fault"
	"github.com/sandpiper-mcp/sandpiper/internal/home/journal"
)

const methodStepDone = "step_done"

// maxStepName is the maximum length of the name of a step, in bytes: of 200 characters.
const maxStepName = 800

// stepDoneArgs are the number of a step, its value, and which random generators its function used.
type stepDoneArgs struct {
	Number int             `json:"number"`
	Value  json.RawMessage `json:"value"`
	Drew   int             `json:"drew"`
}

// begunStep is the number of a step that runs.
type begunStep struct {
	Number int `json:"number"`
}

// endedStep is the recorded value of a step that does not run again.
type endedStep struct {
	Value json.RawMessage `json:"value"`
	Drew  int             `json:"drew"`
}

// beginStep returns the recorded value of a step of the code, or lets it run.
func (h *host) beginStep(ctx context.Context, k journal.StepKey) (any, error) {
	if len(k.Name) > maxStepName || k.Name == "" || k.N < 1 {
		return nil, fault.New(fault.Invalid, "the name of a step has 1 to %d bytes, got %d", maxStepName, len(k.Name))
	}
	if !h.resumable() {
		return begunStep{}, nil
	}
	s, err := h.run.record.BeginStep(ctx, k)
	if err != nil || s.Value == nil {
		h.limits.enter(s.Number, k.Parent)
		return begunStep{s.Number}, err
	}
	value := s.Value.JSON
	if h.exit.Strict() { // the code gets tokens of its interpreter
		if value, err = h.exit.Restorer().Variables(ctx, value); err != nil {
			return nil, err
		}
	}
	return endedStep{value, s.Value.Drew}, nil
}

// endStep records the value of a step. In mode strict, it has tokens of the vault, which last.
func (h *host) endStep(ctx context.Context, a stepDoneArgs) (err error) {
	if !h.resumable() {
		return nil
	}
	if h.exit.Strict() {
		if a.Value, err = h.exit.RedactJSON(ctx, a.Value); err != nil {
			return err
		}
	}
	return h.run.record.EndStep(ctx, a.Number, journal.StepValue{JSON: a.Value, Drew: a.Drew})
}
