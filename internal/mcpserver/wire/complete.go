package wire

import (
	"context"
	"fmt"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/sandpiper-mcp/sandpiper/internal/privacy/redact"
)

// Completer offers values for arguments of tools and of the templates of Resources.
type Completer struct {
	Scope string // a caller without it cannot complete arguments of tools that are not in Config.Tools
	// Values returns a redacted Completed. An error other than Refused is logged.
	Values func(context.Context, Completion) (redact.Redacted, error)
}

// Completion is a request for values. The protocol has references to prompts and templates
// only; a reference to a prompt means the tool of that name, since there are no prompts.
type Completion struct {
	Caller         string // as in Call
	Subset         string // as in Call
	Tool, Template string // one of them; unchecked
	Argument       string
	Value          string // that the person has typed so far
}

// Completed are the values, at most 100, the best first.
type Completed struct {
	Values []string `json:"values"`
	Total  int      `json:"total"`
	More   bool     `json:"hasMore"`
}

// completeResult is the SDK's result with a total of 0, and with resultType complete since
// 2026-07-28.
type completeResult struct {
	mcp.ResultBase
	ResultType string    `json:"resultType,omitempty"`
	Completion Completed `json:"completion"`
}

// complete answers completion/complete with c.
func (o *subscriptions) complete(c *Completer) mcp.Middleware {
	return func(next mcp.MethodHandler) mcp.MethodHandler {
		return func(ctx context.Context, method string, req mcp.Request) (_ mcp.Result, err error) {
			r, ok := req.(*mcp.CompleteRequest)
			if !ok {
				return next(ctx, method, req)
			}
			defer o.contain(method, &err)
			ctx, end := during(ctx, o.alive)
			defer end()
			if r.Params == nil || r.Params.Ref == nil || r.Params.Argument.Name == "" {
				return nil, &jsonrpc.Error{Code: jsonrpc.CodeInvalidParams, Message: "completion/complete needs ref and argument.name"}
			}
			p := r.Params
			redacted, err := c.Values(ctx, Completion{
				Caller:   o.authn.callerOf(ctx, r),
				Subset:   choiceOf(r).Subset,
				Tool:     p.Ref.Name,
				Template: p.Ref.URI,
				Argument: p.Argument.Name,
				Value:    p.Argument.Value,
			})
			if err != nil {
				return nil, o.refuse(r, "", err)
			}
			completed, err := open[Completed](redacted)
			if err != nil || completed.Values == nil {
				return nil, o.refuse(r, "", fmt.Errorf("completion without values: %w", err))
			}
			res := &completeResult{Completion: *completed}
			if newer(r) {
				res.ResultType = "complete"
			}
			return res, nil
		}
	}
}
