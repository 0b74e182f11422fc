package sandpiper

import (
	"context"
	"encoding/json"
	"slices"
	"time"
)

// Background are executions that outlive the Client and, unless they are reported on a restart,
// Sandpiper.
type Background struct{ client *Client }

// Background returns the background executions.
func (c *Client) Background() Background { return Background{c} }

// BackgroundRequest is code, or a task in words, to be run in the background.
type BackgroundRequest struct {
	Code      string
	Task      string         // instead of Code
	Vars      map[string]any // JSON values, which are variables of the code
	Timeout   time.Duration  // of its running time; 0 means the default
	OnRestart string         // "resume" or "" continues it without repeating a call, "report" ends it as interrupted
}

// BackgroundStatus is the state of a background execution.
type BackgroundStatus struct {
	ExecutionID string `json:"execution_id"`
	State       string // queued, running, input_required, waiting, completed, failed, cancelled or interrupted
	Task        string `json:"task_description"`
	Progress    json.RawMessage
	Output      []string   // what the code printed last, while it runs
	Questions   []Question // if a person is asked; Client.Resume answers
	Due         time.Time  // when one that waits continues
	Hint        string
	Result      *Result // of one that has ended
}

// Ended reports whether the state is final.
func (s *BackgroundStatus) Ended() bool {
	return slices.Contains([]string{"completed", "failed", "cancelled", "interrupted"}, s.State)
}

// Dispatch starts an execution and returns its id.
func (b Background) Dispatch(ctx context.Context, r BackgroundRequest) (id string, err error) {
	args := map[string]any{}
	if r.Code != "" {
		args["code"] = r.Code
	}
	if r.Task != "" {
		args["task_description"] = r.Task
	}
	if r.Vars != nil {
		args["context_vars"] = r.Vars
	}
	if r.Timeout != 0 {
		args["timeout_seconds"] = r.Timeout.Seconds()
	}
	if r.OnRestart != "" {
		args["on_restart"] = r.OnRestart
	}
	var started BackgroundStatus
	err = b.client.do(ctx, "dispatch_background_task", args, &started)
	return started.ExecutionID, err
}

// Status returns the state of an execution, its progress and its last output.
func (b Background) Status(ctx context.Context, id string) (*BackgroundStatus, error) {
	s := &BackgroundStatus{}
	if err := b.client.do(ctx, "get_background_task_status", map[string]any{"execution_id": id}, s); err != nil {
		return nil, err
	}
	return s, nil
}

// waitSeconds limits one request of Wait; the server allows an hour.
const waitSeconds = 60

// Wait waits until an execution has ended or asks a person. Results and errors are as of
// Client.Execute. The end of ctx ends the wait, and not the execution.
func (b Background) Wait(ctx context.Context, id string) (*Result, error) {
	for {
		s := &BackgroundStatus{}
		if err := b.client.do(ctx, "wait_for_background_task", map[string]any{"execution_id": id, "timeout": waitSeconds}, s); err != nil {
			return nil, err
		}
		if s.Ended() || len(s.Questions) > 0 {
			r := s.outcome()
			return r, r.err()
		}
	}
}

// outcome returns the result of an execution that has ended, or waits for a person.
func (s *BackgroundStatus) outcome() *Result {
	switch {
	case s.Result != nil:
		return s.Result
	case len(s.Questions) > 0:
		return &Result{ExecutionID: s.ExecutionID, ErrorType: "approval_required", Error: "the code waits for a person", Hint: s.Hint,
			Questions: s.Questions}
	}
	return &Result{ExecutionID: s.ExecutionID, ErrorType: s.State, Error: "the execution was " + s.State, Hint: s.Hint}
}

// List returns the latest 100 executions, without output and result; those that have not ended come
// first.
func (b Background) List(ctx context.Context) ([]BackgroundStatus, error) {
	var answer struct{ Executions []BackgroundStatus }
	err := b.client.do(ctx, "list_background_tasks", nil, &answer)
	return answer.Executions, err
}

// Cancel ends an execution, and the call that it makes. One that has ended stays as it is.
func (b Background) Cancel(ctx context.Context, id string) error {
	return b.client.do(ctx, "cancel_background_task", map[string]any{"execution_id": id}, nil)
}

// Signal sends an event with a JSON value, which the code receives by wait_for(event).
func (b Background) Signal(ctx context.Context, id, event string, value any) error {
	return b.client.do(ctx, "signal_execution", map[string]any{"execution_id": id, "event": event, "value": value}, nil)
}
