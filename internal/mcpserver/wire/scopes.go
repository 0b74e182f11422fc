package wire

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// operation is the part of a request that determines the scope that it needs.
type operation struct {
	ID     json.RawMessage `json:"id"`
	Method string          `json:"method"`
	Params struct {
		Name      string          `json:"name"` // of a tool
		Arguments json.RawMessage `json:"arguments"`
		Ref       struct {
			Type string `json:"type"`
			Name string `json:"name"`
		} `json:"ref"`
		Notifications struct {
			Resources []string `json:"resourceSubscriptions"`
		} `json:"notifications"`
	} `json:"params"`
}

// operationOf returns the operation of a request that the SDK has decoded.
func operationOf(method string, req mcp.Request) operation {
	o := operation{Method: method}
	switch req := req.(type) {
	case *mcp.CallToolRequest:
		o.Params.Name = req.Params.Name
	case *mcp.CompleteRequest:
		if req.Params != nil && req.Params.Ref != nil {
			o.Params.Ref.Type, o.Params.Ref.Name = req.Params.Ref.Type, req.Params.Ref.Name
		}
	case *mcp.SubscriptionsListenRequest:
		if req.Params != nil && req.Params.Notifications != nil {
			o.Params.Notifications.Resources = req.Params.Notifications.ResourceSubscriptions
		}
	}
	return o
}

// scopeOf returns a function with the scope that an operation needs, "" for none.
func (s *Server) scopeOf() func(operation) string {
	tools := map[string]string{}
	for _, t := range s.cfg.Tools {
		tools[t.Name] = t.Scope
	}
	return func(o operation) string {
		watches := o.Method == "subscriptions/listen" && len(o.Params.Notifications.Resources) > 0
		switch {
		case s.cfg.Relay == nil && o.Method == "tools/call":
			if scope, ok := tools[o.Params.Name]; ok {
				return scope
			}
			return s.cfg.MoreScope
		case s.cfg.Complete != nil && o.Method == "completion/complete":
			return s.completionScope(o, tools)
		case s.cfg.Tasks != nil && strings.HasPrefix(o.Method, "tasks/"):
			return s.cfg.Tasks.Scope
		case s.cfg.Logs != nil && o.Method == "logging/setLevel":
			return s.cfg.Logs.Scope
		case s.cfg.Relay != nil && s.cfg.Relay.Answers[o.Method] != nil:
			return s.cfg.Relay.Scope
		case s.cfg.Resources != nil && (strings.HasPrefix(o.Method, "resources/") || strings.HasPrefix(o.Method, "skills/") || watches):
			return s.cfg.Resources.Scope
		}
		return ""
	}
}

// scopes returns all scopes that operations need.
func (s *Server) scopes() (all []string) {
	for _, t := range s.cfg.Tools {
		all = append(all, t.Scope)
	}
	if s.cfg.MoreScope != "" {
		all = append(all, s.cfg.MoreScope)
	}
	if c := s.cfg.Complete; c != nil {
		all = append(all, c.Scope)
	}
	if t := s.cfg.Tasks; t != nil {
		all = append(all, t.Scope)
	}
	if l := s.cfg.Logs; l != nil {
		all = append(all, l.Scope)
	}
	if r := s.cfg.Relay; r != nil {
		all = append(all, r.Scope)
	}
	if r := s.cfg.Resources; r != nil {
		all = append(all, r.Scope)
	}
	slices.Sort(all)
	return slices.Compact(all)
}

// completionScope returns the scope of the tool or resource that has the argument.
func (s *Server) completionScope(o operation, tools map[string]string) string {
	switch ref := o.Params.Ref; ref.Type {
	case "":
		return ""
	case "ref/resource":
		return s.cfg.Resources.Scope
	default:
		if scope, ok := tools[ref.Name]; ok {
			return scope
		}
		return s.cfg.Complete.Scope
	}
}

// errScope is the answer to a request without its scope.
func errScope(scope string) *jsonrpc.Error {
	return &jsonrpc.Error{Code: jsonrpc.CodeInvalidRequest, Message: fmt.Sprintf("the token of this request does not have the scope %q", scope)}
}

// requireScope rejects requests whose caller lacks the scope that they need.
func (a authenticator) requireScope(scopeOf func(operation) string) mcp.Middleware {
	return func(next mcp.MethodHandler) mcp.MethodHandler {
		return func(ctx context.Context, method string, req mcp.Request) (mcp.Result, error) {
			if scope := scopeOf(operationOf(method, req)); !a.mayUse(ctx, req, scope) {
				return nil, errScope(scope)
			}
			return next(ctx, method, req)
		}
	}
}

// challengeScope answers POST requests whose token lacks the scope that they need with 403 and
// the scope, so that clients can request a token with it: see "Runtime Insufficient Scope Errors"
// in MCP's authorization specification. The SDK would answer with 200. Batches and requests that
// it does not understand are left to requireScope. Requests of tokens with all scopes are not read here.
func (s *Server) challengeScope(authn authenticator, maxBody int64, next http.Handler) http.Handler {
	scopeOf, all := s.scopeOf(), s.scopes()
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method != http.MethodPost || authn.verify == nil || authn.hasAll(r.Context(), all) {
			next.ServeHTTP(w, r)
			return
		}
		began := time.Now()
		body, _ := io.ReadAll(io.LimitReader(r.Body, maxBody+1)) // the SDK gets the same error
		var o operation
		if json.Unmarshal(body, &o) == nil && len(o.ID) > 0 {
			if scope := scopeOf(o); !authn.has(r.Context(), scope) {
				s.noteRefused(authn, r, o, time.Since(began))
				authn.refuseScope(w, o.ID, scope)
				return
			}
		}
		r.Body = struct {
			io.Reader
			io.Closer
		}{io.MultiReader(bytes.NewReader(body), r.Body), r.Body}
		next.ServeHTTP(w, r)
	})
}

// refuseScope answers the request with an id that needs a scope, by RFC 6750.
func (a authenticator) refuseScope(w http.ResponseWriter, id json.RawMessage, scope string) {
	challenge := fmt.Sprintf(`Bearer error="insufficient_scope", scope=%q`, a.prefix+scope)
	if a.metadata != "" {
		challenge += fmt.Sprintf(", resource_metadata=%q", a.metadata)
	}
	w.Header().Set("WWW-Authenticate", challenge)
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(http.StatusForbidden)
	_ = json.NewEncoder(w).Encode(map[string]any{"jsonrpc": "2.0", "id": id, "error": errScope(scope)})
}

// noteRefused reports a request that challengeScope has refused.
func (s *Server) noteRefused(authn authenticator, r *http.Request, o operation, took time.Duration) {
	if s.cfg.Access == nil {
		return
	}
	a := Access{Caller: authn.callerFrom(r.Context()), Remote: r.RemoteAddr, Method: knownMethod(o.Method), Code: jsonrpc.CodeInvalidRequest, Duration: took}
	if o.Method == "tools/call" {
		a.BytesIn, a.Tool = len(o.Params.Arguments), s.knownTool(o.Params.Name)
	}
	s.cfg.Access(a)
}
