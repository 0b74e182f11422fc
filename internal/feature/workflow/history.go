package workflow

import (
	"context"
	"encoding/json"
	"time"

	"github.com/sandpiper-mcp/sandpiper/internal/execution"
	"github.com/sandpiper-mcp/sandpiper/internal/execution/live"
	"github.com/sandpiper-mcp/sandpiper/internal/execution/reply"
	"github.com/sandpiper-mcp/sandpiper/internal/execution/unfinished"
	"github.com/sandpiper-mcp/sandpiper/internal/home"
	"github.com/sandpiper-mcp/sandpiper/internal/home/journal"
)

// Run is a run of a workflow. Answered and Unknown count the calls on record of a run that can be
// resumed.
type Run struct {
	Execution string          `json:"execution_id"`
	Workflow  string          `json:"workflow"`
	Version   string          `json:"version,omitempty"`
	Started   time.Time       `json:"started"`
	Ended     time.Time       `json:"ended,omitzero"`
	State     string          `json:"state"`
	Why       string          `json:"why,omitempty"` // it can be resumed, or has not ended
	Due       time.Time       `json:"due,omitzero"`  // when it continues, of one that waits for a time
	Answered  int             `json:"answered,omitempty"`
	Unknown   int             `json:"unknown,omitempty"`
	Inputs    json.RawMessage `json:"inputs,omitempty"` // of Find only, as Code and the value
	Code      string          `json:"code,omitempty"`
	Value     json.RawMessage `json:"result,omitempty"`
	Error     string          `json:"error,omitempty"`
	ErrorType string          `json:"error_type,omitempty"`
}

// History returns the latest runs of a tenant, at most most, of one workflow unless name is "".
func (s *Service) History(ctx context.Context, h *home.Home, name string, most int) ([]Run, error) {
	stored, err := journal.WorkflowRuns(ctx, h.Runs, name, most)
	if err != nil {
		return nil, err
	}
	if len(stored) == 0 && name != "" {
		if _, err := s.source(ctx, h, name); err != nil { // runs of a deleted workflow remain
			return nil, err
		}
	}
	all := make([]Run, len(stored))
	for i, r := range stored {
		all[i] = newRun(r)
		all[i].Value = nil
	}
	return all, addRecords(ctx, s.runner, h, all)
}

// newRun describes a run that is stored, without what its record says.
func newRun(r journal.Run) Run {
	w := Run{Execution: r.Execution, Workflow: r.Workflow, Version: r.Version, Started: r.Created, State: string(r.State)}
	open := live.QuestionsOf(r)
	switch {
	case r.State == journal.Ended:
		w.Ended, w.State = r.Changed, string(r.Outcome)
		var of reply.Result
		if json.Unmarshal(r.Result, &of) == nil && (r.Outcome != journal.Cancelled || of.ErrorType == reply.TypeCancelled) {
			w.Value, w.Error, w.ErrorType = of.Value, of.Error, of.ErrorType
		} else if r.Outcome == journal.Cancelled {
			w.Error, w.ErrorType = "the run was cancelled", string(journal.Cancelled)
		}
		return w
	case r.State == journal.Running && !r.Alive && r.OnRestart == "":
		w.State, w.Why = "interrupted", "its process ended, and it has no record to resume it from"
	case r.State == journal.Running && !r.Alive:
		w.State, w.Why = string(journal.Queued), "its daemon has ended, and another one continues it"
	case len(open) > 0:
		w.State, w.Why = "input_required", open[0].Text
	case r.State == journal.Waiting && r.Due.IsZero():
		w.Why = "for a signal"
	case r.State == journal.Waiting:
		w.Why = "until " + r.Due.Local().Format(time.DateTime) + ", or for a signal"
	}
	w.Due = r.Due
	return w
}

// addRecords adds what the records of runs say that a person can resume.
func addRecords(ctx context.Context, runner *execution.Runner, h *home.Home, all []Run) error {
	left, err := unfinished.List(ctx, runner, h, "")
	for i := range all {
		for _, u := range left {
			if u.ID != all[i].Execution {
				continue
			}
			all[i].Why, all[i].Answered, all[i].Unknown = u.Why, u.Answered, u.Unknown
			if all[i].Ended.IsZero() {
				all[i].State = u.State
			}
		}
	}
	return err
}

// Find returns a run with its inputs, its code and its result.
func (s *Service) Find(ctx context.Context, h *home.Home, id string) (Run, error) {
	r, err := journal.FindWorkflowRun(ctx, h.Runs, id)
	if err != nil {
		return Run{}, err
	}
	all := []Run{newRun(r)}
	var of execution.StoredRequest
	var vars struct{ Inputs json.RawMessage }
	if r.Request != nil {
		err = json.Unmarshal(r.Request, &of)
	}
	if len(of.Request.Vars) > 0 {
		err = json.Unmarshal(of.Request.Vars, &vars)
	}
	if err != nil {
		return Run{}, err
	}
	all[0].Inputs, all[0].Code = vars.Inputs, of.Request.Code
	return all[0], addRecords(ctx, s.runner, h, all)
}
