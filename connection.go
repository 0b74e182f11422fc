package sandpiper

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// connection is the connection of a Client, which calls the tools of Sandpiper.
type connection struct {
	session  *mcp.ClientSession
	embedded *embedded    // nil after Dial
	progress sync.Map     // progress token -> func(done, total float64, message string)
	tokens   atomic.Int64 // of progress
	closed   atomic.Bool
}

func connect(ctx context.Context, t mcp.Transport) (*Client, error) {
	c := &Client{}
	client := mcp.NewClient(&mcp.Implementation{Name: "sandpiper-go", Version: version()}, &mcp.ClientOptions{
		Capabilities: &mcp.ClientCapabilities{},
		ProgressNotificationHandler: func(_ context.Context, r *mcp.ProgressNotificationClientRequest) {
			if f, ok := c.progress.Load(fmt.Sprint(r.Params.ProgressToken)); ok {
				f.(func(float64, float64, string))(r.Params.Progress, r.Params.Total, r.Params.Message)
			}
		},
	})
	var err error
	c.session, err = client.Connect(ctx, t, nil)
	return c, err
}

// isClosed reports whether Close was called, of the client or of the one that started Sandpiper.
func (c *connection) isClosed() bool {
	return c.closed.Load() || c.embedded != nil && c.embedded.owner.closed.Load()
}

func (c *connection) execute(ctx context.Context, tool string, args map[string]any, progress func(float64, float64, string)) (*Result,
	error) {
	r := &Result{}
	images, err := c.callExecuting(ctx, tool, args, progress, r)
	if err != nil {
		return nil, err
	}
	r.Images = images
	return r, r.err()
}

// callExecuting calls a tool that runs code, and reads its answer into result, also that of code
// that failed.
func (c *connection) callExecuting(ctx context.Context, tool string, args map[string]any, progress func(float64, float64, string),
	result any) (images []Image, err error) {
	answer, err := c.call(ctx, tool, args, progress)
	if err != nil {
		return nil, err
	}
	text := textOf(answer)
	var executed struct {
		Output    json.RawMessage
		ErrorType string `json:"error_type"`
	}
	_ = json.Unmarshal([]byte(text), &executed) // an answer that is not JSON is an error below
	if answer.IsError && executed.Output == nil && executed.ErrorType == "" {
		return nil, refusal(tool, text)
	}
	if err := json.Unmarshal([]byte(text), result); err != nil {
		return nil, fmt.Errorf("sandpiper: %s: read the answer: %w", tool, err)
	}
	for _, part := range answer.Content {
		if image, ok := part.(*mcp.ImageContent); ok {
			images = append(images, Image{image.MIMEType, image.Data})
		}
	}
	return images, nil
}

// do calls a tool of Sandpiper, and reads its answer into out, unless it is nil.
func (c *connection) do(ctx context.Context, tool string, args map[string]any, out any) error {
	answer, err := c.call(ctx, tool, args, nil)
	if err != nil {
		return err
	}
	text := textOf(answer)
	switch {
	case answer.IsError:
		return refusal(tool, text)
	case out == nil:
		return nil
	}
	if err := json.Unmarshal([]byte(text), out); err != nil {
		return fmt.Errorf("sandpiper: %s: read the answer: %w", tool, err)
	}
	return nil
}

func (c *connection) call(ctx context.Context, tool string, args map[string]any,
	progress func(float64, float64, string)) (*mcp.CallToolResult, error) {
	if c.isClosed() {
		return nil, ErrClosed
	}
	if args == nil {
		args = map[string]any{}
	}
	params := &mcp.CallToolParams{Name: tool, Arguments: args}
	if progress != nil {
		token := strconv.FormatInt(c.tokens.Add(1), 10)
		c.progress.Store(token, progress)
		defer c.progress.Delete(token)
		params.SetProgressToken(token)
	}
	answer, err := c.session.CallTool(ctx, params)
	switch {
	case err == nil && !(answer.IsError && c.isClosed()):
		return answer, nil
	case ctx.Err() != nil:
		return nil, fmt.Errorf("sandpiper: %s: %w", tool, context.Cause(ctx))
	case c.isClosed() || c.embedded != nil && errors.Is(err, mcp.ErrConnectionClosed):
		return nil, ErrClosed
	}
	return nil, fmt.Errorf("sandpiper: %s: %w", tool, err)
}

// textOf returns the first text of an answer.
func textOf(answer *mcp.CallToolResult) string {
	for _, part := range answer.Content {
		if text, ok := part.(*mcp.TextContent); ok {
			return text.Text
		}
	}
	return ""
}

// refusal is the error of a request that Sandpiper has refused.
func refusal(tool, text string) error {
	var refused struct{ Error string }
	if json.Unmarshal([]byte(text), &refused) != nil || refused.Error == "" {
		refused.Error = text
	}
	return fmt.Errorf("sandpiper: %s: %s", tool, strings.TrimPrefix(refused.Error, tool+": "))
}
