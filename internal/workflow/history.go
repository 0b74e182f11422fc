package workflow

import (
	"context"
	"encoding/json"
	"time"

	"github.com/sandpiper-mcp/sandpiper/internal/execution"
	"github.com/sandpiper-mcp/sandpiper/internal/fault"
	"github.com/sandpiper-mcp/sandpiper/internal/home"
	"github.com/sandpiper-mcp/sandpiper/internal/home/journal"
	runs "github.com/sandpiper-mcp/sandpiper/internal/home/workflow"
)

// Run is a run of a workflow. Answered and Unknown count the calls on record of a run that can be
// resumed.
type Run struct {
	runs.Run
	Why      string          `json:"why,omitempty"` // it can be resumed, or has not ended
	Due      time.Time       `json:"due,omitzero"`  // when it continues, of one that waits for a time
	Answered int             `json:"answered,omitempty"`
	Unknown  int             `json:"unknown,omitempty"`
	Inputs   json.RawMessage `json:"inputs,omitempty"` // of Find only, as the fields below
	Code     string          `json:"code,omitempty"`
	*runs.Result

	background bool // a daemon continues it by itself
}

// interrupted is the state of a run whose process has ended.
const interrupted = "interrupted"

// History returns the latest runs of a tenant, at most most, of one workflow unless name is "".
func (s *Service) History(ctx context.Context, h *home.Home, name string, most int) ([]Run, error) {
	stored, err := h.Workflows.Runs(ctx, name, most)
	if err != nil {
		return nil, err
	}
	if len(stored) == 0 && name != "" {
		if _, err := s.source(ctx, h, name); err != nil { // runs of a deleted workflow remain
			return nil, err
		}
	}
	all := []Run{}
	for _, r := range stored {
		all = append(all, Run{Run: r})
	}
	if err := s.addStates(ctx, h, all); err != nil {
		return nil, err
	}
	addReasons(ctx, h, all)
	return all, nil
}

// addReasons adds the errors of runs that have failed. A damaged result has none; Find reports it.
func addReasons(ctx context.Context, h *home.Home, all []Run) {
	for i, r := range all {
		if r.Ended.IsZero() {
			continue
		}
		if _, _, how, err := h.Workflows.FindRun(ctx, r.Execution); err == nil && how != nil && how.Error != "" {
			all[i].Result = &runs.Result{Error: how.Error, ErrorType: how.ErrorType}
		}
	}
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
		if err := all[i].addBackground(ctx, h); err != nil {
			return err
		}
		if err := all[i].addLost(ctx, h); err != nil {
			return err
		}
	}
	return nil
}

// addLost marks a run that has neither ended nor a record, which one that is running has.
func (r *Run) addLost(ctx context.Context, h *home.Home) error {
	if !r.Ended.IsZero() || r.State != runs.Running || r.background {
		return nil
	}
	has, err := h.Journal.HasRecord(ctx, r.Execution)
	if err != nil || has {
		return err
	}
	now, _, _, err := h.Workflows.FindRun(ctx, r.Execution)
	if err != nil {
		return err
	}
	if !now.Ended.IsZero() { // since it was read
		r.Run = now
		return nil
	}
	r.State, r.Why = interrupted, "its process ended, and it has no record to resume it from"
	return nil
}

// addBackground adds the state of a run that a daemon continues by itself.
func (r *Run) addBackground(ctx context.Context, h *home.Home) error {
	if !r.Ended.IsZero() {
		return nil
	}
	e, err := h.Runs.Find(ctx, r.Execution)
	if fault.KindOf(err) == fault.NotFound || err == nil && e.State == journal.Ended {
		return nil
	}
	if err != nil {
		return err
	}
	r.State, r.Why, r.Due, r.background = string(e.State), "", e.Due, true
	var live execution.Live
	switch {
	case e.State == journal.Waiting && e.Due.IsZero():
		r.Why = "for a signal"
	case e.State == journal.Waiting:
		r.Why = "until " + e.Due.Local().Format(time.DateTime) + ", or for a signal"
	case e.State == journal.Running && !e.Alive:
		r.State, r.Why = string(journal.Queued), "its daemon has ended, and another one continues it"
	case e.State == journal.Running && e.Live != nil && json.Unmarshal(e.Live, &live) == nil && len(live.Questions) > 0:
		r.State, r.Why = "input_required", live.Questions[0].Text
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

// CheckOpen returns an Invalid error for a run that has ended and cannot be resumed.
func (r Run) CheckOpen() error {
	if !r.Ended.IsZero() && r.Why == "" {
		return fault.New(fault.Invalid, "the run %s of workflow %s has ended: %s", r.Execution, r.Workflow, r.State)
	}
	return nil
}

// Cancel ends a run for good: an interrupted or suspended one is not resumed any more.
func (s *Service) Cancel(ctx context.Context, h *home.Home, id string) error {
	r, err := s.Find(ctx, h, id)
	if err != nil {
		return err
	}
	if err := r.CheckOpen(); err != nil {
		return err
	}
	end := s.cfg.Runner.Abandon
	if e, err := h.Runs.Find(ctx, id); err == nil && e.State != journal.Ended {
		end = s.cfg.Runner.CancelBackground
	}
	if err := end(ctx, h, id); err != nil && !(r.State == interrupted && fault.KindOf(err) == fault.NotFound) { // it may have no record
		return err
	}
	return h.Workflows.End(ctx, id, "cancelled", runs.Result{Error: "the run was cancelled", ErrorType: "cancelled"})
}
