//lint:file-ignore SA1019 clients have no other way to offer their model

package wiretest

import (
	"context"
	"os/exec"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// Client is a client of the Go SDK.
type Client struct {
	Version string // of the protocol; "" means the latest
	// Model is the model that the client offers by MCP sampling; nil means none. An error
	// rejects the request.
	Model func(r Sampling) (string, error)
	// Fill fills in the forms that the client shows; nil content declines, and a nil Fill means
	// that the client shows none.
	Fill func(message string) (content map[string]any)
	// Progress receives the messages of progress notifications; nil means that none are asked for.
	Progress func(message string)
}

// Sampling is a request to the model of a Client.
type Sampling struct {
	System, Prompt string
	MaxTokens      int64
	Preferred      string // "" if no model is preferred
}

// SampledModel is the name of the model of a Client.
const SampledModel = "client-model-1"

// Start runs a server over stdio and connects to it. The connection closes with the test.
func (c Client) Start(t *testing.T, cmd *exec.Cmd) *Connection {
	t.Helper()
	return c.connect(t, &mcp.CommandTransport{Command: cmd})
}

// Dial connects to a server over HTTP.
func (c Client) Dial(t *testing.T, url string) *Connection {
	t.Helper()
	return c.connect(t, &mcp.StreamableClientTransport{Endpoint: url})
}

// Connection is a connection to a server.
type Connection struct {
	t       *testing.T
	session *mcp.ClientSession
	token   any
}

func (c Client) connect(t *testing.T, to mcp.Transport) *Connection {
	t.Helper()
	var options mcp.ClientOptions
	if c.Model != nil {
		options.CreateMessageHandler = c.sample
	}
	if c.Fill != nil {
		options.ElicitationHandler = c.fill
	}
	connection := &Connection{t: t}
	if c.Progress != nil {
		connection.token = "p"
		options.ProgressNotificationHandler = func(_ context.Context,
			r *mcp.ProgressNotificationClientRequest) {
			c.Progress(r.Params.Message)
		}
	}
	client := mcp.NewClient(&mcp.Implementation{Name: "wiretest", Version: "1"}, &options)
	session, err := client.Connect(t.Context(), to, &mcp.ClientSessionOptions{ProtocolVersion: c.Version})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { session.Close() })
	connection.session = session
	return connection
}

func (c Client) sample(_ context.Context, r *mcp.CreateMessageRequest) (*mcp.CreateMessageResult, error) {
	s := Sampling{System: r.Params.SystemPrompt, MaxTokens: r.Params.MaxTokens}
	for _, m := range r.Params.Messages {
		if text, ok := m.Content.(*mcp.TextContent); ok {
			s.Prompt += text.Text
		}
	}
	if p := r.Params.ModelPreferences; p != nil && len(p.Hints) > 0 {
		s.Preferred = p.Hints[0].Name
	}
	text, err := c.Model(s)
	if err != nil {
		return nil, err
	}
	return &mcp.CreateMessageResult{Role: "assistant", Model: SampledModel, StopReason: "endTurn", Content: &mcp.TextContent{Text: text}},
		nil
}

func (c Client) fill(_ context.Context, r *mcp.ElicitRequest) (*mcp.ElicitResult, error) {
	content := c.Fill(r.Params.Message)
	if content == nil {
		return &mcp.ElicitResult{Action: "decline"}, nil
	}
	return &mcp.ElicitResult{Action: "accept", Content: content}, nil
}

// Call calls a tool and returns its text.
func (c *Connection) Call(tool string, args any) (text string, failed bool, err error) {
	params := &mcp.CallToolParams{Name: tool, Arguments: args}
	if c.token != nil {
		params.SetProgressToken(c.token)
	}
	res, err := c.session.CallTool(c.t.Context(), params)
	if err != nil {
		return "", false, err
	}
	for _, part := range res.Content {
		if p, ok := part.(*mcp.TextContent); ok {
			text += p.Text
		}
	}
	return text, res.IsError, nil
}
