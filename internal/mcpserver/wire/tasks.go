package wire

import (
	"context"
	"encoding/json"
	"errors"
	"maps"
	"strconv"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/sandpiper-mcp/sandpiper/internal/fault"
	"github.com/sandpiper-mcp/sandpiper/internal/privacy/redact"
)

// tasksExtension is the identifier of the extension with which a call of a tool is answered by a
// task (SEP-2663). The client then asks for its state.
const tasksExtension = "io.modelcontextprotocol/tasks"

// Tasks returns and changes the tasks that handlers have created with Call.Task. An error is sent
// to the client if it is a fault, others are logged.
type Tasks struct {
	// Get returns a task; NotFound if the caller has no such task. Asks reports whether the client
	// may be shown questions.
	Get    func(ctx context.Context, caller, id string, asks bool) (Task, error)
	Update func(ctx context.Context, caller, id string, replies map[string]Reply) error
	Cancel func(ctx context.Context, caller, id string) error // of an ended task it does nothing
	Scope  string                                             // a caller without it cannot use them; "" means none is needed
}

// States of a task.
const (
	TaskWorking   = "working"
	TaskInput     = "input_required"
	TaskCompleted = "completed" // also if the tool failed
	TaskFailed    = "failed"    // there is no result
	TaskCancelled = "cancelled"
)

// Task is the state of a task.
type Task struct {
	ID        string
	Status    string          // one of the constants above
	Message   redact.Redacted // for people; the zero value means none
	Created   time.Time
	Changed   time.Time
	Keep      time.Duration    // how long it is kept after its creation; 0 means without limit
	Questions []Question       // of one that requires input
	Result    *redact.Redacted // of a completed one
	Failure   string           // of a failed one: one sentence without private values
}

// pollInterval is how often clients should ask for the state of a task.
const pollInterval = 500 * time.Millisecond

// The requests of the extension.
type (
	getTaskParams struct {
		mcp.ParamsBase
		ID string `json:"taskId"`
	}
	updateTaskParams struct {
		mcp.ParamsBase
		ID        string                     `json:"taskId"`
		Responses map[string]json.RawMessage `json:"inputResponses"`
	}
	cancelTaskParams struct {
		mcp.ParamsBase
		ID string `json:"taskId"`
	}
)

// codeMissingCapability is the error of a request that needs a capability which the client did not
// declare. codeHeaderMismatch is that of a header which does not agree with the body.
const (
	codeMissingCapability = -32021
	codeHeaderMismatch    = mcp.CodeHeaderMismatch
)

func errNeedsTasks() error {
	return &jsonrpc.Error{Code: codeMissingCapability, Message: "the request needs the client capability " + tasksExtension,
		Data: json.RawMessage(`{"requiredCapabilities":{"extensions":{"` + tasksExtension + `":{}}}}`)}
}

// declaresTasks reports whether the client of a request supports tasks.
func declaresTasks(req interface {
	ClientCapabilities() *mcp.ClientCapabilities
}) bool {
	can := req.ClientCapabilities()
	if can == nil {
		return false
	}
	_, ok := can.Extensions[tasksExtension]
	return ok
}

// created holds the task with which the handler of a tool has answered.
type created struct{ task *Task }

type createdKey struct{}

// taskMethods answers requests for tasks.
type taskMethods struct{ *subscriptions }

// serveTasks serves the methods of the extension, and answers calls with tasks. As with Extension,
// the middleware answers before the handlers of the SDK.
func (o taskMethods) serveTasks(t *Tasks, tools []Tool, server *mcp.Server) error {
	err := errors.Join(addTaskMethod[getTaskParams](server, "tasks/get"), addTaskMethod[updateTaskParams](server, "tasks/update"),
		addTaskMethod[cancelTaskParams](server, "tasks/cancel"))
	required := map[string]bool{}
	for _, tool := range tools {
		required[tool.Name] = tool.NeedsTask
	}
	server.AddReceivingMiddleware(func(next mcp.MethodHandler) mcp.MethodHandler {
		return func(ctx context.Context, method string, req mcp.Request) (_ mcp.Result, err error) {
			defer o.contain(method, &err)
			switch r := req.(type) {
			case *mcp.CallToolRequest:
				if required[r.Params.Name] && !declaresTasks(r) {
					return nil, errNeedsTasks()
				}
				c := &created{}
				res, err := next(context.WithValue(ctx, createdKey{}, c), method, req)
				if err == nil && c.task != nil {
					return o.taskResult(*c.task, "task")
				}
				return res, err
			case *mcp.ServerRequest[*getTaskParams]:
				if r.Params == nil {
					r.Params = &getTaskParams{}
				}
				return answerTask(ctx, o, r, r.Params.ID, func(caller string) (mcp.Result, error) {
					task, err := t.Get(ctx, caller, r.Params.ID, o.authn.mayUse(ctx, r, o.askScope) && showsForms(r.Session))
					if err != nil {
						return nil, err
					}
					return o.taskResult(task, "complete")
				})
			case *mcp.ServerRequest[*updateTaskParams]:
				if r.Params == nil {
					r.Params = &updateTaskParams{}
				}
				return answerTask(ctx, o, r, r.Params.ID, func(caller string) (mcp.Result, error) {
					if !o.authn.mayUse(ctx, r, o.askScope) {
						return nil, fault.New(fault.Denied, "this client may not answer questions")
					}
					return acknowledge(t.Update(ctx, caller, r.Params.ID, taskReplies(r.Params.Responses)))
				})
			case *mcp.ServerRequest[*cancelTaskParams]:
				if r.Params == nil {
					r.Params = &cancelTaskParams{}
				}
				return answerTask(ctx, o, r, r.Params.ID, func(caller string) (mcp.Result, error) {
					return acknowledge(t.Cancel(ctx, caller, r.Params.ID))
				})
			}
			return next(ctx, method, req)
		}
	})
	return err
}

// addTaskMethod adds a method that the middleware answers.
func addTaskMethod[T any, P interface {
	*T
	mcp.Params
}](server *mcp.Server, name string) error {
	return mcp.AddReceivingCustomMethod(server, name, func(context.Context, *mcp.ServerSession, P) (*passed, error) {
		return nil,
			errInternal
	})
}

// acknowledge returns the answer that only acknowledges a request.
func acknowledge(err error) (mcp.Result, error) {
	return &passed{members: map[string]json.RawMessage{"resultType": json.RawMessage(`"complete"`)}}, err
}

// taskRequest is a request of the extension.
type taskRequest interface {
	mcp.Request
	ClientCapabilities() *mcp.ClientCapabilities
}

// answerTask checks a request about a task, and converts errors.
func answerTask(ctx context.Context, o taskMethods, req taskRequest, id string, answer func(caller string) (mcp.Result, error)) (mcp.Result,
	error) {
	if !declaresTasks(req) {
		return nil, errNeedsTasks()
	}
	if x := req.GetExtra(); x != nil {
		if name := x.Header.Get("Mcp-Name"); name != "" && name != id {
			return nil, &jsonrpc.Error{Code: codeHeaderMismatch, Message: "the header Mcp-Name does not match taskId"}
		}
	}
	res, err := answer(o.authn.callerOf(ctx, req))
	switch fault.KindOf(err) {
	case fault.Invalid, fault.NotFound, fault.Denied, fault.Exhausted, fault.Unavailable:
		if err != nil {
			return nil, &jsonrpc.Error{Code: jsonrpc.CodeInvalidParams, Message: fault.Sentence(err)}
		}
	}
	if err != nil {
		return nil, o.refuse(req, "", err)
	}
	return res, nil
}

// taskReplies returns the answers in a request. What is not an answer to a form is ignored.
func taskReplies(responses map[string]json.RawMessage) map[string]Reply {
	all := map[string]Reply{}
	for id, raw := range responses {
		var r struct {
			Action  string          `json:"action"`
			Content json.RawMessage `json:"content"`
		}
		if json.Unmarshal(raw, &r) == nil && r.Action != "" {
			all[id] = Reply{Action: r.Action, Content: r.Content}
		}
	}
	return all
}

// taskResult returns the state of a task in its protocol form. The answer that creates one has no
// result, error or questions.
func (o taskMethods) taskResult(t Task, resultType string) (mcp.Result, error) {
	quote := func(s string) json.RawMessage { b, _ := json.Marshal(s); return b }
	m := map[string]json.RawMessage{
		"resultType": quote(resultType), "taskId": quote(t.ID), "status": quote(t.Status), "ttlMs": json.RawMessage("null"),
		"createdAt": quote(t.Created.UTC().Format(time.RFC3339Nano)), "lastUpdatedAt": quote(t.Changed.UTC().Format(time.RFC3339Nano)),
		"pollIntervalMs": json.RawMessage(strconv.FormatInt(pollInterval.Milliseconds(), 10)),
	}
	if t.Keep > 0 {
		m["ttlMs"] = json.RawMessage(strconv.FormatInt(t.Keep.Milliseconds(), 10))
	}
	if text, _, _, err := t.Message.Content(); err == nil && text != "" {
		m["statusMessage"] = quote(text)
	}
	if resultType == "complete" {
		more, err := t.details()
		if err != nil {
			return nil, err
		}
		maps.Copy(m, more)
	}
	return &passed{members: m}, nil
}

// details returns the questions, the result or the error of a task.
func (t Task) details() (m map[string]json.RawMessage, err error) {
	m = map[string]json.RawMessage{}
	switch {
	case t.Status == TaskInput:
		requests := map[string]any{}
		for _, q := range t.Questions {
			p, err := q.params()
			if err != nil {
				return nil, err
			}
			requests[q.ID] = map[string]any{"method": "elicitation/create", "params": p}
		}
		m["inputRequests"], err = json.Marshal(requests)
	case t.Status == TaskCompleted && t.Result != nil:
		var res *mcp.CallToolResult
		if res, err = result(*t.Result, 0); err == nil {
			m["result"], err = json.Marshal(res)
		}
	case t.Status == TaskFailed:
		m["error"], err = json.Marshal(map[string]any{"code": jsonrpc.CodeInternalError, "message": t.Failure})
	}
	return m, err
}

// taskable sets how a call can be answered by a task.
func (c *Call) taskable(ctx context.Context, req *mcp.CallToolRequest) {
	holder, ok := ctx.Value(createdKey{}).(*created)
	if !ok || !declaresTasks(req) {
		return
	}
	c.Task = func(t Task) { holder.task = &t }
}
