package mcpserver

import (
	"encoding/json"
	"time"

	"github.com/sandpiper-mcp/sandpiper/internal/home/schedule"
)

// Schedule describes a schedule. The JSON keys are those of list_schedules.
type Schedule struct {
	Name      string           `json:"name"`
	When      string           `json:"when"` // the cron expression, or every and a time
	TimeZone  string           `json:"time_zone,omitempty"`
	Runs      string           `json:"runs"` // skill or workflow, and its name
	Inputs    json.RawMessage  `json:"inputs,omitempty"`
	Source    schedule.Source  `json:"source"` // configuration or agent
	State     string           `json:"state"`  // active, paused or damaged
	OnOverlap schedule.Overlap `json:"on_overlap"`
	OnMissed  schedule.Missed  `json:"on_missed"`
	Next      time.Time        `json:"next,omitzero"` // in the zone of the schedule
	Last      *ScheduleRun     `json:"last,omitempty"`
	Passed    *ScheduleRun     `json:"skipped,omitempty"` // a due time after that of Last without a run
	Waiting   int              `json:"waiting,omitempty"` // runs that wait for an earlier one
}

// ScheduleRun describes a run of a schedule.
type ScheduleRun struct {
	Due       time.Time `json:"due"`
	Execution string    `json:"execution_id,omitempty"`
	Outcome   string    `json:"outcome"` // started, completed, failed, cancelled, interrupted, unknown, skipped or missed
	Ended     time.Time `json:"ended,omitzero"`
}

// Schedules describes schedules.
func Schedules(all []schedule.Schedule) []Schedule {
	list := []Schedule{}
	for _, s := range all {
		one := Schedule{Name: s.Name, When: s.Cron, TimeZone: s.TimeZone, Runs: "skill " + s.Skill, Inputs: s.Inputs, Source: s.Source, State: "active",
			OnOverlap: s.OnOverlap, OnMissed: s.OnMissed, Waiting: s.Waiting}
		if s.Every != 0 {
			one.When = "every " + s.Every.String()
		}
		if s.Workflow != "" {
			one.Runs = "workflow " + s.Workflow
		}
		if one.OnOverlap == "" {
			one.OnOverlap = schedule.SkipOverlap
		}
		if one.OnMissed == "" {
			one.OnMissed = schedule.RunOnce
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
		one.Last, one.Passed = run(s.Last, zone), run(s.Passed, zone)
		list = append(list, one)
	}
	return list
}

func run(r *schedule.Run, zone *time.Location) *ScheduleRun {
	if r == nil {
		return nil
	}
	d := &ScheduleRun{Due: r.Due.In(zone), Execution: r.Execution, Outcome: r.State}
	if !r.Ended.IsZero() {
		d.Ended = r.Ended.In(zone)
	}
	return d
}
