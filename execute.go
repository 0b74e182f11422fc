package sandpiper

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"github.com/sandpiper-mcp/sandpiper/internal/fault"
)

// Request is code to be run. Only Code is required.
type Request struct {
	Code     string
	Vars     map[string]any // JSON values, which are variables of the code
	Timeout  time.Duration  // 0 means the default
	MemoryMB int            // 0 means the default
	Session  string         // id of a session, whose executions share variables; "" means none
	DryRun   bool           // plan the calls that would change something, instead of making them
	// Description is the purpose of the code, for the log of the session.
	Description string
	// Progress is called for each progress report of the code; total is 0 if it is unknown. nil
	// means that reports are ignored.
	Progress func(done, total float64, message string)
}

// Result is the outcome of an execution.
type Result struct {
	Success bool
	// Value is the variable result, or the last expression, as JSON. If it is too large for an answer,
	// Preview is set and Value describes it.
	Value       json.RawMessage `json:"result"`
	Preview     bool            `json:"result_is_preview"`
	Output      []string        // what the code printed
	Stderr      string          // what it wrote to stderr, with warnings
	Error       string          // of code that failed
	ErrorType   string          `json:"error_type"` // the class of its exception, or timeout, memory, guardrail, …
	Hint        string          // the remedy
	Traceback   string
	Warnings    []string // of guardrails
	ExecutionID string   `json:"execution_id"`
	Questions   []Question
	PlanID      string          `json:"plan_id"` // of a dry run with calls; Resume makes them
	Plan        json.RawMessage // the calls
	Images      []Image         `json:"-"` // that the code showed
}

// Question is a question of suspended code to a person. Client.Resume answers it, unless it is an
// approval; see Client.Approvals.
type Question struct {
	ID       string
	Question string
	From     string          // the tool that asks or is to be called; "" if the code asks
	Approval string          `json:"approval_id"` // "" for a question
	Schema   json.RawMessage // of the answer
}

// Image is a picture.
type Image struct {
	MIMEType string
	Data     []byte
}

// Decode unmarshals Value.
func (r *Result) Decode(v any) error {
	if r.Preview {
		return fmt.Errorf("sandpiper: the result is too large for an answer, and Value describes it: return less, or write it to a file " +
			"and read that")
	}
	if err := json.Unmarshal(r.Value, v); err != nil {
		return fmt.Errorf("sandpiper: decode the result: %w", err)
	}
	return nil
}

// ExecutionError is the error of code that did not complete: it raised an exception, reached a
// limit, was refused, or waits for a person, which its Questions show.
type ExecutionError struct{ Result *Result }

// Error returns the type and message of the error of the code, and the hint.
func (e *ExecutionError) Error() string {
	text := strings.TrimSuffix(e.Result.ErrorType+": "+e.Result.Error, ": ")
	if e.Result.Hint != "" {
		text += "; " + e.Result.Hint
	}
	return "sandpiper: " + strings.TrimPrefix(text, ": ")
}

// Execute runs code. If the code does not complete, Execute returns its result and an
// *ExecutionError; after another error the result is nil.
func (c *Client) Execute(ctx context.Context, code string) (*Result, error) {
	return c.Run(ctx, Request{Code: code})
}

// Run is Execute with further settings.
func (c *Client) Run(ctx context.Context, r Request) (*Result, error) {
	args := map[string]any{"code": r.Code}
	if r.Vars != nil {
		args["context_vars"] = r.Vars
	}
	if r.Timeout != 0 {
		args["timeout_seconds"] = r.Timeout.Seconds()
	}
	if r.MemoryMB != 0 {
		args["memory_mb"] = r.MemoryMB
	}
	if r.Session != "" {
		args["session_id"] = r.Session
	}
	if r.DryRun {
		args["dry_run"] = true
	}
	if r.Description != "" {
		args["task_description"] = r.Description
	}
	return c.execute(ctx, "execute_code", args, r.Progress)
}

// Resume continues an execution that waits for a person or was interrupted, or makes the calls of a
// plan. The answer is that of the person to its question, or a map of answers by the ids of several;
// nil means none, as after an approval.
func (c *Client) Resume(ctx context.Context, id string, answer any) (*Result, error) {
	args := map[string]any{"execution_id": id}
	if answer != nil {
		args["answer"] = answer
	}
	return c.execute(ctx, "resume_execution", args, nil)
}

// Session is a sequence of executions that share variables, imports and functions.
type Session struct {
	client *Client
	id     string
}

// Session returns the session with an id, which its first execution creates. It needs no closing.
func (c *Client) Session(id string) Session { return Session{c, id} }

// Execute runs code with the variables of earlier executions; see Client.Execute. Client.Run with the
// id has further settings.
func (s Session) Execute(ctx context.Context, code string) (*Result, error) {
	return s.client.Run(ctx, Request{Code: code, Session: s.id})
}

// TaskResult is the outcome of a task.
type TaskResult struct {
	Result             // of the last program
	Code        string // the last program; "" if there is none
	Tools       []string
	Share       float64 `json:"tools_used_share"` // of Tools in the available ones, 0 to 1
	Available   int     `json:"tools_available"`
	SavedTokens int64   `json:"saved_tokens"` // of definitions that were not selected
	Usage       json.RawMessage
}

// TaskRequest is a task in words. Only Description is required.
type TaskRequest struct {
	Description string
	Threshold   float64 // least score of a tool relative to the best one, up to 1; 0 means 0.3
	TopK        int     // most tools; 0 means 5
	Session     string  // id of a session, of which the program is a step; "" means none
	// Progress is called for each progress report, as of Request.
	Progress func(done, total float64, message string)
}

// Task solves a task in words: it selects tools, writes a program, runs it, and repairs it if it
// fails. Errors are as of Execute.
func (c *Client) Task(ctx context.Context, description string) (*TaskResult, error) {
	return c.RunTask(ctx, TaskRequest{Description: description})
}

// RunTask is Task with further settings.
func (c *Client) RunTask(ctx context.Context, t TaskRequest) (*TaskResult, error) {
	args := map[string]any{"task_description": t.Description}
	if t.Threshold != 0 {
		args["threshold"] = t.Threshold
	}
	if t.TopK != 0 {
		args["top_k"] = t.TopK
	}
	if t.Session != "" {
		args["session_id"] = t.Session
	}
	r := &TaskResult{}
	images, err := c.callExecuting(ctx, "execute_task", args, t.Progress, r)
	if err != nil {
		return nil, err
	}
	r.Images = images
	return r, r.err()
}

func (r *Result) err() error {
	if r.Success {
		return nil
	}
	return &ExecutionError{r}
}

// Call calls a tool of Sandpiper itself, such as list_tool_categories, and returns its answer as JSON.
// args marshal to a JSON object; nil means none. Errors are as of Execute. Tools.Call calls the tools
// of servers.
func (c *Client) Call(ctx context.Context, tool string, args any) (json.RawMessage, error) {
	encoded, err := json.Marshal(args)
	object := map[string]json.RawMessage{}
	if err == nil {
		err = json.Unmarshal(encoded, &object)
	}
	if err != nil {
		return nil, fmt.Errorf("sandpiper: %s: the arguments must marshal to a JSON object: %w", tool, err)
	}
	given := map[string]any{}
	for name, value := range object {
		given[name] = value
	}
	var answer json.RawMessage
	if _, err := c.callExecuting(ctx, tool, given, nil, &answer); err != nil {
		return nil, err
	}
	failed := Result{Success: true} // answers without the key
	if err := json.Unmarshal(answer, &failed); err != nil || failed.Success {
		return answer, nil
	}
	return answer, failed.err()
}

// failed is the error of an operation in this process, with its hint.
func failed(operation string, err error) error {
	if hint := fault.Hint(err); hint != "" {
		return fmt.Errorf("sandpiper: %s: %w; %s", operation, err, hint)
	}
	return fmt.Errorf("sandpiper: %s: %w", operation, err)
}
