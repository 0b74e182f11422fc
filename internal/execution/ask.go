package execution

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/sandpiper-mcp/sandpiper/internal/execution/live"
	"github.com/sandpiper-mcp/sandpiper/internal/execution/question"
	"github.com/sandpiper-mcp/sandpiper/internal/fault"
	"github.com/sandpiper-mcp/sandpiper/internal/home/approval"
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
		return h.askPerson(ctx, asking, question.Question{From: ref.String(), Of: q.Of, Text: q.Text}, form)
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
		reply, err := h.askPerson(ctx, asking, question.Question{Approval: a.ID, From: a.Ref.String(), Text: a.Text, Asker: a.Asker,
			Expires: a.Expires}, form)
		elsewhere := asking.Err() != nil && ctx.Err() == nil // answered in another way
		if again := ctx.Err() != nil && h.resumable(); err != nil && !elsewhere && !again {
			err = errors.Join(err, h.home.Approvals.Withdraw(context.WithoutCancel(ctx), a.ID))
		}
		return reply, err
	}
}

// maxShownArgs is the size in bytes of arguments that are shown in the question about a call.
const maxShownArgs = 1000

// decisionForm is the form of the question about a call whose outcome is unknown.
var decisionForm = sync.OnceValue(func() question.Form {
	form, err := question.ParseForm(fmt.Appendf(nil, `{"type":"object","properties":{
		"outcome":{"type":"string","enum":[%q,%q,%q],"description":"%s: it took effect; %s: it did not, make it now; %s: end the execution"},
		"answer":{"type":"string","description":"the answer of the call in JSON, if it took effect and the answer is known"}},"required":["outcome"]}`,
		tool.TookEffect, tool.NoEffect, tool.Stop, tool.TookEffect, tool.NoEffect, tool.Stop))
	if err != nil { // it is constant
		panic(err)
	}
	return form
})

// decide returns a function that asks the user about a call whose outcome is unknown.
func decide(ctx context.Context, h *host) func(context.Context, int, tool.Ref, json.RawMessage) (tool.Decision, error) {
	return func(asking context.Context, number int, ref tool.Ref, args json.RawMessage) (d tool.Decision, err error) {
		text := fmt.Sprintf("The execution ended during call %d, of %s, before its answer, so that it is unknown whether it took effect. "+
			"Find out, then choose: %s if it took effect, %s if the execution shall make it now, %s to end the execution.",
			number, ref, tool.TookEffect, tool.NoEffect, tool.Stop)
		if len(args) <= maxShownArgs {
			text += " The arguments: " + string(args)
		}
		q := question.Question{Call: number, Text: text}
		r := requestDecision(ctx, h, number, ref, args)
		var reply tool.Reply
		ask := func(asking context.Context) (err error) {
			reply, err = h.askPerson(ctx, asking, q, decisionForm())
			return err
		}
		switch {
		case r.ID == "":
			err = ask(asking)
		case r.State == approval.Approved:
			err = supersedeReply(ctx, h, q, decisionForm())
		default:
			q.Request, q.Expires = r.ID, r.Expires
			answered, failed := approval.UntilAnswered(asking, h.home.Approvals, r.ID, ask)
			if err = failed; answered != nil {
				r = *answered
			}
		}
		if r.State == approval.Approved && err == nil && ctx.Err() == nil {
			return useDecision(ctx, h, q, r)
		}
		if err != nil || reply.Action != tool.Accept {
			return d, err
		}
		if r.ID != "" {
			if err := h.home.Approvals.Withdraw(ctx, r.ID); err != nil {
				return d, err
			}
		}
		var content struct{ Outcome, Answer string }
		err = json.Unmarshal(reply.Content, &content)
		return tool.Decision{Outcome: content.Outcome, Answer: journal.AsAnswer(content.Answer)}, err
	}
}

// useDecision returns the decision of a request, which is used up: the call may be interrupted again. The decision is on
// record, as a reply to q, until it is applied, so that a kill before that does not lose it.
func useDecision(ctx context.Context, h *host, q question.Question, r approval.Request) (d tool.Decision, err error) {
	d = r.Decision()
	content, err := json.Marshal(struct{ Outcome, Answer string }{d.Outcome, string(d.Answer)})
	if err != nil {
		return d, err
	}
	if err := promoteQuestion(ctx, h, &q, decisionForm()); err != nil {
		return d, err
	}
	text, err := json.Marshal(storedReply{Action: tool.Accept, Content: content, By: r.By})
	if err == nil {
		err = journal.AddReply(ctx, h.run.record, asked(q), text)
	}
	if err == nil {
		err = h.home.Approvals.Use(ctx, r.ID, r.Binding)
	}
	if err == nil {
		_, _, err = takeReply(ctx, h.run.record, q) // with the commit of the decision
	}
	return d, err
}

// requestDecision stores the question about a call, so that it can also be answered on the page of
// approvals and by a command. It returns an earlier one with its answer, and the zero Request if none
// can be stored.
func requestDecision(ctx context.Context, h *host, number int, ref tool.Ref, args json.RawMessage) approval.Request {
	sum := sha256.Sum256(args)
	shown, err := h.gate.Restorer().Variables(ctx, args)
	if err != nil || h.home.Approvals == nil {
		return approval.Request{}
	}
	r, err := h.home.Approvals.Create(ctx, approval.Question{
		Binding: approval.Binding{Kind: approval.Outcome, Execution: h.run.id, Occurrence: number, Ref: ref,
			Arguments: hex.EncodeToString(sum[:])},
		Session: h.run.Request.SessionID, Shown: shown, Origin: approval.Origin{Origin: originOf(h.executor)},
	})
	if err != nil {
		h.r.cfg.Log.Warn("store the question about a call", "execution", h.run.id, "error", err)
		return approval.Request{}
	}
	return r
}

// askPerson asks the user and waits for the answer until asking ends. While it waits,
// the clock is paused and the slot in the queue is free for other executions; it
// returns once it has a slot again, or when ctx ends. A reply that an earlier run recorded
// is returned at once.
func (h *host) askPerson(ctx, asking context.Context, q question.Question, form question.Form) (tool.Reply, error) {
	if err := promoteQuestion(ctx, h, &q, form); err != nil {
		return tool.Reply{}, err
	}
	record := h.run.record
	if reply, ok, err := takeReply(ctx, record, q); ok || err != nil {
		return reply, err
	}
	of := asked(q)
	name := h.run.questions.NextName(of)
	q.ID = question.ID(name)
	if q.Expires.IsZero() {
		q.Expires = time.Now().Add(question.TTL)
	}
	inBackground := h.run.background.Load() != nil
	if until := journal.OpenUntil(record, of); inBackground && !until.IsZero() { // it has waited all the time
		q.Expires = until
	}
	number, err := record.AddQuestion(ctx, name, of, q.Expires)
	if err != nil {
		return tool.Reply{}, err
	}
	open, err := h.run.questions.Add(q, form, h.gate.Restorer().Variables, func(ctx context.Context, reply tool.Reply) error {
		return setReply(ctx, record, number, q, reply)
	})
	if err != nil {
		return tool.Reply{}, err
	}
	if inBackground && !record.Replays() {
		live.TakeAnswers(ctx, publisher(h.r, h.home, h.run))
	}
	h.Pause()
	h.run.notify()
	reply, err := awaitReply(ctx, asking, h, open)
	h.run.questions.Remove(open)
	if back := h.Resume(ctx); err == nil {
		err = back
	}
	if ctx.Err() == nil { // otherwise a replay needs the reply, or asks again
		journal.EndQuestion(record, number)
	}
	return reply, err
}

// awaitReply waits for the reply to a question. That of a background execution ends the worker if the reply does not
// come soon, unless a server asks, whose call cannot be replayed.
func awaitReply(ctx, asking context.Context, h *host, q *question.Open) (tool.Reply, error) {
	if !h.resumable() || q.From != "" && q.Approval == "" {
		return q.Wait(asking)
	}
	p := &pause{question: true, events: []string{live.AnswerEvent}, until: func() time.Time { return q.Until }}
	if p.approval = cmp.Or(q.Approval, q.Request); p.approval != "" {
		p.events = append(p.events, journal.ApprovalEvent(p.approval))
	}
	h.busy.leave()
	h.busy.begin(p)
	reply, err := awaitOrEnd(ctx, asking, h, q)
	if h.busy.end(p) && err == nil {
		h.run.wait.wake()
	}
	if wrong := h.busy.enter(ctx); err == nil {
		err = wrong
	}
	return reply, err
}

// awaitOrEnd waits for the reply to a question, and ends the worker when the execution does nothing else.
func awaitOrEnd(ctx, asking context.Context, h *host, q *question.Open) (tool.Reply, error) {
	for {
		soon, cancel := context.WithTimeout(asking, signalPoll)
		reply, err := q.Wait(soon)
		cancel()
		switch {
		case err == nil:
			return reply, nil
		case asking.Err() != nil:
			return reply, context.Cause(asking)
		}
		if err := h.endWorker(ctx, h.r.cfg.AnswerGrace); err != nil {
			if !errors.Is(err, errTooLargeToWait) {
				h.r.cfg.Log.Warn("end the process of an execution that waits for an answer", "execution", h.run.id, "error", err)
			}
			return q.Wait(asking)
		}
	}
}

// promoteQuestion replaces the interpreter's own tokens in q, and sets its schema.
func promoteQuestion(ctx context.Context, h *host, q *question.Question, form question.Form) error {
	schema := string(form.Schema)
	for _, text := range []*string{&q.Text, &q.Asker, &schema} {
		var err error
		if *text, err = h.gate.Tokens().Promote(ctx, *text); err != nil {
			return err
		}
	}
	q.Schema = json.RawMessage(schema)
	return nil
}
