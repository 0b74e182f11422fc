package sandpiper

import (
	"context"
	"encoding/json"
	"strings"
	"time"
)

// Workflows are the workflows that the tenant can run.
type Workflows struct{ client *Client }

// Workflows returns the workflows.
func (c *Client) Workflows() Workflows { return Workflows{c} }

// Workflow describes a workflow.
type Workflow struct {
	Name        string
	Description string
	Version     string
	Origin      string          // where it is saved
	Inputs      json.RawMessage // JSON schema; nil if it has none
	Steps       int
	Problem     string // the first error in it; "" if it can run
}

// List returns the workflows, by name.
func (w Workflows) List(ctx context.Context) ([]Workflow, error) {
	return listAll[Workflow](ctx, w.client, "list_workflows", "workflows")
}

// Run runs a workflow; its outputs are the Value of the result. Errors are as of Client.Execute.
func (w Workflows) Run(ctx context.Context, name string, inputs map[string]any) (*Result, error) {
	args := map[string]any{"name": name}
	if inputs != nil {
		args["inputs"] = inputs
	}
	return w.client.execute(ctx, "run_workflow", args, nil)
}

// Save checks a workflow in YAML and saves it, replacing the one of its name.
func (w Workflows) Save(ctx context.Context, source string) error {
	return w.client.do(ctx, "save_workflow", map[string]any{"source": source}, nil)
}

// Schedules run skills and workflows at times, as background executions.
type Schedules struct{ client *Client }

// Schedules returns the schedules.
func (c *Client) Schedules() Schedules { return Schedules{c} }

// Schedule is when a skill or a workflow runs.
type Schedule struct {
	Name      string
	Skill     string // or Workflow
	Workflow  string
	Inputs    map[string]any
	Cron      string // or Every
	TimeZone  string // of Cron; "" means that of the host
	Every     time.Duration
	OnOverlap string // skip or queue; "" means skip
	OnMissed  string // run_once or skip; "" means run_once

	// Set by Sandpiper.
	Source        string // configuration or agent
	State         string // active, paused or damaged
	Next          time.Time
	LastExecution string // its last run; "" before the first
	LastError     string // why its last run failed
	LastOutcome   string // started, completed, failed, cancelled, interrupted, unknown, skipped or missed
}

// scheduled is a schedule as Sandpiper describes it.
type scheduled struct {
	Schedule
	When     string
	Runs     string
	TimeZone string `json:"time_zone"`
	Overlap  string `json:"on_overlap"`
	Missed   string `json:"on_missed"`
	Last     struct {
		Execution      string `json:"execution_id"`
		Outcome, Error string
	}
}

func (d scheduled) schedule() Schedule {
	s := d.Schedule
	s.TimeZone, s.OnOverlap, s.OnMissed = d.TimeZone, d.Overlap, d.Missed
	s.LastExecution, s.LastOutcome, s.LastError = d.Last.Execution, d.Last.Outcome, d.Last.Error
	switch kind, name, _ := strings.Cut(d.Runs, " "); kind {
	case "skill":
		s.Skill = name
	case "workflow":
		s.Workflow = name
	}
	s.Cron = d.When
	if every, ok := strings.CutPrefix(d.When, "every "); ok {
		s.Cron = ""
		s.Every, _ = time.ParseDuration(every) // as Duration.String formats it
	}
	return s
}

// Create creates a schedule. A person approves it first, unless the policy allows it: until then
// Create returns an error, and Client.Approvals has the approval.
func (s Schedules) Create(ctx context.Context, schedule Schedule) (Schedule, error) {
	args := map[string]any{"name": schedule.Name}
	for name, value := range map[string]string{
		"skill": schedule.Skill, "workflow": schedule.Workflow, "cron": schedule.Cron, "time_zone": schedule.TimeZone,
		"on_overlap": schedule.OnOverlap, "on_missed": schedule.OnMissed,
	} {
		if value != "" {
			args[name] = value
		}
	}
	if schedule.Every != 0 {
		args["every"] = schedule.Every.String()
	}
	if schedule.Inputs != nil {
		args["inputs"] = schedule.Inputs
	}
	var answer struct{ Schedule scheduled }
	err := s.client.do(ctx, "create_schedule", args, &answer)
	return answer.Schedule.schedule(), err
}

// List returns the schedules, by name.
func (s Schedules) List(ctx context.Context) ([]Schedule, error) {
	var answer struct{ Schedules []scheduled }
	err := s.client.do(ctx, "list_schedules", nil, &answer)
	all := make([]Schedule, len(answer.Schedules))
	for i, d := range answer.Schedules {
		all[i] = d.schedule()
	}
	return all, err
}

// Delete deletes a schedule.
func (s Schedules) Delete(ctx context.Context, name string) error {
	return s.client.do(ctx, "delete_schedule", map[string]any{"name": name}, nil)
}
