package mcpserver

import (
	"context"
	"encoding/json"
	"errors"
	"sync"
	"time"

	"github.com/sandpiper-mcp/sandpiper/internal/execution"
	"github.com/sandpiper-mcp/sandpiper/internal/execution/question"
	"github.com/sandpiper-mcp/sandpiper/internal/fault"
	"github.com/sandpiper-mcp/sandpiper/internal/home/approval"
	"github.com/sandpiper-mcp/sandpiper/internal/mcpserver/builtin"
	"github.com/sandpiper-mcp/sandpiper/internal/mcpserver/wire"
	"github.com/sandpiper-mcp/sandpiper/internal/privacy/redact"
	"github.com/sandpiper-mcp/sandpiper/internal/tool"
)

// suspend suspends the execution: the answer to the client contains the questions.
func (s follower) suspend(ctx context.Context, c builtin.Call, x *execution.Execution, open []question.Question) (m redact.Message,
	err error) {
	if err := s.cfg.Runner.Suspend(x); err != nil {
		return m, err
	}
	return s.requireAnswers(ctx, c, x.ID(), open)
}

// requireAnswers answers a call with the open questions of a suspended execution.
func (s follower) requireAnswers(ctx context.Context, c builtin.Call, id string, open []question.Question) (m redact.Message, err error) {
	if c.Require == nil {
		return redact.Message{Body: waiting(id, open, approval.ViaOf(c.Home.Approvals), c.Commands.Pages)}, nil
	}
	questions, err := redactQuestions(ctx, c.Gate(), open)
	if err != nil {
		return m, err
	}
	expires, err := expiry(ctx, c, open)
	if err != nil {
		return m, err
	}
	return redact.Message{Body: ""}, c.Require(questions, s.key.state(c.Home.ID(), id, expires))
}

// expiry returns when the last of some questions that are open now is closed.
func expiry(ctx context.Context, c builtin.Call, open []question.Question) (last time.Time, err error) {
	for _, q := range open {
		expires := time.Now().Add(question.TTL)
		if q.Approval != "" {
			asked, err := c.Home.Approvals.Find(ctx, q.Approval)
			if err != nil {
				return last, err
			}
			expires = asked.Expires
		}
		if expires.After(last) {
			last = expires
		}
	}
	return last, nil
}

// clientQuestions are the questions shown to a client during its open call.
type clientQuestions struct {
	server *Server
	call   builtin.Call
	x      *execution.Execution

	spawn func(f func(context.Context)) // runs f in a goroutine of all
	stop  context.CancelFunc            // ends the context of spawn
	fail  context.CancelCauseFunc       // called when the client rejects a question
	asked map[string]bool
	all   sync.WaitGroup
}

// newClientQuestions returns the questions of a call, and a context that ends when the client rejects a
// question.
func (s follower) newClientQuestions(ctx context.Context, c builtin.Call, x *execution.Execution) (*clientQuestions, context.Context) {
	a := &clientQuestions{server: s.Server, call: c, x: x, asked: map[string]bool{}}
	failed, fail := context.WithCancelCause(context.WithoutCancel(ctx))
	ctx, stop := context.WithCancel(ctx)
	release := x.Hold()
	a.fail, a.stop, a.spawn = fail, func() { release(); stop() }, func(f func(context.Context)) { a.all.Go(func() { f(ctx) }) }
	return a, failed
}

// end withdraws the open questions.
func (a *clientQuestions) end() {
	a.stop()
	a.all.Wait()
	a.fail(nil)
}

// put asks the open questions that were not asked yet, each in its own request, so that
// an answered one does not wait for the others.
func (a *clientQuestions) put(open []question.Question) {
	for _, q := range open {
		if a.asked[q.ID] {
			continue
		}
		a.asked[q.ID] = true
		closed := a.x.QuestionClosed(q.ID)
		a.spawn(func(ctx context.Context) {
			if err := a.one(ctx, q, closed); err != nil && ctx.Err() == nil {
				a.fail(err)
			}
		})
	}
}

// errUnanswered is the error about a client that has returned a question without the answer of a person.
var errUnanswered = errors.New("no person has answered")

// one asks one question and passes the reply to the execution.
func (a *clientQuestions) one(ctx context.Context, q question.Question, closed <-chan struct{}) error {
	asking, stop := context.WithCancel(ctx)
	defer stop()
	go func() {
		select {
		case <-closed:
			stop()
		case <-asking.Done():
		}
	}()
	questions, err := redactQuestions(asking, a.call.Gate(), []question.Question{q})
	if err != nil {
		return err
	}
	replies, err := a.call.Ask(asking, questions)
	if asking.Err() != nil {
		return nil
	}
	if err != nil {
		return err
	}
	if replies[q.ID].Action == wire.Cancel {
		return errUnanswered
	}
	_, err = a.server.cfg.Runner.Attach(ctx, a.call.Home, a.x.ID(), answers(replies))
	if fault.KindOf(err) == fault.NotFound { // the question was answered elsewhere
		return nil
	}
	return err
}

// redactQuestions labels questions of code and servers with their origin. In approvals, which
// Sandpiper asks itself, the person sees the unredacted call.
func redactQuestions(ctx context.Context, gate *redact.Gate, open []question.Question) ([]wire.Question, error) {
	var all []wire.Question
	for _, q := range open {
		one, err := redactQuestion(ctx, gate, q)
		if err != nil {
			return nil, err
		}
		all = append(all, one)
	}
	return all, nil
}

func redactQuestion(ctx context.Context, gate *redact.Gate, q question.Question) (one wire.Question, err error) {
	one.ID, one.Schema = q.ID, q.Schema
	if q.Approval != "" {
		one.Text, err = gate.RevealToPerson(ctx, builtin.WithAsker(q.Text, q.Asker))
		return one, err
	}
	if one.Text, err = gate.Redact(ctx, asker(q)+" asks: "+builtin.Printable(q.Text)); err != nil {
		return one, err
	}
	schema, err := gate.Tokenize(ctx, "", string(q.Schema))
	one.Schema = json.RawMessage(schema)
	return one, err
}

func asker(q question.Question) string {
	if q.Call > 0 {
		return "Sandpiper"
	}
	if q.From == "" {
		return "The code that is running"
	}
	return "The tool " + builtin.Printable(q.From) + ", which the code called,"
}

func answers(replies map[string]wire.Reply) question.Answer {
	a := question.Answer{}
	for id, r := range replies {
		a[id] = tool.Reply{Action: tool.Action(r.Action), Content: r.Content}
	}
	return a
}

// personal returns the answers of a person in the replies to questions that the client had for a time,
// and whether there are others.
func personal(replies map[string]wire.Reply, shown time.Duration) (a question.Answer, more bool) {
	given := map[string]wire.Reply{}
	for id, r := range replies {
		if r = r.After(shown); r.Action != wire.Cancel {
			given[id] = r
		}
	}
	return answers(given), len(given) < len(replies)
}

// answerQuestion passes the answer of the call to its question. It returns false if there is no
// answer, or it does not fit.
func (s follower) answerQuestion(ctx context.Context, c *builtin.Call, x *execution.Execution, open []question.Question) bool {
	given := c.Given
	if c.Given = nil; given == nil || len(open) != 1 {
		return false
	}
	answer, err := given(open)
	if err != nil || len(answer) == 0 {
		return false
	}
	_, err = s.cfg.Runner.Attach(ctx, c.Home, x.ID(), answer)
	return err == nil
}
