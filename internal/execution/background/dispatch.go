package background

import (
	"context"
	"encoding/json"

	"github.com/sandpiper-mcp/sandpiper/internal/execution"
	"github.com/sandpiper-mcp/sandpiper/internal/fault"
	"github.com/sandpiper-mcp/sandpiper/internal/home"
	"github.com/sandpiper-mcp/sandpiper/internal/home/journal"
	"github.com/sandpiper-mcp/sandpiper/internal/home/quota"
)

// Dispatch adds a background execution and returns its id. It is on disk, and some daemon on this
// data directory will run it.
func (s *Scheduler) Dispatch(ctx context.Context, h *home.Home, b execution.StoredRequest, o journal.OnRestart) (string, error) {
	b.Request.Background = true
	checked := b.Request
	if b.Task != "" {
		if b.Request.Code != "" {
			return "", fault.New(fault.Invalid, "both code and task_description are given; a background execution has one of them")
		}
		checked.Code = "pass"
	}
	switch checked, err := s.cfg.Runner.Check(h.ID(), checked); {
	case err != nil:
		return "", err
	case checked.SessionID != "":
		return "", fault.New(fault.Invalid, "session_id %.60q cannot be combined with a background execution, which has an interpreter "+
			"of its own", checked.SessionID)
	case checked.DryRun:
		return "", fault.New(fault.Invalid, "dry_run cannot be combined with a background execution")
	}
	if err := quota.TakeExecution(ctx, h.Quotas); err != nil {
		return "", err
	}
	text, err := json.Marshal(b)
	if err != nil {
		return "", err
	}
	id := execution.NewID()
	if err := h.Runs.Add(ctx, journal.Run{Execution: id, State: journal.Queued, OnRestart: o, Request: text}); err != nil {
		return "", err
	}
	s.Wake()
	return id, nil
}
