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

// scopeTable has the scopes that a configuration names.
type scopeTable struct{ cfg Config }

// scopeOf returns a function with the scope that an operation needs, "" for none.
func (s scopeTable) scopeOf() func(operation) string {
	tools := map[string]string{}
	for _, t := range s.cfg.Tools {
		tools[t.Name] = t.Scope
	}
	ofExtension := func(method string) bool {
		return slices.ContainsFunc(s.cfg.Extensions, func(e Extension) bool { return e.Methods[method] != nil })
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
		case s.cfg.Resources != nil && (strings.HasPrefix(o.Method, "resources/") || ofExtension(o.Method) || watches):
			return s.cfg.Resources.Scope
		}
		return ""
	}
}

// scopes returns all scopes that operations need.
func (s scopeTable) scopes() (all []string) {
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
func (s scopeTable) completionScope(o operation, tools map[string]string) string {
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
	return &jsonrpc.Error{Code: jsonrpc.CodeInvalidRequest, Message: fmt.Sprintf("the token of this request does not have the scope %q",
		scope)}
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

// messagesIn returns the messages in the body of a POST that can be decoded, as the SDK decodes them.
func messagesIn(body []byte) (all []jsonrpc.Message) {
	batch := []json.RawMessage{body}
	if bytes.HasPrefix(bytes.TrimSpace(body), []byte("[")) {
		batch = nil
		_ = json.NewDecoder(bytes.NewReader(body)).Decode(&batch) // the SDK ignores what follows the array
	}
	for _, one := range batch {
		if m, err := jsonrpc.DecodeMessage(one); err == nil {
			all = append(all, m)
		}
	}
	return all
}

// mayContain reports whether text in JSON can contain a word: as it is, or with escapes.
func mayContain(body []byte, word string) bool {
	return bytes.Contains(body, []byte(word)) || bytes.Contains(body, []byte(`\u`))
}

// mayAnswer reports whether the token of a request may answer questions to the person.
func (a authenticator) mayAnswer(r *http.Request) bool {
	return len(a.missing(r.Context(), []string{a.ask})) == 0
}

// refuseReply answers a POST with an answer to a question to the person whose token may not answer.
func (a authenticator) refuseReply(w http.ResponseWriter, r *http.Request, body []byte) bool {
	if a.mayAnswer(r) || !mayContain(body, "action") {
		return false
	}
	for _, m := range messagesIn(body) {
		reply, ok := m.(*jsonrpc.Response)
		if !ok {
			continue
		}
		var result map[string]json.RawMessage
		_ = json.Unmarshal(reply.Result, &result)
		for key := range result {
			if key == "action" { // other answers, such as those of a model, have none
				id, _ := json.Marshal(reply.ID.Raw())
				a.refuseScope(w, id, a.ask)
				return true
			}
		}
	}
	return false
}

// cancels reports whether a message in the body of a POST cancels a request. The SDK handles it before
// requireScope.
func cancels(body []byte) bool {
	return mayContain(body, "cancelled") && slices.ContainsFunc(messagesIn(body), func(m jsonrpc.Message) bool {
		r, ok := m.(*jsonrpc.Request)
		return ok && r.Method == "notifications/cancelled"
	})
}

// challengeScope answers POST requests whose token lacks the scope that they need with 403 and
// the scope, so that clients can request a token with it: see "Runtime Insufficient Scope Errors"
// in MCP's authorization specification. The SDK would answer with 200. Batches and requests that
// it does not understand are left to requireScope; answers to questions, which pass no other check, are
// not. Requests of tokens with all scopes are not read here.
func (s scopeTable) challengeScope(authn authenticator, maxBody int64, next http.Handler) http.Handler {
	scopeOf, all := s.scopeOf(), s.scopes()
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		limited := len(authn.missing(r.Context(), all)) > 0
		if r.Method != http.MethodPost || !limited && authn.mayAnswer(r) {
			next.ServeHTTP(w, r)
			return
		}
		began := time.Now()
		body := peek(r, maxBody)
		var o operation
		if limited && json.Unmarshal(body, &o) == nil && len(o.ID) > 0 {
			if scope := scopeOf(o); !authn.has(r.Context(), scope) {
				s.noteRefused(authn, r, o, time.Since(began))
				authn.refuseScope(w, o.ID, scope)
				return
			}
		}
		if authn.refuseReply(w, r, body) {
			return
		}
		next.ServeHTTP(w, r)
	})
}

// peek reads the body of a request, and replaces it by one that can be read again.
func peek(r *http.Request, maxBody int64) []byte {
	body, _ := io.ReadAll(io.LimitReader(r.Body, maxBody+1)) // the SDK gets the same error
	r.Body = struct {
		io.Reader
		io.Closer
	}{io.MultiReader(bytes.NewReader(body), r.Body), r.Body}
	return body
}

// refuseScope answers the request with an id that needs scopes, by RFC 6750.
func (a authenticator) refuseScope(w http.ResponseWriter, id json.RawMessage, scopes ...string) {
	prefixed := make([]string, len(scopes))
	for i, scope := range scopes {
		prefixed[i] = a.prefix + scope
	}
	challenge := fmt.Sprintf(`Bearer error="insufficient_scope", scope=%q`, strings.Join(prefixed, " "))
	if a.metadata != "" {
		challenge += fmt.Sprintf(", resource_metadata=%q", a.metadata)
	}
	w.Header().Set("WWW-Authenticate", challenge)
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(http.StatusForbidden)
	_ = json.NewEncoder(w).Encode(map[string]any{"jsonrpc": "2.0", "id": id, "error": errScope(strings.Join(scopes, " "))})
}

// noteRefused reports a request that challengeScope has refused.
func (s scopeTable) noteRefused(authn authenticator, r *http.Request, o operation, took time.Duration) {
	if s.cfg.Access == nil {
		return
	}
	a := Access{Caller: authn.callerFrom(r.Context()), Remote: r.RemoteAddr, Method: knownMethod(o.Method),
		Code: jsonrpc.CodeInvalidRequest, Duration: took}
	if o.Method == "tools/call" {
		a.BytesIn, a.Tool = len(o.Params.Arguments), knownTool(s.cfg.Tools, o.Params.Name)
	}
	s.cfg.Access(a)
}
