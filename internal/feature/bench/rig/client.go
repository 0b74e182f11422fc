package rig

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
)

// ErrGone is returned by a call whose daemon exited before it responded.
var ErrGone = errors.New("the daemon is gone")

// Client is one MCP connection.
type Client struct{ transport }

// transport sends JSON-RPC requests and returns their results.
type transport interface {
	request(ctx context.Context, method string, params any) (json.RawMessage, error)
	notify(ctx context.Context, method string) error
	close() error
}

// version is the MCP protocol version of the clients.
const version = "2025-06-18"

// connect initializes an MCP connection over t.
func connect(ctx context.Context, t transport) (*Client, error) {
	_, err := t.request(ctx, "initialize", map[string]any{
		"protocolVersion": version, "capabilities": map[string]any{},
		"clientInfo": map[string]any{"name": "sandpiper-rig", "version": "1"},
	})
	if err == nil {
		err = t.notify(ctx, "notifications/initialized")
	}
	if err != nil {
		_ = t.close()
		return nil, err
	}
	return &Client{t}, nil
}

// Close ends the connection.
func (c *Client) Close() error { return c.close() }

// Request sends a request and decodes its result into v.
func (c *Client) Request(ctx context.Context, method string, params Args, v any) error {
	raw, err := c.request(ctx, method, params)
	if err != nil {
		return err
	}
	return json.Unmarshal(raw, v)
}

// ToolResult is the result of a tool call.
type ToolResult struct {
	Text       string
	Structured json.RawMessage
	Failed     bool // isError of MCP
}

// Read decodes the text as JSON.
func (a ToolResult) Read(v any) error {
	if err := json.Unmarshal([]byte(a.Text), v); err != nil {
		return fmt.Errorf("%w in the result %.300q", err, a.Text)
	}
	return nil
}

// Call calls a tool. A failure of the tool is part of the result; the error is about
// the connection or the protocol.
func (c *Client) Call(ctx context.Context, tool string, args any) (ToolResult, error) {
	raw, err := c.request(ctx, "tools/call", map[string]any{"name": tool, "arguments": args})
	if err != nil {
		return ToolResult{}, err
	}
	var r struct {
		Content           []struct{ Text string }
		StructuredContent json.RawMessage
		IsError           bool
	}
	if err := json.Unmarshal(raw, &r); err != nil || len(r.Content) == 0 && r.StructuredContent == nil {
		return ToolResult{}, fmt.Errorf("%s returned %.300q", tool, raw)
	}
	a := ToolResult{Structured: r.StructuredContent, Failed: r.IsError}
	if len(r.Content) > 0 {
		a.Text = r.Content[0].Text
	}
	return a, nil
}

// Args are the arguments of a call.
type Args = map[string]any

// Execution has the fields of an execute_code result that are used here.
type Execution struct {
	Success   bool
	Result    json.RawMessage
	Output    []string
	Error     string
	ErrorType string `json:"error_type"`
	Limit     string
	File      *struct{ Path string } `json:"output_file"`
	ID        string                 `json:"execution_id"`
}

// Execute runs code. The arguments more may be nil.
func (c *Client) Execute(ctx context.Context, code string, more Args) (Execution, error) {
	args := Args{"code": code}
	for k, v := range more {
		args[k] = v
	}
	a, err := c.Call(ctx, "execute_code", args)
	if err != nil {
		return Execution{}, err
	}
	var x Execution
	err = a.Read(&x)
	return x, err
}

// message is a JSON-RPC message.
type message struct {
	Version string          `json:"jsonrpc"`
	ID      int64           `json:"id,omitempty"`
	Method  string          `json:"method,omitempty"`
	Params  any             `json:"params,omitempty"`
	Result  json.RawMessage `json:"result,omitempty"`
	Error   *struct {
		Code    int
		Message string
	} `json:"error,omitempty"`
}

// outcome returns the result of m, or its error.
func (m message) outcome() (json.RawMessage, error) {
	if m.Error != nil {
		return nil, fmt.Errorf("error %d: %s", m.Error.Code, m.Error.Message)
	}
	return m.Result, nil
}
