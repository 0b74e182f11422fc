package wire

import (
	"context"
	"log/slog"
	"slices"
	"strings"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// refuseUnknown returns the names of the tools to a client that calls an unknown tool.
func (s *Server) refuseUnknown(next mcp.MethodHandler) mcp.MethodHandler {
	return func(ctx context.Context, method string, req mcp.Request) (mcp.Result, error) {
		if call, ok := req.(*mcp.CallToolRequest); ok {
			if !slices.ContainsFunc(s.cfg.Tools, func(t Tool) bool { return t.Name == call.Params.Name }) {
				return nil, unknownTool(call.Params.Name, s.cfg.Tools)
			}
		}
		return next(ctx, method, req)
	}
}

// refuseUndeclared rejects methods of undeclared capabilities. The SDK would return
// empty lists, which do not show that the capability is missing.
func refuseUndeclared(has *mcp.ServerCapabilities) mcp.Middleware {
	declared := map[string]bool{
		"tools":      has.Tools != nil,
		"prompts":    has.Prompts != nil,
		"resources":  has.Resources != nil,
		"completion": has.Completions != nil,
		//lint:ignore SA1019 clients before 2026-07-28 request it
		"logging": has.Logging != nil,
	}
	return func(next mcp.MethodHandler) mcp.MethodHandler {
		return func(ctx context.Context, method string, req mcp.Request) (mcp.Result, error) {
			group, _, _ := strings.Cut(method, "/")
			if yes, known := declared[group]; known && !yes {
				return nil, &jsonrpc.Error{Code: jsonrpc.CodeMethodNotFound} // the SDK adds the message
			}
			return next(ctx, method, req)
		}
	}
}

// sdkLog is a log handler that passes the SDK's warnings and errors, except those about
// client mistakes, and drops its reports about connections.
type sdkLog struct{ slog.Handler }

// Enabled implements slog.Handler.
func (q sdkLog) Enabled(ctx context.Context, l slog.Level) bool {
	return l >= slog.LevelWarn && q.Handler.Enabled(ctx, l)
}

// Handle implements slog.Handler.
func (q sdkLog) Handle(ctx context.Context, r slog.Record) error {
	if slices.Contains(mistakes[:], r.Message) {
		if r.Level = slog.LevelDebug; !q.Handler.Enabled(ctx, r.Level) {
			return nil
		}
	}
	return q.Handler.Handle(ctx, r)
}

// mistakes are the SDK's messages about client mistakes, which the client gets too.
var mistakes = [...]string{
	"method removed in the new protocol",
	"method invalid during initialization",
	"initialized before initialize",
	"duplicate initialize request",
	"duplicate initialized notification",
}
