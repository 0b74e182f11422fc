package mcpserver

import (
	"context"
	"encoding/json"
	"strings"
	"time"

	"github.com/sandpiper-mcp/sandpiper/internal/clock"
	"github.com/sandpiper-mcp/sandpiper/internal/execution/reply"
	"github.com/sandpiper-mcp/sandpiper/internal/fault"
	"github.com/sandpiper-mcp/sandpiper/internal/home"
	"github.com/sandpiper-mcp/sandpiper/internal/home/journal"
	"github.com/sandpiper-mcp/sandpiper/internal/home/schedule"
	"github.com/sandpiper-mcp/sandpiper/internal/mcpserver/builtin"
	"github.com/sandpiper-mcp/sandpiper/internal/mcpserver/wire"
	"github.com/sandpiper-mcp/sandpiper/internal/privacy/redact"
	"github.com/sandpiper-mcp/sandpiper/internal/tool"
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
	PutBack   *ClockPutBack    `json:"clock_put_back,omitempty"`
}

// ClockPutBack is the last time at which a schedule noticed that the clock had been put back.
type ClockPutBack struct {
	At time.Time `json:"at"`
	By float64   `json:"by_seconds"` // at least
}

// ScheduleRun describes a run of a schedule.
type ScheduleRun struct {
	Due       time.Time `json:"due"`
	Execution string    `json:"execution_id,omitempty"`
	Outcome   string    `json:"outcome"` // started, completed, failed, cancelled, interrupted, unknown, skipped or missed
	Ended     time.Time `json:"ended,omitzero"`
	Error     string    `json:"error,omitempty"` // why it failed, added by AddReasons, or was not run
}

// AddReasons adds to the last run of each schedule why it failed, while its result is kept.
func AddReasons(ctx context.Context, h *home.Home, list []Schedule) error {
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
		if e.State == journal.Ended && e.Outcome != journal.Succeeded && e.Outcome != journal.Cancelled && json.Unmarshal(e.Result, &r) == nil {
			s.Last.Error = Reason(r.ErrorType, r.Error)
		}
	}
	return nil
}

// Reason returns the first line of why an execution failed, with the type of the error.
func Reason(kind, message string) string {
	const most = 200 // bytes
	line, _, _ := strings.Cut(strings.TrimSpace(message), "\n")
	if kind != "" && !strings.HasPrefix(line, kind) {
		line = strings.TrimSuffix(kind+": "+line, ": ")
	}
	if len(line) > most {
		line = strings.ToValidUTF8(line[:most], "") + "…"
	}
	return line
}

// Schedules describes schedules.
func Schedules(all []schedule.Schedule) []Schedule {
	list := []Schedule{}
	for _, s := range all {
		one := Schedule{Name: s.Name, When: s.Cron, TimeZone: s.TimeZone, Runs: s.Target(), Inputs: s.Inputs, Source: s.Source, State: "active",
			OnOverlap: s.OnOverlap, OnMissed: s.OnMissed, Waiting: s.Waiting}
		if s.Every != 0 {
			one.When = "every " + s.Every.String()
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
		if p := s.PutBack; p != nil {
			one.PutBack = &ClockPutBack{p.At.In(zone), p.By.Seconds()}
		}
		list = append(list, one)
	}
	return list
}

// notRun has the reasons why a due time has no execution, by outcome.
var notRun = map[string]string{
	schedule.Skipped: "the run before it had not ended",
	schedule.Passed:  "no daemon was running",
	"failed":         "its execution could not be created: the log of the daemon has the reason",
}

func run(r *schedule.Run, zone *time.Location) *ScheduleRun {
	if r == nil {
		return nil
	}
	d := &ScheduleRun{Due: r.Due.In(zone), Execution: r.Execution, Outcome: r.State}
	if r.Execution == "" {
		d.Error = notRun[r.State]
	}
	if !r.Ended.IsZero() {
		d.Ended = r.Ended.In(zone)
	}
	return d
}

// Scheduler stores and lists schedules.
type Scheduler interface {
	List(context.Context, *home.Home) ([]schedule.Schedule, error)
	// Create asks for permission with call.
	Create(ctx context.Context, h *home.Home, s schedule.Spec, call tool.Call) (schedule.Schedule, error)
	Delete(ctx context.Context, h *home.Home, name string) error
}

// scheduleTools are the tools for schedules.
type scheduleTools struct{ scheduler Scheduler }

func (s scheduleTools) all() []builtin.Tool {
	if s.scheduler == nil {
		return nil
	}
	name := builtin.Param{Name: "name", Kind: builtin.Text, Required: true}
	return []builtin.Tool{{
		Name: "create_schedule", Profile: builtin.Full,
		Description: "Run a skill or workflow by a cron expression, or every 10m. The person approves it.",
		Params: []builtin.Param{
			name, {Name: "skill", Kind: builtin.Text}, {Name: "workflow", Kind: builtin.Text}, {Name: "inputs", Kind: builtin.Object},
			{Name: "cron", Kind: builtin.Text}, {Name: "time_zone", Kind: builtin.Text}, {Name: "every", Kind: builtin.Text},
			{Name: "on_overlap", Kind: builtin.Text, Values: []string{string(schedule.SkipOverlap), string(schedule.QueueOverlap)}},
			{Name: "on_missed", Kind: builtin.Text, Values: []string{string(schedule.RunOnce), string(schedule.SkipMissed)}},
		},
		Hints: wire.Hints{Destructive: true},
		Run:   builtin.Handle(s.createSchedule),
	}, {
		Name: "list_schedules", Profile: builtin.Full,
		Hints: wire.Hints{ReadOnly: true, Idempotent: true},
		Run:   s.listSchedules,
	}, {
		Name: "delete_schedule", Profile: builtin.Full,
		Params: []builtin.Param{name},
		Hints:  wire.Hints{Destructive: true, Idempotent: true},
		Run:    builtin.Handle(s.deleteSchedule),
	}}
}

// createScheduleRef names the tool in policies and approvals.
var createScheduleRef = tool.Ref{Server: "sandpiper", Tool: "create_schedule"}

func (s scheduleTools) createSchedule(ctx context.Context, c builtin.Call, args struct {
	Name, Skill, Workflow, Cron, Every string
	Zone                               string           `json:"time_zone"`
	Inputs                             json.RawMessage  `json:"inputs"`
	Overlap                            schedule.Overlap `json:"on_overlap"`
	Missed                             schedule.Missed  `json:"on_missed"`
}) (redact.Message, error) {
	spec := schedule.Spec{Name: args.Name, Skill: args.Skill, Workflow: args.Workflow, Cron: args.Cron, TimeZone: args.Zone, OnOverlap: args.Overlap, OnMissed: args.Missed}
	if args.Every != "" {
		every, err := clock.ParseDuration(args.Every)
		if err != nil {
			return redact.Message{}, fault.New(fault.Invalid, "every is %.40q; it must be a time such as 90s, 10m or 1d", args.Every)
		}
		spec.Every = every
	}
	if len(args.Inputs) > 0 {
		inputs, err := c.Gate().Restorer().Variables(ctx, args.Inputs)
		if err != nil {
			return redact.Message{}, err
		}
		spec.Inputs = inputs
	}
	shown, err := json.Marshal(spec)
	if err != nil {
		return redact.Message{}, err
	}
	permit := tool.Call{Ref: createScheduleRef, Session: *c.Session, Args: shown, Approve: askApproval(c), Origin: tool.Origin{Client: c.Client}}
	made, err := s.scheduler.Create(ctx, c.Home, spec, permit)
	if err != nil {
		return redact.Message{}, err
	}
	return redact.Message{Body: map[string]any{"success": true, "schedule": Schedules([]schedule.Schedule{made})[0]}}, nil
}

// askApproval returns a function that asks the person to approve an action; nil if the client
// cannot be asked during a call.
func askApproval(c builtin.Call) func(context.Context, tool.Approval) (tool.Reply, error) {
	if c.Ask == nil {
		return nil
	}
	return func(ctx context.Context, a tool.Approval) (tool.Reply, error) {
		text, err := c.Gate().RevealToPerson(ctx, withAsker(a.Text, a.Asker))
		if err != nil {
			return tool.Reply{}, err
		}
		replies, err := c.Ask(ctx, []wire.Question{{ID: a.ID, Text: text, Schema: a.Schema}})
		if err != nil {
			return tool.Reply{}, fault.Wrap(fault.Unavailable, err, "the client did not show it")
		}
		return tool.Reply{Action: tool.Action(replies[a.ID].Action), Content: replies[a.ID].Content}, nil
	}
}

func (s scheduleTools) listSchedules(ctx context.Context, c builtin.Call) (redact.Message, error) {
	if err := c.Read(&struct{}{}); err != nil {
		return redact.Message{}, err
	}
	all, err := s.scheduler.List(ctx, c.Home)
	list := Schedules(all)
	if err == nil {
		err = AddReasons(ctx, c.Home, list)
	}
	return redact.Message{Body: map[string]any{"success": true, "count": len(all), "schedules": list}}, err
}

func (s scheduleTools) deleteSchedule(ctx context.Context, c builtin.Call, args struct{ Name string }) (redact.Message, error) {
	if err := s.scheduler.Delete(ctx, c.Home, args.Name); err != nil {
		return redact.Message{}, err
	}
	return builtin.Did("Schedule %s deleted", args.Name)
}
