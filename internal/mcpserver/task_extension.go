package mcpserver

import (
	"context"
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/sandpiper-mcp/sandpiper/internal/access"
	"github.com/sandpiper-mcp/sandpiper/internal/execution"
	"github.com/sandpiper-mcp/sandpiper/internal/execution/live"
	"github.com/sandpiper-mcp/sandpiper/internal/execution/question"
	"github.com/sandpiper-mcp/sandpiper/internal/execution/reply"
	"github.com/sandpiper-mcp/sandpiper/internal/fault"
	"github.com/sandpiper-mcp/sandpiper/internal/home"
	"github.com/sandpiper-mcp/sandpiper/internal/home/approval"
	"github.com/sandpiper-mcp/sandpiper/internal/home/journal"
	"github.com/sandpiper-mcp/sandpiper/internal/mcpserver/builtin"
	"github.com/sandpiper-mcp/sandpiper/internal/mcpserver/wire"
)

// taskAfter is how long a call takes before it is answered by a task, if the client supports tasks.
const taskAfter = 2 * time.Second

// errTask ends the wait of a call that is to be answered by a task.
var errTask = errors.New("the call takes longer than a client waits")

// protocolTasks are the background executions as tasks of the protocol.
type protocolTasks struct{ *Server }

// tasks are the background executions as tasks of the protocol.
func (s protocolTasks) tasks() *wire.Tasks {
	if s.cfg.Background == nil {
		return nil
	}
	return &wire.Tasks{
		Scope: string(access.Execute),
		Get: func(ctx context.Context, caller, id string, asks bool) (task wire.Task, err error) {
			err = s.withHome(ctx, caller, func(h *home.Home) error {
				task, err = s.task(ctx, h, id, asks)
				return err
			})
			return task, err
		},
		Update: func(ctx context.Context, caller, id string, replies map[string]wire.Reply) error {
			return s.withHome(ctx, caller, func(h *home.Home) error { return s.updateTask(ctx, h, id, replies) })
		},
		Cancel: func(ctx context.Context, caller, id string) error {
			return s.withHome(ctx, caller, func(h *home.Home) error { return s.cfg.Runner.Cancel(ctx, h, id) })
		},
	}
}

// task returns a background execution as a task.
func (s protocolTasks) task(ctx context.Context, h *home.Home, id string, asks bool) (t wire.Task, err error) {
	b, err := s.Describe(ctx, h, id)
	if err != nil {
		return t, err
	}
	gate := s.ownGate(h)
	commands := s.cfg.commands(h.ID().String(), "", false)
	t = wire.Task{ID: b.ID, Status: wire.TaskWorking, Created: b.Created, Changed: b.Changed}
	text := commands.Complete(b.Hint)
	if b.Progress != nil {
		text = strings.TrimPrefix(text+"; "+b.Progress.Message, "; ")
	}
	if b.Ended {
		t.Keep = b.Expires.Sub(b.Created)
	}
	switch {
	case b.State == string(journal.Cancelled):
		t.Status = wire.TaskCancelled
	case b.Ended && b.Reply != nil && b.State != string(journal.Interrupted):
		t.Status = wire.TaskCompleted
		m := builtin.Answer(*b.Reply, commands)
		m.CountTokens = true
		res, err := gate.Redact(ctx, m)
		if err != nil {
			return t, err
		}
		t.Result = &res
	case b.Ended:
		t.Status, t.Failure = wire.TaskFailed, "the execution was "+b.State
	case len(b.Questions) > 0 && asks && approval.ViaOf(h.Approvals) != approval.ViaOperator:
		open := s.shown.show(id, b.Questions)
		if len(open) > 0 {
			t.Status = wire.TaskInput
		}
		if t.Questions, err = redactQuestions(ctx, gate, open); err != nil {
			return t, err
		}
	}
	if text != "" {
		t.Message, err = gate.Redact(ctx, text)
	}
	return t, err
}

// updateTask passes the replies to questions on. Replies to others are ignored.
func (s protocolTasks) updateTask(ctx context.Context, h *home.Home, id string, replies map[string]wire.Reply) (err error) {
	e, err := h.Runs.Find(ctx, id)
	if err != nil {
		return err
	}
	if approval.ViaOf(h.Approvals) == approval.ViaOperator {
		return fault.New(fault.Denied, "questions are not answered by a client, since approvals.via is operator")
	}
	x := s.cfg.Runner.Find(h, id) // nil perhaps after this process ran its beginning
	open, err := unanswered(ctx, h, e, x, replies)
	if err != nil {
		return err
	}
	given := s.shown.personal(id, open, replies)
	if len(given) == 0 {
		return nil
	}
	if x != nil {
		if _, err = s.cfg.Runner.Attach(ctx, h, id, given); fault.KindOf(err) != fault.NotFound {
			return err
		}
	}
	return answerWaiting(ctx, h, id, open, given) // perhaps its process has just ended, or its code has not asked again
}

// unanswered returns the questions of an execution that replies may be for: those that are open, and those that its code
// asks again, if a process has begun to continue it and has not come to them.
func unanswered(ctx context.Context, h *home.Home, e journal.Run, x *execution.Execution,
	replies map[string]wire.Reply) (open []question.Question, err error) {
	if open = live.QuestionsOf(e); x != nil {
		open = x.Questions()
	}
	if e.State == journal.Ended {
		return open, nil
	}
	expected, err := live.Expected(ctx, h.Runs, e.Execution)
	if err != nil {
		return nil, err
	}
	for id := range replies {
		if h.Approvals == nil {
			break
		}
		if r, err := h.Approvals.Find(ctx, id); err == nil && r.Execution == e.Execution && r.Kind == approval.Call &&
			r.State == approval.Open {
			expected = append(expected, question.Question{ID: r.ID, Approval: r.ID})
		}
	}
	for _, q := range expected {
		if !slices.ContainsFunc(open, func(o question.Question) bool { return o.ID == q.ID }) {
			open = append(open, q)
		}
	}
	return open, nil
}

// nextEvent is the next event of an execution. If the client supports tasks and the call takes long,
// the error is errTask.
func nextEvent(ctx context.Context, c builtin.Call, x *execution.Execution, began time.Time) (execution.Event, error) {
	if c.Task == nil {
		return x.Next(ctx)
	}
	soon, cancel := context.WithDeadlineCause(ctx, began.Add(taskAfter), errTask)
	defer cancel()
	return x.Next(soon)
}

// detach answers a call by a task. It returns false if the execution has to be waited for.
func (s protocolTasks) detach(ctx context.Context, c builtin.Call, x *execution.Execution) (bool, error) {
	detached, err := s.cfg.Runner.Detach(ctx, c.Home, x)
	if err != nil || !detached {
		return false, err
	}
	t, err := s.task(ctx, c.Home, x.ID(), false)
	if err == nil {
		c.Task(t)
	}
	return true, err
}

// suspendedTask answers a call by a task if its execution waits in the background.
func (s protocolTasks) suspendedTask(ctx context.Context, c builtin.Call, r *reply.Result) bool {
	if c.Task == nil || r.ErrorType != execution.TypeSuspended {
		return false
	}
	t, err := s.task(ctx, c.Home, r.ExecutionID, false)
	if err == nil {
		c.Task(t)
	}
	return err == nil
}
