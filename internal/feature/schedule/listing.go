package schedule

import (
	"context"
	"encoding/json"
	"time"

	"github.com/sandpiper-mcp/sandpiper/internal/execution/reply"
	"github.com/sandpiper-mcp/sandpiper/internal/fault"
	"github.com/sandpiper-mcp/sandpiper/internal/home"
	"github.com/sandpiper-mcp/sandpiper/internal/home/journal"
	"github.com/sandpiper-mcp/sandpiper/internal/mcpserver"
)

// Listed describes a schedule. The JSON keys are those of list_schedules.
type Listed struct {
	Name      string          `json:"name"`
	When      string          `json:"when"` // the cron expression, or every and a time
	TimeZone  string          `json:"time_zone,omitempty"`
	Runs      string          `json:"runs"` // skill or workflow, and its name
	Inputs    json.RawMessage `json:"inputs,omitempty"`
	Source    Source          `json:"source"` // configuration or agent
	State     string          `json:"state"`  // active, paused or damaged
	OnOverlap Overlap         `json:"on_overlap"`
	OnMissed  Missed          `json:"on_missed"`
	Next      time.Time       `json:"next,omitzero"` // in the zone of the schedule
	Last      *ListedRun      `json:"last,omitempty"`
	Passed    *ListedRun      `json:"skipped,omitempty"` // a due time after that of Last without a run
	Waiting   int             `json:"waiting,omitempty"` // runs that wait for an earlier one
	PutBack   *ListedPutBack  `json:"clock_put_back,omitempty"`
}

// ListedPutBack is the last time at which a schedule noticed that the clock had been put back.
type ListedPutBack struct {
	At time.Time `json:"at"`
	By float64   `json:"by_seconds"` // at least
}

// ListedRun describes a run of a schedule.
type ListedRun struct {
	Due       time.Time `json:"due"`
	Execution string    `json:"execution_id,omitempty"`
	Outcome   string    `json:"outcome"` // started, completed, failed, cancelled, interrupted, unknown, skipped or missed
	Ended     time.Time `json:"ended,omitzero"`
	Error     string    `json:"error,omitempty"` // why it failed, added by AddReasons, or was not run
}

// AddReasons adds to the last run of each schedule why it failed, while its result is kept.
func AddReasons(ctx context.Context, h *home.Home, list []Listed) error {
	for _, s := range list {
		if s.Last == nil || s.Last.Execution == "" {
			continue
		}
		e, err := h.Runs.Find(ctx, s.Last.Execution)
		if fault.KindOf(err) == fault.NotFound {
			continue
		}
		if err != nil {
			return err
		}
		var r reply.Result
		if e.State == journal.Ended && e.Outcome != journal.Succeeded && e.Outcome != journal.Cancelled && json.Unmarshal(e.Result,
			&r) == nil {
			s.Last.Error = mcpserver.Reason(r.ErrorType, r.Error)
		}
	}
	return nil
}

// Describe describes schedules.
func Describe(all []Schedule) []Listed {
	list := []Listed{}
	for _, s := range all {
		one := Listed{
			Name:      s.Name,
			When:      s.Cron,
			TimeZone:  s.TimeZone,
			Runs:      s.Target(),
			Inputs:    s.Inputs,
			Source:    s.Source,
			State:     "active",
			OnOverlap: s.OnOverlap,
			OnMissed:  s.OnMissed,
			Waiting:   s.Waiting,
		}
		if s.Every != 0 {
			one.When = "every " + s.Every.String()
		}
		if one.OnOverlap == "" {
			one.OnOverlap = SkipOverlap
		}
		if one.OnMissed == "" {
			one.OnMissed = RunOnce
		}
		switch {
		case s.Damaged != nil:
			one.State = "damaged"
		case s.Paused:
			one.State = "paused"
		}
		zone, err := time.LoadLocation(s.TimeZone)
		if s.TimeZone == "" {
			zone = time.Local
		}
		if err != nil {
			zone = time.UTC
		}
		if !s.Next.IsZero() {
			one.Next = s.Next.In(zone)
		}
		one.Last, one.Passed = listedRun(s.Last, zone), listedRun(s.Passed, zone)
		if p := s.PutBack; p != nil {
			one.PutBack = &ListedPutBack{p.At.In(zone), p.By.Seconds()}
		}
		list = append(list, one)
	}
	return list
}

// notRun has the reasons why a due time has no execution, by outcome.
var notRun = map[string]string{
	Skipped:  "the run before it had not ended",
	Passed:   "no daemon was running",
	"failed": "its execution could not be created: the log of the daemon has the reason",
}

func listedRun(r *Run, zone *time.Location) *ListedRun {
	if r == nil {
		return nil
	}
	d := &ListedRun{Due: r.Due.In(zone), Execution: r.Execution, Outcome: r.State}
	if r.Execution == "" {
		d.Error = notRun[r.State]
	}
	if !r.Ended.IsZero() {
		d.Ended = r.Ended.In(zone)
	}
	return d
}
