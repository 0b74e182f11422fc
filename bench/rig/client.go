package rig

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
)

// ErrGone is the error of a call whose daemon went away before it answered.
var ErrGone = errors.New("the daemon is gone")

// Client is one MCP connection.
type Client struct{ transport }

// transport carries requests of JSON-RPC and brings their results.
type transport interface {
	request(ctx context.Context, method string, params any) (json.RawMessage, error)
	notify(ctx context.Context, method string) error
	close() error
}

// version of the protocol that the clients speak.
const version = "2025-06-18"

// greet opens the connection over t.
func greet(ctx context.Context, t transport) (*Client, error) {
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

// Answer is what a tool said.
type Answer struct {
	Text   string
	Failed bool // the tool says that it failed
}

// Read decodes the answer's JSON.
func (a Answer) Read(v any) error {
	if err := json.Unmarshal([]byte(a.Text), v); err != nil {
		return fmt.Errorf("%w in the answer %.300q", err, a.Text)
	}
	return nil
}

// Call calls a tool. That the tool failed is in the answer; the error is about
// the connection or the protocol.
func (c *Client) Call(ctx context.Context, tool string, args any) (Answer, error) {
	raw, err := c.request(ctx, "tools/call", map[string]any{"name": tool, "arguments": args})
	if err != nil {
		return Answer{}, err
	}
	var r struct {
		Content []struct{ Text string }
		IsError bool
	}
	if err := json.Unmarshal(raw, &r); err != nil || len(r.Content) == 0 {
		return Answer{}, fmt.Errorf("%s answered %.300q", tool, raw)
	}
	return Answer{r.Content[0].Text, r.IsError}, nil
}

// Args are the arguments of a call.
type Args = map[string]any

// Execution is the answer of execute_code, as far as anybody here reads it.
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

// Execute runs code, with more arguments if there are any.
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
	return x, a.Read(&x)
}

// Takes reports whether a tool is there and has a parameter of that name: what a
// version does not have yet cannot be tried.
func (c *Client) Takes(ctx context.Context, tool, param string) (bool, error) {
	raw, err := c.request(ctx, "tools/list", map[string]any{})
	if err != nil {
		return false, err
	}
	var list struct {
		Tools []struct {
			Name        string
			InputSchema struct{ Properties map[string]any }
		}
	}
	if err := json.Unmarshal(raw, &list); err != nil {
		return false, fmt.Errorf("the list of tools: %w", err)
	}
	for _, t := range list.Tools {
		if _, ok := t.InputSchema.Properties[param]; ok && t.Name == tool {
			return true, nil
		}
	}
	return false, nil
}

// message is one message of JSON-RPC.
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

// outcome is the result that m carries, or its error.
func (m message) outcome() (json.RawMessage, error) {
	if m.Error != nil {
		return nil, fmt.Errorf("error %d: %s", m.Error.Code, m.Error.Message)
	}
	return m.Result, nil
}
