package wire

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"

	"github.com/modelcontextprotocol/go-sdk/mcp"
	"golang.org/x/sync/errgroup"

	"github.com/sandpiper-mcp/sandpiper/internal/privacy/redact"
)

// Question is for the person behind a client.
type Question struct {
	ID     string
	Text   redact.Redacted
	Schema json.RawMessage // of an object with plain properties
}

// Reply is what a person did about a Question: accept, with content that fits
// its schema, decline or cancel.
type Reply struct {
	Action  string
	Content json.RawMessage
}

// ErrState is what a Handler returns that is given a State it has not made for
// this caller. The client is told so.
var ErrState = errors.New("this requestState was not made here for you; call again without it")

// requirement is what a call needs before it can be answered.
type requirement struct {
	requests mcp.InputRequestMap
	state    string
}

// askable fills in how the client of a call can be asked: in the older era while
// its call is open; in the newer by the answer, after which it calls again.
func (c *Call) askable(req *mcp.CallToolRequest) (required *requirement) {
	required = &requirement{}
	if c.Ask = asking(req); c.Ask != nil || !showsForms(req.Session) {
		return required
	}
	c.State, c.Replies = req.Params.RequestState, replies(req)
	c.Require = func(questions []Question, state string) error { return required.set(questions, state) }
	return required
}

// asking is how the client of a call is asked while it is open; nil if it is not.
func asking(req *mcp.CallToolRequest) func(context.Context, []Question) (map[string]Reply, error) {
	if !showsForms(req.Session) || req.Session.InitializeParams().ProtocolVersion >= stateless {
		return nil
	}
	return func(ctx context.Context, q []Question) (map[string]Reply, error) { return elicit(ctx, req.Session, q) }
}

// showsForms tells whether a client says that it asks its person; some only open
// pages for them.
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

// elicit asks all questions at once. The SDK has such a loop too, but runs a
// handler only once more after it: a second question of one call would be lost.
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
			res, err := session.Elicit(ctx, params)
			if err != nil {
				return fmt.Errorf("asking the client: %w", err)
			}
			r, err := reply(res)
			mu.Lock()
			defer mu.Unlock()
			replies[q.ID] = r
			return err
		})
	}
	return replies, g.Wait()
}

func reply(res *mcp.ElicitResult) (Reply, error) {
	content, err := json.Marshal(res.Content)
	return Reply{Action: res.Action, Content: content}, err
}

// replies are what a call brings that answers an earlier result.
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
