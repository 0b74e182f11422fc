package wire

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/sandpiper-mcp/sandpiper/internal/fault"
)

// Choice is the choice of a client by the URL of a request: /mcp/p/SUBSET?profile=PROFILE.
type Choice struct {
	Profile string // "" means the default
	Subset  string // named subset of servers; "" means all
}

// Selection lists the tools and resources of one caller.
type Selection struct {
	Has   func(tool string) bool // reports whether a tool is offered
	Tools func() []Tool          // of Config.Tools; descriptions and schemas may differ
	// Instructions are those for the caller; nil means Config.Instructions.
	Instructions func() string
	// More lists tools of the caller that are not in Config.Tools, and FindMore returns one of
	// them; nil means none.
	More     func(context.Context) []Tool
	FindMore func(ctx context.Context, name string) (Tool, bool)
}

// choiceHeader carries the choice of a request from its URL to its handlers.
const choiceHeader = "Sandpiper-Choice"

// subsetPath is the path of MCP with a subset of the servers, whose name follows.
const subsetPath = "/mcp/p/"

// noteChoice moves the choice of a request from its URL to a header.
func noteChoice(r *http.Request) {
	r.Header.Del(choiceHeader)
	subset, _ := strings.CutPrefix(r.URL.Path, subsetPath)
	if subset == r.URL.Path {
		subset = ""
	}
	if profile := r.URL.Query().Get("profile"); profile != "" || subset != "" {
		r.Header.Set(choiceHeader, profile+"/"+subset)
	}
}

func choiceOf(req mcp.Request) (c Choice) {
	if x := req.GetExtra(); x != nil {
		c.Profile, c.Subset, _ = strings.Cut(x.Header.Get(choiceHeader), "/")
	}
	return c
}

// selecting offers each caller its selection. It refuses a choice that is not available, and
// returns the names of the tools to a client that calls another one.
func (s *Server) selecting(authn authenticator) mcp.Middleware {
	return func(next mcp.MethodHandler) mcp.MethodHandler {
		return func(ctx context.Context, method string, req mcp.Request) (mcp.Result, error) {
			of, err := s.cfg.Select(authn.callerOf(ctx, req), choiceOf(req))
			if err != nil {
				return nil, &jsonrpc.Error{Code: jsonrpc.CodeInvalidParams, Message: fault.Sentence(err)}
			}
			if of.More == nil || !authn.mayUse(ctx, req, s.cfg.MoreScope) {
				of.More = func(context.Context) []Tool { return nil }
				of.FindMore = func(context.Context, string) (t Tool, ok bool) { return t, false }
			}
			if call, ok := req.(*mcp.CallToolRequest); ok && s.cfg.Relay == nil && !of.Has(call.Params.Name) {
				t, ok := of.FindMore(ctx, call.Params.Name)
				if !ok {
					return nil, unknownTool(call.Params.Name, append(slices.Clone(of.Tools()), of.More(ctx)...))
				}
				ctx = context.WithValue(ctx, moreKey{}, t)
			}
			res, err := next(ctx, method, req)
			of.instruct(res)
			if list, ok := res.(*mcp.ListToolsResult); ok && err == nil && s.cfg.Relay == nil {
				list.Tools, list.NextCursor = nil, ""
				for _, t := range append(slices.Clone(of.Tools()), of.More(ctx)...) {
					list.Tools = append(list.Tools, t.describe())
				}
				slices.SortFunc(list.Tools, func(a, b *mcp.Tool) int { return strings.Compare(a.Name, b.Name) })
			}
			return res, err
		}
	}
}

// instruct sets the instructions in the answer to a client that connects.
func (of Selection) instruct(res mcp.Result) {
	if of.Instructions == nil {
		return
	}
	switch r := res.(type) {
	case *mcp.InitializeResult:
		if r != nil {
			r.Instructions = of.Instructions()
		}
	case *mcp.DiscoverResult:
		if r != nil {
			r.Instructions = of.Instructions()
		}
	}
}

// moreKey is the context key of the tool of a call that is not in Config.Tools.
type moreKey struct{}

// moreTool is the name under which the SDK knows all tools that are not in Config.Tools. No client
// sees it.
const moreTool = "more"

// callMore makes the SDK call the tools that are not in Config.Tools. It is the last middleware that runs.
func (s *Server) callMore(alive context.Context, authn authenticator, server *mcp.Server) {
	server.AddTool(&mcp.Tool{Name: moreTool, InputSchema: json.RawMessage(`{"type":"object"}`)},
		func(ctx context.Context, req *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
			t, ok := ctx.Value(moreKey{}).(Tool)
			if !ok {
				return nil, errNobody
			}
			return s.handler(alive, authn, t)(ctx, req)
		})
	server.AddReceivingMiddleware(func(next mcp.MethodHandler) mcp.MethodHandler {
		return func(ctx context.Context, method string, req mcp.Request) (mcp.Result, error) {
			call, ok := req.(*mcp.CallToolRequest)
			if _, more := ctx.Value(moreKey{}).(Tool); ok && more {
				renamed, params := *call, *call.Params
				params.Name, renamed.Params = moreTool, &params
				req = &renamed
			}
			return next(ctx, method, req)
		}
	})
}

func unknownTool(name string, tools []Tool) error {
	var names []string
	for _, t := range tools {
		names = append(names, t.Name)
	}
	return &jsonrpc.Error{Code: jsonrpc.CodeInvalidParams, Message: fmt.Sprintf("there is no tool %.100q; the tools are %s", name,
		strings.Join(names, ", "))}
}
