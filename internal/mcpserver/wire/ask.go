package wire

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"
	"golang.org/x/sync/errgroup"

	"github.com/sandpiper-mcp/sandpiper/internal/privacy/redact"
)

// Question is a question for the user of a client.
type Question struct {
	ID     string
	Text   redact.Redacted
	Schema json.RawMessage // of an object with plain properties
}

// Reply is the answer to a Question: accept, with content that matches its schema,
// decline or cancel. With cancel, no person has answered.
type Reply struct {
	Action  string
	Content json.RawMessage
}

// Actions of a Reply without content.
const (
	decline = "decline"
	Cancel  = "cancel"
)

// readingTime is within which no person reads a question and declines it. Clients without a person
// answer within 20 ms: Claude Code with cancel, Codex and Copilot with decline.
const readingTime = 300 * time.Millisecond

// After returns the reply to a question that the client had for a time: cancel in place of a
// decline that no person can have given.
func (r Reply) After(shown time.Duration) Reply {
	if r.Action == decline && shown < readingTime {
		return Reply{Action: Cancel}
	}
	return r
}

// ErrState is returned by a Handler for a State that it did not create for this caller.
// The client gets this error.
var ErrState = errors.New("this requestState was not made here for you; call again without it")

// requirement is the questions that a call must have answered.
type requirement struct {
	requests mcp.InputRequestMap
	state    string
}

// askable sets how a call can ask its client: before 2026-07-28 during the call; since
// then by an answer, after which the client calls again.
func (c *Call) askable(req *mcp.CallToolRequest) (required *requirement) {
	required = &requirement{}
	if c.Ask = asker(req); c.Ask != nil || !showsForms(req.Session) {
		return required
	}
	c.State, c.Replies = req.Params.RequestState, replies(req)
	c.Require = func(questions []Question, state string) error { return required.set(questions, state) }
	return required
}

// asker returns the function that asks the client during a call; nil if it cannot.
func asker(req *mcp.CallToolRequest) func(context.Context, []Question) (map[string]Reply, error) {
	if !showsForms(req.Session) || req.Session.InitializeParams().ProtocolVersion >= stateless {
		return nil
	}
	return func(ctx context.Context, q []Question) (map[string]Reply, error) { return elicit(ctx, req.Session, q) }
}

// maxClientName bounds the name and the version of a client, in bytes each.
const maxClientName = 100

// clientOf returns the name and the version by which a client introduced itself; "" if it did not.
func clientOf(session *mcp.ServerSession) string {
	params := session.InitializeParams()
	if params == nil || params.ClientInfo == nil {
		return ""
	}
	clip := func(s string) string { return strings.ToValidUTF8(s[:min(len(s), maxClientName)], "") }
	return strings.TrimSpace(clip(params.ClientInfo.Name) + " " + clip(params.ClientInfo.Version))
}

// showsForms reports whether a client supports form elicitation; some only support URLs.
func showsForms(session *mcp.ServerSession) bool {
	params := session.InitializeParams()
	if params == nil || params.Capabilities == nil || params.Capabilities.Elicitation == nil {
		return false
	}
	can := params.Capabilities.Elicitation
	return can.Form != nil || can.URL == nil
}

func (r *requirement) set(questions []Question, state string) error {
	r.requests, r.state = mcp.InputRequestMap{}, state
	for _, q := range questions {
		p, err := q.params()
		if err != nil {
			return err
		}
		r.requests[q.ID] = p
	}
	return nil
}

func (q Question) params() (*mcp.ElicitParams, error) {
	text, _, _, err := q.Text.Content()
	return &mcp.ElicitParams{Mode: "form", Message: text, RequestedSchema: q.Schema}, err
}

// elicit asks all questions at once. The SDK's loop runs a handler only once more after
// it, which would lose a second question of a call.
func elicit(ctx context.Context, session *mcp.ServerSession, questions []Question) (map[string]Reply, error) {
	var mu sync.Mutex
	replies := map[string]Reply{}
	g, ctx := errgroup.WithContext(ctx)
	for _, q := range questions {
		g.Go(func() error {
			params, err := q.params()
			if err != nil {
				return err
			}
			began := time.Now()
			res, err := session.Elicit(ctx, params)
			if err != nil {
				return fmt.Errorf("asking the client: %w", err)
			}
			r, err := reply(res)
			mu.Lock()
			defer mu.Unlock()
			replies[q.ID] = r.After(time.Since(began))
			return err
		})
	}
	return replies, g.Wait()
}

func reply(res *mcp.ElicitResult) (Reply, error) {
	content, err := json.Marshal(res.Content)
	return Reply{Action: res.Action, Content: content}, err
}

// replies returns the answers in a call to an earlier result.
func replies(req *mcp.CallToolRequest) map[string]Reply {
	all := map[string]Reply{}
	for id, response := range req.Params.InputResponses {
		if res, ok := response.(*mcp.ElicitResult); ok {
			if r, err := reply(res); err == nil {
				all[id] = r
			}
		}
	}
	return all
}
