package execution

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/sandpiper-mcp/sandpiper/internal/execution/question"
	"github.com/sandpiper-mcp/sandpiper/internal/fault"
	"github.com/sandpiper-mcp/sandpiper/internal/home/journal"
	"github.com/sandpiper-mcp/sandpiper/internal/tool"
)

type askArgs struct {
	Question string          `json:"question"`
	Schema   json.RawMessage `json:"schema"`
}

// askAnswer is the value that ask returns to the code.
type askAnswer struct {
	Action tool.Action     `json:"action"`
	Value  json.RawMessage `json:"value"`
}

// ask handles the ask() call of the code.
func (h *host) ask(ctx context.Context, a askArgs) (any, error) {
	if err := question.CheckText(a.Question); err != nil {
		return nil, err
	}
	form, err := question.ParseForm(a.Schema)
	if err != nil {
		return nil, err
	}
	reply, err := h.askPerson(ctx, ctx, question.Question{Text: a.Question}, form)
	if err != nil {
		return nil, err
	}
	value, err := form.Value(reply)
	return askAnswer{reply.Action, value}, err
}

// askForTool returns a function that asks the user a server's question during a call,
// if a form can represent it.
func (h *host) askForTool(ctx context.Context, ref tool.Ref) func(context.Context, tool.Question) (tool.Reply, error) {
	return func(asking context.Context, q tool.Question) (tool.Reply, error) {
		form, err := question.ParseForm(q.Schema)
		if err == nil && form.Wrapped {
			err = fault.New(fault.Invalid, "the schema must have type object")
		}
		if err == nil {
			err = question.CheckText(q.Text)
		}
		if err != nil {
			return tool.Reply{}, err
		}
		return h.askPerson(ctx, asking, question.Question{From: ref.String(), Text: q.Text}, form)
	}
}

// approve returns a function that asks the user whether the code may make a call. If
// nothing waits for the answer any more, the request is withdrawn, unless the code can
// be resumed: the resumed run then finds the answer.
func (h *host) approve(ctx context.Context) func(context.Context, tool.Approval) (tool.Reply, error) {
	return func(asking context.Context, a tool.Approval) (tool.Reply, error) {
		form, err := question.ParseForm(a.Schema)
		if err != nil {
			return tool.Reply{}, err
		}
		reply, err := h.askPerson(ctx, asking, question.Question{Approval: a.ID, From: a.Ref.String(), Text: a.Text, Asker: a.Asker}, form)
		elsewhere := asking.Err() != nil && ctx.Err() == nil // answered in another way
		if again := ctx.Err() != nil && h.resumable(); err != nil && !elsewhere && !again {
			err = errors.Join(err, h.home.Approvals.Withdraw(context.WithoutCancel(ctx), a.ID))
		}
		return reply, err
	}
}

// askPerson asks the user and waits for the answer until asking ends. While it waits,
// the clock is paused and the slot in the queue is free for other executions; it
// returns once it has a slot again, or when ctx ends.
func (h *host) askPerson(ctx, asking context.Context, q question.Question, form question.Form) (tool.Reply, error) {
	var err error
	if q.Text, err = h.exit.Tokens().Promote(ctx, q.Text); err != nil {
		return tool.Reply{}, err
	}
	if q.Asker, err = h.exit.Tokens().Promote(ctx, q.Asker); err != nil {
		return tool.Reply{}, err
	}
	schema, err := h.exit.Tokens().Promote(ctx, string(form.Schema))
	if err != nil {
		return tool.Reply{}, err
	}
	q.Schema = json.RawMessage(schema)
	name := h.run.questions.NextName()
	q.ID = fmt.Sprintf("q%d", name)
	number, err := h.run.record.AddQuestion(ctx, name)
	if err != nil {
		return tool.Reply{}, err
	}
	open, err := h.run.questions.Add(q, form, h.exit.Restorer().Variables)
	if err != nil {
		return tool.Reply{}, err
	}
	defer h.run.questions.Remove(open)
	h.pause()
	h.run.notify()
	reply, err := open.Wait(asking)
	if err == nil {
		h.run.record.SetAnswer(number, journal.Answer{})
	}
	if back := h.resume(ctx); err == nil {
		err = back
	}
	return reply, err
}
