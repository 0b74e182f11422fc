package schedule

import (
	"context"
	"encoding/json"

	"github.com/sandpiper-mcp/sandpiper/internal/clock"
	"github.com/sandpiper-mcp/sandpiper/internal/fault"
	"github.com/sandpiper-mcp/sandpiper/internal/home"
	"github.com/sandpiper-mcp/sandpiper/internal/mcpserver/builtin"
	"github.com/sandpiper-mcp/sandpiper/internal/mcpserver/wire"
	"github.com/sandpiper-mcp/sandpiper/internal/privacy/redact"
	"github.com/sandpiper-mcp/sandpiper/internal/tool"
)

// Scheduler stores and lists the schedules of tenants; see Schedules.
type Scheduler interface {
	List(context.Context, *home.Home) ([]Schedule, error)
	// Create asks for permission with call.
	Create(ctx context.Context, h *home.Home, s Spec, call tool.Call) (Schedule, error)
	Delete(ctx context.Context, h *home.Home, name string) error
}

// agentTools are the tools with which agents use schedules.
type agentTools struct{ scheduler Scheduler }

// Tools returns the tools for schedules.
func Tools(of Scheduler) []builtin.Tool {
	s := agentTools{of}
	name := builtin.Param{Name: "name", Kind: builtin.Text, Required: true}
	return []builtin.Tool{{
		Name: "create_schedule", Profile: builtin.Full,
		Description: "Run a skill or workflow by a cron expression, or every 10m. The person approves it.",
		Params: []builtin.Param{
			name, {Name: "skill", Kind: builtin.Text}, {Name: "workflow", Kind: builtin.Text}, {Name: "inputs", Kind: builtin.Object},
			{Name: "cron", Kind: builtin.Text}, {Name: "time_zone", Kind: builtin.Text}, {Name: "every", Kind: builtin.Text},
			{Name: "on_overlap", Kind: builtin.Text, Values: []string{string(SkipOverlap), string(QueueOverlap)}},
			{Name: "on_missed", Kind: builtin.Text, Values: []string{string(RunOnce), string(SkipMissed)}},
		},
		Hints: wire.Hints{Destructive: true},
		Run:   builtin.Handle(s.create),
	}, {
		Name: "list_schedules", Profile: builtin.Full,
		Hints: wire.Hints{ReadOnly: true, Idempotent: true},
		Run:   s.list,
	}, {
		Name: "delete_schedule", Profile: builtin.Full,
		Params: []builtin.Param{name},
		Hints:  wire.Hints{Destructive: true, Idempotent: true},
		Run:    builtin.Handle(s.remove),
	}}
}

// createRef names the tool in policies and approvals.
var createRef = tool.Ref{Server: "sandpiper", Tool: "create_schedule"}

func (s agentTools) create(ctx context.Context, c builtin.Call, args struct {
	Name, Skill, Workflow, Cron, Every string
	Zone                               string          `json:"time_zone"`
	Inputs                             json.RawMessage `json:"inputs"`
	Overlap                            Overlap         `json:"on_overlap"`
	Missed                             Missed          `json:"on_missed"`
}) (redact.Message, error) {
	spec := Spec{
		Name:      args.Name,
		Skill:     args.Skill,
		Workflow:  args.Workflow,
		Cron:      args.Cron,
		TimeZone:  args.Zone,
		OnOverlap: args.Overlap,
		OnMissed:  args.Missed,
	}
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
	permit := tool.Call{Ref: createRef, Session: *c.Session, Args: shown, Approve: c.AskApproval(), Origin: tool.Origin{Client: c.Client}}
	made, err := s.scheduler.Create(ctx, c.Home, spec, permit)
	if err != nil {
		return redact.Message{}, err
	}
	return redact.Message{Body: map[string]any{"success": true, "schedule": Describe([]Schedule{made})[0]}}, nil
}

func (s agentTools) list(ctx context.Context, c builtin.Call) (redact.Message, error) {
	if err := c.Read(&struct{}{}); err != nil {
		return redact.Message{}, err
	}
	all, err := s.scheduler.List(ctx, c.Home)
	list := Describe(all)
	if err == nil {
		err = AddReasons(ctx, c.Home, list)
	}
	return redact.Message{Body: map[string]any{"success": true, "count": len(all), "schedules": list}}, err
}

func (s agentTools) remove(ctx context.Context, c builtin.Call, args struct{ Name string }) (redact.Message, error) {
	if err := s.scheduler.Delete(ctx, c.Home, args.Name); err != nil {
		return redact.Message{}, err
	}
	return builtin.Did("Schedule %s deleted", args.Name)
}
