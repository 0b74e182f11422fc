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

// maxQuestions bounds the questions of a server during one call, and the rounds in the
// newest protocol era.
const maxQuestions = 16

// answerElicitation answers an elicitation/create request, as in the older era. The
// message contains the encoded parameters: see wrapParams.
func (t *interceptor) answerElicitation(p *sdk.ElicitParams) *sdk.ElicitResult {
	a, err := t.findCaller()
	if err != nil {
		t.logDeclined(err)
		return &sdk.ElicitResult{Action: string(tool.Decline)}
	}
	defer a.questions.Done()
	var f form
	if err := json.Unmarshal([]byte(p.Message), &f); err != nil {
		f = form{} // elicit declines it
	}
	return t.elicit(a.ctx, a, f)
}

// findCaller returns the call that a question belongs to; the caller must call
// questions.Done on it. It returns an error unless exactly one call is possible: the
// question may contain data of one tenant, which another tenant must not see.
func (t *inFlight) findCaller() (*request, error) {
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
		return fault.New(fault.Unavailable, "%d requests were in flight, and the protocol does not identify which one the question "+
			"belongs to", len(calls))
	case lost > 0:
		return fault.New(fault.Unavailable, "the question might belong to an earlier, abandoned request")
	case calls[0].ask == nil:
		return fault.New(fault.Unavailable, "the caller of this tool cannot answer questions")
	}
	return nil
}

// elicit asks the caller. A question that cannot be asked is declined, and the reason is
// stored in the request.
func (t *interceptor) elicit(ctx context.Context, a *request, f form) *sdk.ElicitResult {
	reply, err := a.elicit(ctx, f)
	content, decodeErr := decodeContent(reply.Content)
	if err = errors.Join(err, decodeErr); err == nil {
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

// logDeclined logs the first declined question as a warning and later ones at debug
// level, since a server can ask any number.
func (t *interceptor) logDeclined(err error) {
	level := slog.LevelDebug
	if !t.declineLogged.Swap(true) {
		level = slog.LevelWarn
	}
	t.log.Log(context.Background(), level, "declined a question of an upstream server", "reason", fault.Message(err))
}

func (a *request) elicit(ctx context.Context, f form) (tool.Reply, error) {
	q, defaults, err := f.toQuestion()
	switch {
	case err != nil:
		return tool.Reply{}, err
	case a.questionCount.Add(1) > maxQuestions:
		return tool.Reply{}, fault.New(fault.Exhausted, "the server asked more than %d questions during one call", maxQuestions)
	}
	reply, err := a.ask(ctx, q)
	if err != nil || reply.Action != tool.Accept {
		return tool.Reply{Action: reply.Action}, err
	}
	reply.Content, err = applyDefaults(reply.Content, defaults)
	return reply, err
}

// applyDefaults adds the defaults of fields without an answer.
//
// https://modelcontextprotocol.io/seps/1034
func applyDefaults(content json.RawMessage, defaults map[string]json.RawMessage) (json.RawMessage, error) {
	var given map[string]json.RawMessage
	if err := json.Unmarshal(content, &given); err != nil && len(content) > 0 {
		return nil, fault.Wrap(fault.Invalid, err, "the answer is not an object")
	}
	filled := maps.Clone(defaults)
	maps.Copy(filled, given)
	return json.Marshal(filled)
}

// decodeContent keeps the digits of numbers.
func decodeContent(content json.RawMessage) (m map[string]any, err error) {
	if len(content) == 0 {
		return nil, nil
	}
	d := json.NewDecoder(bytes.NewReader(content))
	d.UseNumber()
	err = d.Decode(&m)
	return m, err
}

// inputRequired is the result of a tool that needs input before it continues, in the
// newest protocol era.
type inputRequired struct {
	Requests map[string]struct {
		Method string `json:"method"`
		Params form   `json:"params"`
	} `json:"inputRequests"`
	State string `json:"requestState"`
}

// nextRound sets params for the next round: the answers and the opaque state. It fails
// if no one can answer, or after too many rounds.
func (s *Session) nextRound(ctx context.Context, a *request, params *sdk.CallToolParams) error {
	var in inputRequired
	if err := json.Unmarshal(a.inputRequired, &in); err != nil {
		return fmt.Errorf("%w: %w", ErrMalformed, err)
	}
	if a.rounds++; a.rounds > maxQuestions || len(in.Requests) > maxQuestions {
		return fault.New(fault.Exhausted, "requested input more than %d times during one call; the call was stopped", maxQuestions)
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

// noteDeclined adds the reason of a declined question to the outcome of the call. A
// success becomes a failure if the question certainly belonged to this call, because the
// server did not get the input it asked for.
func (a *request) noteDeclined(ref tool.Ref, r tool.Result, err error) (tool.Result, error) {
	if a.declined == nil {
		return r, err
	}
	note := sanitize.Text("a question of the server was declined: "+fault.Message(a.declined), maxText)
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
		return tool.Result{}, &tool.Failure{Ref: ref, Message: strings.TrimSpace(note + "\n" + r.Text()), Data: r.Structured,
			Answer: appendText(r, note)}
	}
	return r, err
}

func appendText(r tool.Result, note string) tool.Result {
	r.Parts = append(slices.Clone(r.Parts), tool.Part{Kind: tool.Text, Text: note})
	return r
}
