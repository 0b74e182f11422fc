// Package steps serves the host calls about steps of code, whose values are recorded so that they do
// not run again when the execution is resumed, and about the time limits of functions.
package steps

import (
	"context"
	"encoding/json"

	"github.com/sandpiper-mcp/sandpiper/internal/clock"
	"github.com/sandpiper-mcp/sandpiper/internal/execution/hostcall"
	"github.com/sandpiper-mcp/sandpiper/internal/fault"
	"github.com/sandpiper-mcp/sandpiper/internal/home/journal"
	"github.com/sandpiper-mcp/sandpiper/internal/privacy/redact"
)

// MethodDone waits for the disk while steps are due to be written.
const MethodDone = "step_done"

// maxName is the maximum length of the name of a step, in bytes: of 200 characters.
const maxName = 800

// doneArgs are the number of a step, its value, and which random generators its function used.
type doneArgs struct {
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

// Host serves the calls of an execution.
type Host struct {
	Record    *journal.Record // nil without one
	Resumable bool            // from its record: steps are recorded
	Gate      *redact.Gate
	Clock     *clock.Clock // of the execution
	limits    limits
}

// Methods returns the host calls.
func (h *Host) Methods() []hostcall.Method {
	return []hostcall.Method{
		hostcall.New("step", hostcall.Quick, h.begin),
		hostcall.New(MethodDone, hostcall.Quick, h.end),
		hostcall.New("limit", 0, h.beginLimit),
		hostcall.New("limit_wait", hostcall.Idle|hostcall.Unlimited, h.awaitLimit), // maxTimeLimits bounds them
		hostcall.New("limit_end", 0, h.endLimit),
	}
}

// begin returns the recorded value of a step of the code, or lets it run.
func (h *Host) begin(ctx context.Context, k journal.StepKey) (any, error) {
	if len(k.Name) > maxName || k.Name == "" || k.N < 1 {
		return nil, fault.New(fault.Invalid, "the name of a step has 1 to %d bytes, got %d", maxName, len(k.Name))
	}
	if !h.Resumable {
		return begunStep{}, nil
	}
	s, err := journal.BeginStep(ctx, h.Record, k)
	if err != nil || s.Value == nil {
		h.limits.enter(s.Number, k.Parent)
		return begunStep{s.Number}, err
	}
	value := s.Value.JSON
	if h.Gate.Strict() { // the code gets tokens of its interpreter
		if value, err = h.Gate.Restorer().Variables(ctx, value); err != nil {
			return nil, err
		}
	}
	return endedStep{value, s.Value.Drew}, nil
}

// end records the value of a step. In mode strict, it has tokens of the vault, which last.
func (h *Host) end(ctx context.Context, a doneArgs) (_ any, err error) {
	if !h.Resumable {
		return nil, nil
	}
	if h.Gate.Strict() {
		if a.Value, err = h.Gate.RedactJSON(ctx, a.Value); err != nil {
			return nil, err
		}
	}
	return nil, journal.EndStep(ctx, h.Record, a.Number, journal.StepValue{JSON: a.Value, Drew: a.Drew})
}
