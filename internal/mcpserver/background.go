package mcpserver

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/sandpiper-mcp/sandpiper/internal/execution"
	"github.com/sandpiper-mcp/sandpiper/internal/execution/live"
	"github.com/sandpiper-mcp/sandpiper/internal/execution/pycode"
	"github.com/sandpiper-mcp/sandpiper/internal/execution/question"
	"github.com/sandpiper-mcp/sandpiper/internal/execution/reply"
	"github.com/sandpiper-mcp/sandpiper/internal/fault"
	"github.com/sandpiper-mcp/sandpiper/internal/home"
	"github.com/sandpiper-mcp/sandpiper/internal/home/approval"
	"github.com/sandpiper-mcp/sandpiper/internal/home/journal"
	"github.com/sandpiper-mcp/sandpiper/internal/mcpserver/builtin"
	"github.com/sandpiper-mcp/sandpiper/internal/mcpserver/wire"
	"github.com/sandpiper-mcp/sandpiper/internal/privacy/redact"
)

// backgroundTools are the tools for background executions.
type backgroundTools struct{ *Server }

func (s backgroundTools) all() []builtin.Tool {
	if s.cfg.Background == nil {
		return nil
	}
	id := builtin.Param{Name: "execution_id", Kind: builtin.Text, Required: true}
	return []builtin.Tool{{
		Name: "dispatch_background_task", Profile: builtin.Full,
		Description: "Start code, or a task in words, that outlives this call; returns an execution_id.",
		Params: []builtin.Param{
			{Name: "code", Kind: builtin.Text, MaxBytes: pycode.MaxBytes},
			{Name: "task_description", Kind: builtin.Text},
			{Name: "context_vars", Kind: builtin.Object},
			{Name: "timeout_seconds", Kind: builtin.Number},
			{Name: "on_restart", Kind: builtin.Text, Default: string(journal.ResumeOnRestart),
				Values: []string{string(journal.ResumeOnRestart), string(journal.ReportOnRestart)}},
		},
		Hints: wire.Hints{Destructive: true},
		Run:   s.dispatch,
	}, {
		Name: "get_background_task_status", Profile: builtin.Full,
		Description: "State, progress, output so far, result.",
		Params:      []builtin.Param{id},
		MaxChars:    100_000,
		Hints:       wire.Hints{ReadOnly: true, Idempotent: true},
		Run:         s.backgroundStatus,
	}, {
		Name: "wait_for_background_task", Profile: builtin.Full,
		Description: "Wait for its end, then as get_background_task_status.",
		Params:      []builtin.Param{id, {Name: "timeout", Kind: builtin.Number, Default: defaultWait.Seconds()}},
		MaxChars:    100_000,
		Hints:       wire.Hints{ReadOnly: true, Idempotent: true},
		Run:         s.waitForBackground,
	}, {
		Name: "list_background_tasks", Profile: builtin.Full,
		Hints: wire.Hints{ReadOnly: true, Idempotent: true},
		Run:   s.listBackground,
	}, {
		Name: "cancel_background_task", Profile: builtin.Full,
		Params: []builtin.Param{id},
		Hints:  wire.Hints{Destructive: true, Idempotent: true},
		Run:    s.cancelBackground,
	}, {
		Name: "signal_execution", Profile: builtin.Full,
		Description: "Send an event that code awaits with wait_for(event).",
		Params:      []builtin.Param{id, {Name: "event", Kind: builtin.Text, Required: true}, {Name: "value", Kind: builtin.Anything}},
		Hints:       wire.Hints{Destructive: true},
		Run:         s.signal,
	}}
}

func (s backgroundTools) dispatch(ctx context.Context, c builtin.Call) (redact.Message, error) {
	var args struct {
		Code    string          `json:"code"`
		Task    string          `json:"task_description"`
		Vars    json.RawMessage `json:"context_vars"`
		Timeout *float64        `json:"timeout_seconds"`
		Restart string          `json:"on_restart"`
	}
	if err := c.Read(&args); err != nil {
		return redact.Message{}, err
	}
	if args.Code == "" && args.Task == "" {
		return redact.Message{}, fault.New(fault.Invalid, "neither code nor task_description is given; pass one of them")
	}
	b := execution.StoredRequest{Request: execution.Request{Code: args.Code, Vars: args.Vars, Subset: c.Subset, Client: c.Client,
		Commands: withoutPages(c.Commands)}, Task: args.Task}
	if args.Timeout != nil {
		if b.Request.Timeout = execution.Seconds(*args.Timeout); b.Request.Timeout <= 0 {
			return redact.Message{}, fault.New(fault.Invalid, "timeout_seconds is %g; it must be more than 0", *args.Timeout)
		}
	}
	restart := journal.ResumeOnRestart
	if args.Restart != "" {
		restart = journal.OnRestart(args.Restart)
	}
	id, err := s.cfg.Background.Dispatch(ctx, c.Home, b, restart)
	if err != nil {
		return redact.Message{}, err
	}
	return redact.Message{Body: map[string]any{"success": true, "execution_id": id, "state": journal.Queued}}, nil
}

// Background describes a background execution. The JSON keys are those of get_background_task_status.
type Background struct {
	Success   bool                `json:"success"`
	ID        string              `json:"execution_id"`
	State     string              `json:"state"` // queued, running, waiting, input_required, completed, failed, cancelled or interrupted
	Created   time.Time           `json:"created"`
	Changed   time.Time           `json:"changed"`
	Due       time.Time           `json:"due,omitzero"` // when a waiting one continues
	Expires   time.Time           `json:"expires,omitzero"`
	Task      string              `json:"task_description,omitempty"`
	Progress  *live.Progress      `json:"progress,omitempty"`
	Output    []string            `json:"output,omitempty"` // the last items, while it runs
	Questions []question.Question `json:"questions,omitempty"`
	Hint      string              `json:"hint,omitempty"`
	Result    any                 `json:"result,omitempty"` // as of execute_code
	Error     string              `json:"error,omitempty"`  // in a list, of one that has failed

	Ended  bool          `json:"-"`
	Reply  *reply.Result `json:"-"`
	Failed bool          `json:"-"`
}

// Describe returns the description of a background execution.
func (s *Server) Describe(ctx context.Context, h *home.Home, id string) (Background, error) {
	e, err := h.Runs.Find(ctx, id)
	if err != nil {
		return Background{}, err
	}
	open, err := asks(ctx, s.cfg.Runner, h, e)
	return describe(e, open, approval.ViaOf(h.Approvals), s.cfg.KeepBackground), err
}

// asks returns the questions of an execution that have no answer. If another process has stored them, they may be half
// a second old, or of a process that ran it before.
func asks(ctx context.Context, r *execution.Runner, h *home.Home, e journal.Run) ([]question.Question, error) {
	if x := r.Find(h, e.Execution); x != nil && e.Alive {
		return x.Questions(), nil
	}
	open, err := live.Unanswered(ctx, h.Runs, e)
	return slices.DeleteFunc(open, func(q question.Question) bool {
		if q.Approval == "" || h.Approvals == nil {
			return false
		}
		a, err := h.Approvals.Find(ctx, q.Approval)
		return err == nil && a.State != approval.Open
	}), err
}

// describe describes an execution that asks some questions now.
func describe(e journal.Run, open []question.Question, via approval.Via, keep time.Duration) Background {
	b := Background{
		Success: true,
		ID:      e.Execution,
		State:   string(e.State),
		Created: e.Created,
		Changed: e.Changed,
		Ended:   e.State == journal.Ended,
	}
	var request execution.StoredRequest
	if json.Unmarshal(e.Request, &request) == nil {
		b.Task = request.Task
	}
	var now live.State
	if e.Live != nil && !b.Ended && json.Unmarshal(e.Live, &now) == nil {
		b.Progress, b.Output = now.Progress, now.Output
	}
	switch {
	case len(open) > 0:
		b.Questions = forModel(open)
		b.State, b.Hint = "input_required", waiting(e.Execution, open, via, "").Error
	case !e.Alive && len(live.QuestionsOf(e)) > 0:
		b.State, b.Hint = string(journal.Queued), "its question is closed; it continues when a daemon runs"
	case e.State == journal.Waiting:
		if b.Due = e.Due; e.Due.IsZero() {
			b.Hint = "it waits for a signal: signal_execution, or `sandpiper executions signal " + e.Execution + " EVENT`"
		}
	case b.Ended:
		b.State = string(e.Outcome)
		b.Expires = e.Changed.Add(orDay(keep))
		b.Failed = e.Outcome != journal.Succeeded
		var r reply.Result
		if e.Result != nil && json.Unmarshal(e.Result, &r) == nil {
			b.Reply, b.Result = &r, r.Answer()
		}
	}
	return b
}

func orDay(d time.Duration) time.Duration {
	if d == 0 {
		return 24 * time.Hour
	}
	return d
}

// status returns the answer about a background execution, with the images of its result.
func status(b Background, commands fault.Commands) redact.Message {
	b.Hint = commands.Complete(b.Hint)
	m := redact.Message{Body: b}
	if b.Reply != nil {
		of := builtin.Answer(*b.Reply, commands)
		b.Result = of.Body
		m.Body, m.Images, m.Sources = b, of.Images, of.Sources
	}
	return m
}

type backgroundArgs struct {
	ID      string          `json:"execution_id"`
	Timeout *float64        `json:"timeout"`
	Event   string          `json:"event"`
	Value   json.RawMessage `json:"value"`
}

func (s backgroundTools) backgroundStatus(ctx context.Context, c builtin.Call) (redact.Message, error) {
	var args backgroundArgs
	if err := c.Read(&args); err != nil {
		return redact.Message{}, err
	}
	b, err := s.Describe(ctx, c.Home, args.ID)
	return status(b, c.Commands), err
}

const (
	defaultWait = 300 * time.Second
	maxWait     = time.Hour
	waitPoll    = 200 * time.Millisecond
)

func (s backgroundTools) waitForBackground(ctx context.Context, c builtin.Call) (redact.Message, error) {
	var args backgroundArgs
	if err := c.Read(&args); err != nil {
		return redact.Message{}, err
	}
	wait := defaultWait
	if args.Timeout != nil {
		if wait = execution.Seconds(*args.Timeout); wait <= 0 || wait > maxWait {
			return redact.Message{}, fault.New(fault.Invalid, "timeout is %g; it must be more than 0 and at most %g seconds", *args.Timeout,
				maxWait.Seconds())
		}
	}
	ends := time.Now().Add(wait)
	for {
		b, err := s.Describe(ctx, c.Home, args.ID)
		if err != nil || b.Ended || !time.Now().Before(ends) || b.State == "input_required" {
			return status(b, c.Commands), err
		}
		if b.Progress != nil {
			follower(s).progress(ctx, c, *b.Progress)
		}
		select {
		case <-ctx.Done():
			return redact.Message{}, context.Cause(ctx)
		case <-time.After(min(waitPoll, max(time.Until(ends), time.Millisecond))):
		}
	}
}

// mostListed limits the list of background executions.
const mostListed = 100

func (s backgroundTools) listBackground(ctx context.Context, c builtin.Call) (redact.Message, error) {
	if err := c.Read(&struct{}{}); err != nil {
		return redact.Message{}, err
	}
	all, err := s.ListBackground(ctx, c.Home)
	return redact.Message{Body: map[string]any{"success": true, "count": len(all), "executions": all}}, err
}

// ListBackground returns the latest background executions of a tenant, without results.
func (s *Server) ListBackground(ctx context.Context, h *home.Home) ([]Background, error) {
	entries, err := h.Runs.List(ctx, mostListed)
	all := []Background{}
	for _, e := range entries {
		open, wrong := asks(ctx, s.cfg.Runner, h, e)
		err = errors.Join(err, wrong)
		b := describe(e, open, approval.ViaOf(h.Approvals), s.cfg.KeepBackground)
		if b.Failed && e.Outcome != journal.Cancelled && b.Reply != nil {
			b.Error = Reason(b.Reply.ErrorType, b.Reply.Error)
		}
		b.Output, b.Result, b.Reply = nil, nil, nil
		all = append(all, b)
	}
	return all, err
}

func (s backgroundTools) cancelBackground(ctx context.Context, c builtin.Call) (redact.Message, error) {
	var args backgroundArgs
	if err := c.Read(&args); err != nil {
		return redact.Message{}, err
	}
	if err := s.cfg.Runner.Cancel(ctx, c.Home, args.ID); err != nil {
		return redact.Message{}, err
	}
	return builtin.Did("Execution %s is being cancelled, unless it has ended", args.ID)
}

func (s backgroundTools) signal(ctx context.Context, c builtin.Call) (redact.Message, error) {
	var args backgroundArgs
	if err := c.Read(&args); err != nil {
		return redact.Message{}, err
	}
	if err := s.cfg.Runner.Signal(ctx, c.Home, args.ID, args.Event, args.Value); err != nil {
		return redact.Message{}, err
	}
	s.cfg.Background.Wake()
	return builtin.Did("Signal %s sent", args.Event)
}

// answerElsewhere answers the questions of a background execution that another process runs, and
// returns its status; false if it asks none, or there is no answer.
func (s follower) answerElsewhere(ctx context.Context, c builtin.Call, id string, raw json.RawMessage) (m redact.Message, ok bool,
	err error) {
	if len(raw) == 0 || string(raw) == "null" {
		return m, false, nil
	}
	open, err := live.Questions(ctx, c.Home.Runs, id)
	if err != nil {
		return m, false, nil // resuming returns the reason
	}
	answer, err := answerTo(open, raw, approval.ViaOf(c.Home.Approvals))
	if err != nil {
		return m, false, err
	}
	if err := live.Answer(ctx, c.Home.Runs, id, answer); err != nil {
		return m, false, err
	}
	m, err = builtin.Did("The answer was passed on to execution %s; get_background_task_status returns its state", id)
	return m, true, err
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
