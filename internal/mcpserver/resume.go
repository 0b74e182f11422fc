package mcpserver

import (
	"context"
	"encoding/json"
	"slices"
	"time"

	"github.com/sandpiper-mcp/sandpiper/internal/audit"
	"github.com/sandpiper-mcp/sandpiper/internal/execution/live"
	"github.com/sandpiper-mcp/sandpiper/internal/execution/question"
	"github.com/sandpiper-mcp/sandpiper/internal/execution/unfinished"
	"github.com/sandpiper-mcp/sandpiper/internal/fault"
	"github.com/sandpiper-mcp/sandpiper/internal/home/approval"
	"github.com/sandpiper-mcp/sandpiper/internal/home/journal"
	"github.com/sandpiper-mcp/sandpiper/internal/mcpserver/builtin"
	"github.com/sandpiper-mcp/sandpiper/internal/mcpserver/wire"
	"github.com/sandpiper-mcp/sandpiper/internal/privacy/redact"
)

func (s follower) resume(ctx context.Context, c builtin.Call) (redact.Message, error) {
	if c.State != "" {
		return s.answered(ctx, c)
	}
	var args struct {
		ID      string          `json:"execution_id"`
		Session string          `json:"session_id"`
		Answer  json.RawMessage `json:"answer"`
	}
	if err := c.Read(&args); err != nil {
		return redact.Message{}, err
	}
	if args.ID == "" {
		return s.resumable(ctx, c, args.Session, args.Answer)
	}
	x := s.cfg.Runner.Find(c.Home, args.ID)
	if x == nil {
		given := func(open []question.Question) (question.Answer, error) {
			return answerTo(open, args.Answer, approval.ViaOf(c.Home.Approvals))
		}
		if m, ok, err := s.continueWaiting(ctx, c, args.ID, given); ok {
			return m, err
		}
		if m, ok, err := s.answerElsewhere(ctx, c, args.ID, args.Answer); ok || err != nil {
			return m, err
		}
		return s.again(ctx, c, args.ID, given)
	}
	answer, err := answerTo(x.Questions(), args.Answer, approval.ViaOf(c.Home.Approvals))
	if err != nil {
		return redact.Message{}, err
	}
	if x, err = s.cfg.Runner.Attach(ctx, c.Home, args.ID, answer); err != nil {
		return redact.Message{}, err
	}
	return s.follow(ctx, c, x)
}

// answered continues an execution that an earlier answer asked about.
func (s follower) answered(ctx context.Context, c builtin.Call) (redact.Message, error) {
	id, asked, expires, ok := s.key.opened(c.Home.ID(), c.State)
	if !ok {
		if s.cfg.Audit != nil {
			s.cfg.Audit(audit.Line{Kind: audit.Access, Tenant: c.Home.ID(), Outcome: "unknown_state"})
		}
		return redact.Message{}, wire.ErrState
	}
	if !time.Now().Before(expires) { // calling again without it would run the code a second time
		return redact.Message{}, fault.New(fault.NotFound, "the questions of execution %s have expired", id).
			WithHint("call resume_execution with execution_id %q", id)
	}
	given, unanswered := personal(c.Replies, time.Since(asked))
	if unanswered { // the client is not asked again
		c.Ask, c.Require = nil, nil
	}
	if s.cfg.Runner.Find(c.Home, id) == nil {
		if m, ok, err := s.continueWaiting(ctx, c, id, func([]question.Question) (question.Answer, error) { return given, nil }); ok {
			return m, err
		}
	}
	x, err := s.cfg.Runner.Attach(ctx, c.Home, id, given)
	if kind := fault.KindOf(err); kind == fault.Invalid || kind == fault.NotFound { // ask the open questions again
		x, err = s.cfg.Runner.Attach(ctx, c.Home, id, nil)
	}
	if fault.KindOf(err) == fault.NotFound { // started by an earlier daemon
		return s.again(ctx, c, id, func([]question.Question) (question.Answer, error) { return given, nil })
	}
	if err != nil {
		return redact.Message{}, err
	}
	return s.follow(ctx, c, x)
}

// resumable lists the executions that can be resumed, for a client without an id.
func (s follower) resumable(ctx context.Context, c builtin.Call, session string, answer json.RawMessage) (redact.Message, error) {
	if len(answer) > 0 && string(answer) != "null" {
		return redact.Message{}, fault.New(fault.Invalid, "resume_execution was given an answer without the execution_id that it is for").
			WithHint("call it without arguments for a list of executions")
	}
	all, err := unfinished.List(ctx, s.cfg.Runner, c.Home, session)
	if err != nil {
		return redact.Message{}, err
	}
	all = slices.DeleteFunc(all, unfinished.Execution.TooLarge)
	return redact.Message{Body: map[string]any{"success": true, "count": len(all), "executions": all}}, nil
}

// again resumes an interrupted execution. The given answer is for its only open question.
func (s follower) again(ctx context.Context, c builtin.Call, id string,
	given func([]question.Question) (question.Answer, error)) (redact.Message, error) {
	x, err := s.cfg.Runner.Resume(ctx, c.Home, id)
	if err != nil {
		return redact.Message{}, err
	}
	if x.PendingQuestions() == 1 {
		c.Given = given
	}
	return s.follow(ctx, c, x)
}

// wokenWait is how long a call waits until an execution whose question was answered runs again in this process.
const wokenWait = 5 * time.Second

// continueWaiting deals with an execution that waits for answers without a process: it passes the given ones on, or
// asks the client. It returns false if there is no such execution.
func (s follower) continueWaiting(ctx context.Context, c builtin.Call, id string,
	given func([]question.Question) (question.Answer, error)) (m redact.Message, ok bool, err error) {
	e, err := c.Home.Runs.Find(ctx, id)
	open := live.QuestionsOf(e)
	if err != nil || e.State != journal.Waiting || len(open) == 0 {
		return m, false, nil // resuming returns the reason
	}
	if live.IsWoken(e) {
		m, err = s.followWoken(ctx, c, id)
		return m, true, err
	}
	answer, err := given(open)
	if err == nil && len(answer) == 0 && c.Ask != nil {
		answer, err = s.askWaiting(ctx, c, id, open)
	}
	if err != nil {
		return m, true, err
	}
	if e, err = c.Home.Runs.Find(ctx, id); len(answer) == 0 && err == nil && e.State == journal.Waiting && !live.IsWoken(e) {
		m, err = s.requireAnswers(ctx, c, id, open)
		return m, true, err
	}
	if err == nil {
		err = answerWaiting(ctx, c.Home, id, open, answer)
	}
	if err != nil {
		return m, true, err
	}
	m, err = s.followWoken(ctx, c, id)
	return m, true, err
}

// askWaiting asks the client during its call until an execution is due in another way. Without an answer of a person,
// the result is nil.
func (s follower) askWaiting(ctx context.Context, c builtin.Call, id string, open []question.Question) (question.Answer, error) {
	questions, err := redactQuestions(ctx, c.Gate(), open)
	if err != nil {
		return nil, err
	}
	asking, stop := context.WithCancel(ctx)
	defer stop()
	go func() {
		for {
			select {
			case <-asking.Done():
				return
			case <-time.After(waitPoll):
			}
			if e, err := c.Home.Runs.Find(asking, id); err != nil || e.State != journal.Waiting || live.IsWoken(e) {
				stop()
			}
		}
	}()
	began := time.Now()
	replies, err := c.Ask(asking, questions)
	if err != nil {
		if ctx.Err() == nil {
			s.cfg.Log.Debug("the client could not be asked", "error", err)
		}
		return nil, context.Cause(ctx)
	}
	answer, _ := personal(replies, time.Since(began))
	return answer, nil
}

// followWoken waits for an execution whose question was answered, if it runs again in this process.
func (s follower) followWoken(ctx context.Context, c builtin.Call, id string) (redact.Message, error) {
	if s.cfg.Background != nil {
		s.cfg.Background.Wake()
	}
	for until := time.Now().Add(wokenWait); time.Now().Before(until); {
		if x := s.cfg.Runner.Find(c.Home, id); x != nil {
			return s.follow(ctx, c, x)
		}
		e, err := c.Home.Runs.Find(ctx, id)
		switch {
		case err != nil:
			return redact.Message{}, err
		case e.State == journal.Ended:
			return s.again(ctx, c, id, nil)
		case e.State == journal.Waiting && !live.IsWoken(e): // it asks the next question
			until = time.Time{}
		}
		select {
		case <-ctx.Done():
			return redact.Message{}, context.Cause(ctx)
		case <-time.After(waitPoll / 10):
		}
	}
	return builtin.Did("The answer was passed on to execution %s; get_background_task_status returns its state", id)
}
