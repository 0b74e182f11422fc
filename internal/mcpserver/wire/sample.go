//lint:file-ignore SA1019 clients have no other way to offer their model

package wire

import (
	"context"
	"errors"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/sandpiper-mcp/sandpiper/internal/privacy/redact"
)

// Prompt is a request to the model of a client, by MCP sampling.
type Prompt struct {
	System    string // no private value; it is sent as it is
	Text      redact.Redacted
	MaxTokens int    // of the answer
	Model     string // which model is preferred; "" means none
}

// Sampled is the answer of the model of a client.
type Sampled struct {
	Text      string // "" if the answer is not text
	Model     string // "" if the client did not name it
	Truncated bool   // at Prompt.MaxTokens
}

// sampleID is the id of the input request for a Prompt.
const sampleID = "sample"

// sampleable sets how a call can ask the client's model: like questions, before 2026-07-28
// during the call; since then by an answer, after which the client calls again.
func (c *Call) sampleable(req *mcp.CallToolRequest, required *requirement) {
	params := req.Session.InitializeParams()
	if params == nil || params.Capabilities == nil || params.Capabilities.Sampling == nil {
		return
	}
	if params.ProtocolVersion < stateless {
		c.Sample = func(ctx context.Context, p Prompt) (Sampled, error) { return sample(ctx, req.Session, p) }
		return
	}
	c.State = req.Params.RequestState // also without an answer of the model, which is then a rejection
	if res, ok := req.Params.InputResponses[sampleID].(*mcp.CreateMessageWithToolsResult); ok {
		c.Sampled = newSampled(res.Model, res.StopReason, res.Content...)
	}
	c.RequireSample = func(p Prompt, state string) error {
		params, err := p.params()
		required.requests, required.state = mcp.InputRequestMap{sampleID: params}, state
		return err
	}
}

// sample asks the client's model. The error of a client may contain its prompt or a key, and is
// for logs only.
func sample(ctx context.Context, session *mcp.ServerSession, p Prompt) (Sampled, error) {
	params, err := p.params()
	if err != nil {
		return Sampled{}, err
	}
	res, err := session.CreateMessage(ctx, params)
	if err != nil {
		return Sampled{}, err
	}
	return *newSampled(res.Model, res.StopReason, res.Content), nil
}

func newSampled(model, stop string, content ...mcp.Content) *Sampled {
	s := &Sampled{Model: model, Truncated: stop == "maxTokens"}
	for _, part := range content {
		if text, ok := part.(*mcp.TextContent); ok {
			s.Text += text.Text
		}
	}
	return s
}

// params returns the request of the protocol. Without a context of other servers, the client
// sends its model nothing but the prompt.
func (p Prompt) params() (*mcp.CreateMessageParams, error) {
	text, _, failed, err := p.Text.Content()
	if err == nil && failed {
		err = errors.New("wire: a prompt is not an error")
	}
	params := &mcp.CreateMessageParams{
		MaxTokens: int64(p.MaxTokens), SystemPrompt: p.System, IncludeContext: "none",
		Messages: []*mcp.SamplingMessage{{Role: "user", Content: &mcp.TextContent{Text: text}}},
	}
	if p.Model != "" {
		params.ModelPreferences = &mcp.ModelPreferences{Hints: []*mcp.ModelHint{{Name: p.Model}}}
	}
	return params, err
}
