package wire

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// Access describes one request, without its content.
type Access struct {
	Caller   string // "" if it was refused for lack of one
	Remote   string // address of the HTTP client; "" over stdio
	Method   string // of MCP; "other" if the protocol has no such method
	Tool     string // of ours that was called; "" for others
	Subset   string // as chosen, if the choice was accepted
	BytesIn  int    // arguments of a tool call
	Code     int64  // JSON-RPC error; 0 without one
	Failed   bool   // the tool's answer is an error
	Duration time.Duration
}

// remoteHeader passes the address of the client from the HTTP request to its handlers.
const remoteHeader = "Sandpiper-Remote"

func noteRemote(r *http.Request) { r.Header.Set(remoteHeader, r.RemoteAddr) }

// accessLog reports each request when it ends.
func (s *Server) accessLog(authn authenticator) mcp.Middleware {
	return func(next mcp.MethodHandler) mcp.MethodHandler {
		return func(ctx context.Context, method string, req mcp.Request) (mcp.Result, error) {
			began := time.Now()
			res, err := next(ctx, method, req)
			a := Access{Caller: authn.callerOf(ctx, req), Method: knownMethod(method), Duration: time.Since(began)}
			if x := req.GetExtra(); x != nil {
				a.Remote = x.Header.Get(remoteHeader)
			}
			if call, ok := req.(*mcp.CallToolRequest); ok {
				a.BytesIn, a.Tool = len(call.Params.Arguments), knownTool(s.cfg.Tools, call.Params.Name)
			}
			if answer, ok := res.(*mcp.CallToolResult); ok && err == nil {
				a.Failed = answer.IsError
			}
			a.Code = codeOf(err)
			if err == nil {
				a.Subset = choiceOf(req).Subset
			}
			s.cfg.Access(a)
			return res, err
		}
	}
}

// knownMethod returns a method of MCP, or "other".
func knownMethod(name string) string {
	if slices.Contains(methods, name) {
		return name
	}
	return "other"
}

// codeOf returns the JSON-RPC code of an error, 0 for nil.
func codeOf(err error) int64 {
	if err == nil {
		return 0
	}
	if e, ok := errors.AsType[*jsonrpc.Error](err); ok {
		return e.Code
	}
	return jsonrpc.CodeInternalError
}

// methods are the requests and notifications of clients, in all revisions.
var methods = []string{
	"initialize", "ping", "server/discover", "tools/list", "tools/call", "resources/list", "resources/templates/list", "resources/read",
	"resources/subscribe", "resources/unsubscribe", "prompts/list", "prompts/get", "completion/complete", "logging/setLevel",
	"skills/list", "skills/get",
	"subscriptions/listen", "notifications/initialized", "notifications/cancelled", "notifications/progress",
	"notifications/roots/list_changed",
}

// knownTool returns the name of a tool of ours, or "".
func knownTool(tools []Tool, name string) string {
	if slices.ContainsFunc(tools, func(t Tool) bool { return t.Name == name }) {
		return name
	}
	return ""
}
