package workflow

import (
	"context"
	"encoding/json"

	"github.com/sandpiper-mcp/sandpiper/internal/fault"
	"github.com/sandpiper-mcp/sandpiper/internal/home"
	runs "github.com/sandpiper-mcp/sandpiper/internal/home/workflow"
)

// Run is a run of a workflow. Answered and Unknown count the calls on record of a run that can be
// resumed.
type Run struct {
	runs.Run
	Why      string          `json:"why,omitempty"` // it can be resumed
	Answered int             `json:"answered,omitempty"`
	Unknown  int             `json:"unknown,omitempty"`
	Inputs   json.RawMessage `json:"inputs,omitempty"` // of Find only, as the fields below
	Code     string          `json:"code,omitempty"`
	*runs.Result
}

// History returns the latest runs of a tenant, at most most, of one workflow unless name is "".
func (s *Service) History(ctx context.Context, h *home.Home, name string, most int) ([]Run, error) {
	stored, err := h.Workflows.Runs(ctx, name, most)
	if err != nil {
		return nil, err
	}
	all := []Run{}
	for _, r := range stored {
		all = append(all, Run{Run: r})
	}
	return all, s.addStates(ctx, h, all)
}

// addStates adds what the records of unfinished executions say.
func (s *Service) addStates(ctx context.Context, h *home.Home, all []Run) error {
	unfinished, err := s.cfg.Runner.Resumable(ctx, h, "")
	if err != nil {
		return err
	}
	for i := range all {
		for _, u := range unfinished {
			if u.ID == all[i].Execution {
				all[i].Why, all[i].Answered, all[i].Unknown = u.Why, u.Answered, u.Unknown
				if all[i].State == runs.Running {
					all[i].State = u.State
				}
			}
		}
	}
	return nil
}

// Find returns a run with its inputs, its code and its result.
func (s *Service) Find(ctx context.Context, h *home.Home, id string) (Run, error) {
	r, of, how, err := h.Workflows.FindRun(ctx, id)
	if err != nil {
		return Run{}, err
	}
	all := []Run{{Run: r, Inputs: of.Inputs, Code: of.Code, Result: how}}
	err = s.addStates(ctx, h, all)
	return all[0], err
}

// Cancel ends a run for good: an interrupted or suspended one is not resumed any more.
func (s *Service) Cancel(ctx context.Context, h *home.Home, id string) error {
	r, err := s.Find(ctx, h, id)
	if err != nil {
		return err
	}
	if !r.Ended.IsZero() && r.Why == "" {
		return fault.New(fault.Invalid, "the run %s of workflow %s has ended: %s", id, r.Workflow, r.State)
	}
	if err := s.cfg.Runner.Abandon(ctx, h, id); err != nil {
		return err
	}
	return h.Workflows.End(ctx, id, "cancelled", runs.Result{Error: "the run was cancelled", ErrorType: "cancelled"})
}
