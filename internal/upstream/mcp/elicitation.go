package mcp

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/sandpiper-mcp/sandpiper/internal/fault"
	"github.com/sandpiper-mcp/sandpiper/internal/tool"
	"github.com/sandpiper-mcp/sandpiper/internal/upstream/sanitize"
)

// maxQuestions is how much a server may ask during one call: questions, and in
// the newest era rounds too.
const maxQuestions = 16

// question answers one that a server asks of its own accord, in the older era.
// All of it is in the text: see whole.
func (t *interceptor) answerElicitation(p *sdk.ElicitParams) *sdk.ElicitResult {
	a, err := t.findCaller()
	if err != nil {
		t.logDeclined(err)
		return &sdk.ElicitResult{Action: string(tool.Decline)}
	}
	defer a.questions.Done()
	var f form
	if err := json.Unmarshal([]byte(p.Message), &f); err != nil {
		f = form{} // which cannot be asked
	}
	return t.elicit(a.ctx, a, f)
}

// askable is the call that a question belongs to, which has to be told when the
// question is Done. It is none unless there can be no other: the question may
// be about what one tenant does, and another must not see it.
func (t *interceptor) findCaller() (*request, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	var calls []*request
	for _, a := range t.pending {
		if a.forTenant() {
			calls = append(calls, a)
		}
	}
	err := checkSingleCall(calls, len(t.abandoned))
	if err != nil {
		for _, a := range calls {
			a.declined, a.declinedOwn = err, a.declinedOwn || len(calls) == 1 && len(t.abandoned) == 0
		}
		return nil, err
	}
	calls[0].questions.Add(1)
	return calls[0], nil
}

func checkSingleCall(calls []*request, lost int) error {
	switch {
	case len(calls) != 1:
		return fault.New(fault.Unavailable, "%d requests were under way, and the protocol does not say whose question it is", len(calls))
	case lost > 0:
		return fault.New(fault.Unavailable, "an earlier request was given up, and the question might belong to that")
	case calls[0].ask == nil:
		return fault.New(fault.Unavailable, "nobody can be asked during this call")
	}
	return nil
}

// put asks the person of a call. What cannot be asked is declined, and the call
// notes why.
func (t *interceptor) elicit(ctx context.Context, a *request, f form) *sdk.ElicitResult {
	reply, err := a.elicit(ctx, f)
	content, wrong := decodeContent(reply.Content)
	if err = errors.Join(err, wrong); err == nil {
		return &sdk.ElicitResult{Action: string(reply.Action), Content: content}
	}
	if ctx.Err() != nil {
		return &sdk.ElicitResult{Action: string(tool.Cancel)}
	}
	t.logDeclined(err)
	t.mu.Lock()
	defer t.mu.Unlock()
	a.declined, a.declinedOwn = err, true
	return &sdk.ElicitResult{Action: string(tool.Decline)}
}

// refuses logs the first one that stands out: a server can ask any number.
func (t *interceptor) logDeclined(err error) {
	level := slog.LevelDebug
	if !t.declineLogged.Swap(true) {
		level = slog.LevelWarn
	}
	t.log.Log(context.Background(), level, "an upstream server asks a question, which is declined", "reason", fault.Message(err))
}

func (a *request) elicit(ctx context.Context, f form) (tool.Reply, error) {
	q, defaults, err := f.toQuestion()
	switch {
	case err != nil:
		return tool.Reply{}, err
	case a.questionCount.Add(1) > maxQuestions:
		return tool.Reply{}, fault.New(fault.Exhausted, "it asked more than %d questions during one call", maxQuestions)
	}
	reply, err := a.ask(ctx, q)
	if err != nil || reply.Action != tool.Accept {
		return tool.Reply{Action: reply.Action}, err
	}
	reply.Content, err = applyDefaults(reply.Content, defaults)
	return reply, err
}

// fill adds the defaults of what the person left out.
//
// https://modelcontextprotocol.io/seps/1034
func applyDefaults(content json.RawMessage, defaults map[string]json.RawMessage) (json.RawMessage, error) {
	var given map[string]json.RawMessage
	if err := json.Unmarshal(content, &given); err != nil && len(content) > 0 {
		return nil, fault.Wrap(fault.Invalid, err, "the answer is no object")
	}
	filled := maps.Clone(defaults)
	maps.Copy(filled, given)
	return json.Marshal(filled)
}

// decode keeps numbers as they are written.
func decodeContent(content json.RawMessage) (m map[string]any, err error) {
	if len(content) == 0 {
		return nil, nil
	}
	d := json.NewDecoder(bytes.NewReader(content))
	d.UseNumber()
	err = d.Decode(&m)
	return m, err
}

// inputs is what a server answers in the newest era that needs something before
// it goes on.
type inputRequired struct {
	Requests map[string]struct {
		Method string `json:"method"`
		Params form   `json:"params"`
	} `json:"inputRequests"`
	State string `json:"requestState"`
}

// next makes params those of the next round: with the person's answers, and the
// state as it was given. It fails where there is no asking, or no end of it.
func (s *Session) nextRound(ctx context.Context, a *request, params *sdk.CallToolParams) error {
	var in inputRequired
	if err := json.Unmarshal(a.inputRequired, &in); err != nil {
		return fmt.Errorf("%w: %w", ErrMalformed, err)
	}
	if a.rounds++; a.rounds > maxQuestions || len(in.Requests) > maxQuestions {
		return fault.New(fault.Exhausted, "asked for more than %d things during one call, and was not asked to go on", maxQuestions)
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(s.ctx, cancel)()
	params.InputResponses, params.RequestState = nil, in.State
	for _, id := range slices.Sorted(maps.Keys(in.Requests)) {
		r := in.Requests[id]
		if ctx.Err() != nil {
			break
		}
		if r.Method != "elicitation/create" || a.ask == nil {
			return ErrInputRequired
		}
		if params.InputResponses == nil {
			params.InputResponses = sdk.InputResponseMap{}
		}
		params.InputResponses[id] = s.interceptor.elicit(ctx, a, r.Params)
	}
	return ctx.Err()
}

// judged is what came of a call, seen that the person may not have been asked
// what the server wanted to know: an answer to that is none to the call. Where
// the question may have been another's, an answer is taken as it is.
func (a *request) noteDeclined(ref tool.Ref, r tool.Result, err error) (tool.Result, error) {
	if a.declined == nil {
		return r, err
	}
	note := sanitize.Text("the server asked a question, which was declined: "+fault.Message(a.declined), maxText)
	failure, failed := errors.AsType[*tool.Failure](err)
	switch {
	case failed:
		noted := *failure
		noted.Message += "\n" + note
		if len(noted.Answer.Parts) > 0 {
			noted.Answer = appendText(noted.Answer, note)
		}
		return r, &noted
	case err == nil && a.declinedOwn:
		return tool.Result{}, &tool.Failure{Ref: ref, Message: strings.TrimSpace(note + "\n" + r.Text()), Data: r.Structured, Answer: appendText(r, note)}
	}
	return r, err
}

func appendText(r tool.Result, note string) tool.Result {
	r.Parts = append(slices.Clone(r.Parts), tool.Part{Kind: tool.Text, Text: note})
	return r
}
