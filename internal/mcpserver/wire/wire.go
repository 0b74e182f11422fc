// Package wire implements MCP with the official SDK, from tools as plain values. No SDK
// type is exported, so that a new protocol revision or SDK changes this package and
// upstream/mcp only.
//
// A Server may serve any number of connections concurrently; each
// connection runs its calls concurrently. Results of handlers must be redacted
// (redact.Redacted); others are rejected here. The package checks no arguments and
// handles no tenants; its callers do.
//
// The same code serves the revisions with a handshake, up to 2025-11-25, and the
// stateless requests of 2026-07-28.
package wire

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"runtime/debug"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/sandpiper-mcp/sandpiper/internal/fault"
	"github.com/sandpiper-mcp/sandpiper/internal/memory"
	"github.com/sandpiper-mcp/sandpiper/internal/privacy/redact"
)

// Config describes a Server.
type Config struct {
	Name         string // required
	Title        string // shown to people; empty means Name
	Version      string // required
	Instructions string // a hint to the model; empty means none
	Tools        []Tool
	Resources    *Resources  // nil means none
	Extensions   []Extension // require Resources
	Tasks        *Tasks      // nil means that calls are not answered by tasks
	Complete     *Completer  // nil means none
	Logs         *Logs       // nil means none
	// ToolsVersion is polled while a client is connected. Clients are notified that the list of
	// tools has changed when it does; nil means never. It requires Select.
	ToolsVersion func() string
	// CallerVersion is likewise for the tools of one caller; only its connections are notified.
	CallerVersion func(caller string) string
	Relay         *Relay // instead of Tools, Resources and Complete; nil means these
	// Access is called at the end of each request; nil means not.
	Access func(Access)
	// Select returns what a caller is offered; nil means all Tools for everyone, and no choice.
	Select func(caller string, c Choice) (Selection, error)
	// MoreScope is the Tool.Scope of Selection.More. A caller without it does not see them.
	MoreScope string
	// Caller is the caller of requests without authentication: over stdio, and over HTTP
	// without HTTPConfig.Verify.
	Caller string
	// AskScope is the scope of callers that may be asked; others cannot answer questions.
	// Empty means all callers.
	AskScope string
	// Linger is how long running calls may take after the client closed its end; 0
	// means 10 s.
	Linger time.Duration
	// Grace is how long running calls may take after a shutdown began; 0 means 2 s.
	Grace time.Duration
	// Memory is the budget of the messages that clients send, by caller; nil means no limit.
	Memory *memory.Budget
	Log    *slog.Logger // nil means discard
}

// Tool is a tool as listed to clients.
type Tool struct {
	Name        string
	Description string
	Schema      json.RawMessage // JSON Schema of the arguments; its type is "object"
	Hints       Hints
	Scope       string // a caller without it cannot call the tool; "" means none is needed
	// MaxResultChars is a hint to clients that truncate long results; 0 means none.
	MaxResultChars int
	// AlwaysLoad is a hint to clients that defer tools: the model gets this one at once.
	AlwaysLoad bool
	SearchHint string // words for the search of such clients, not shown to the model; "" means none
	NeedsTask  bool   // it can be called only by clients that support tasks
	Handle     Handler
}

// Hints are a tool's annotations.
type Hints struct {
	ReadOnly    bool
	Destructive bool
	Idempotent  bool
}

// Handler handles one call. Its context ends when the client cancels the call or
// disconnects, or the daemon stops. An error is logged, and the client gets a generic
// message; errors for the client are redacted results.
type Handler func(ctx context.Context, c Call) (redact.Redacted, error)

// Call is one call of a tool.
type Call struct {
	// Caller is the name from HTTPConfig.Verify, or Config.Caller.
	Caller    string
	Client    string          // name and version by which the client introduced itself; "" if it did not
	Subset    string          // named subset of servers that the client has chosen; "" means all
	Origin    string          // URL of the server, such as https://mcp.example; "" for a client that is not connected over HTTP
	Own       bool            // the caller needs no authentication, and so is the user of this machine
	Arguments json.RawMessage // as the client sent them, unchecked; nil if it sent none
	// Progress notifies the client; nil if the client did not ask for progress. Total 0
	// means unknown.
	Progress func(ctx context.Context, done, total float64, message redact.Redacted) error
	// Ask asks the user all questions at once and waits for the answers; nil if the
	// client cannot be asked during a call.
	Ask func(ctx context.Context, questions []Question) (map[string]Reply, error)
	// Require replaces the result of the handler by questions. The client then calls
	// again, with State and Replies; nil if it does not support that.
	Require func(questions []Question, state string) error
	State   string           // of an earlier Require, as returned by the client; unchecked
	Replies map[string]Reply // by question id; unchecked
	// Sample asks the model of the client and waits for the answer; nil if it has none, or
	// cannot be asked during a call.
	Sample func(ctx context.Context, p Prompt) (Sampled, error)
	// RequireSample is Require for its model: the client calls again, with State and Sampled;
	// nil if it has no model, or can be asked during a call.
	RequireSample func(p Prompt, state string) error
	// Task replaces the result of the handler by a task, which the client then asks Tasks for;
	// nil if it does not support tasks.
	Task    func(Task)
	Sampled *Sampled // nil if the client did not ask its model
	// Trace returns the client's W3C trace context by name, traceparent or tracestate;
	// "" for none. Unchecked.
	Trace func(name string) string
}

// Server offers tools over MCP.
type Server struct {
	cfg        Config
	logClients logClients
}

// New checks cfg and returns a Server.
func New(cfg Config) (*Server, error) {
	if cfg.Name == "" || cfg.Version == "" {
		return nil, errors.New("wire: name and version are required")
	}
	if cfg.Linger == 0 {
		cfg.Linger = 10 * time.Second
	}
	if cfg.Grace == 0 {
		cfg.Grace = 2 * time.Second
	}
	if cfg.Log == nil {
		cfg.Log = slog.New(slog.DiscardHandler)
	}
	if cfg.Relay != nil && (len(cfg.Tools) > 0 || cfg.Resources != nil || cfg.Complete != nil) {
		return nil, errors.New("wire: what is relayed stands in place of tools and resources")
	}
	seen := map[string]bool{}
	for _, t := range cfg.Tools {
		if seen[t.Name] || t.Name == "" || t.Handle == nil || !json.Valid(t.Schema) {
			return nil, fmt.Errorf("wire: tool %q is named twice, or has no name, handler or schema", t.Name)
		}
		seen[t.Name] = true
	}
	return &Server{cfg: cfg, logClients: logClients{all: map[*mcp.ServerSession]*logClient{}}}, nil
}

// build creates the SDK's server, whose calls end with alive and get their caller from
// authn. It sets opts. The caller closes the subscriptions.
func (s *Server) build(alive context.Context, authn authenticator, opts *mcp.ServerOptions) (*mcp.Server, *subscriptions) {
	impl := &mcp.Implementation{Name: s.cfg.Name, Title: s.cfg.Title, Version: s.cfg.Version}
	opts.Instructions = s.cfg.Instructions
	opts.Logger = slog.New(sdkLog{s.cfg.Log.Handler()})
	s.declare(opts)
	opts.SetCacheable = func(_ context.Context, req mcp.Request, c *mcp.Cacheable) {
		c.CacheScope = private
		if _, ok := req.(*mcp.ListToolsRequest); ok && opts.Capabilities.Tools.ListChanged {
			c.TTLMs = int(listTTL.Milliseconds())
		}
	}
	server := mcp.NewServer(impl, opts)
	server.AddReceivingMiddleware(refuseUndeclared(opts.Capabilities))
	for _, t := range s.cfg.Tools {
		server.AddTool(t.describe(), s.handler(alive, authn, t))
	}
	if s.cfg.Select != nil && s.cfg.Relay == nil {
		s.callMore(alive, authn, server)
	}
	o := s.subscriptions(alive, authn, server)
	for _, e := range s.cfg.Extensions {
		if err := (extensionMethods{o}).serve(e, server); err != nil {
			s.cfg.Log.Error("offer an extension", "name", e.Name, "error", err)
		}
	}
	if s.cfg.Tasks != nil {
		if err := (taskMethods{o}).serveTasks(s.cfg.Tasks, s.cfg.Tools, server); err != nil {
			s.cfg.Log.Error("offer tasks", "error", err)
		}
	}
	if s.cfg.Complete != nil {
		server.AddReceivingMiddleware(o.complete(s.cfg.Complete))
	}
	if s.cfg.Relay != nil {
		s.relay(alive, o, server)
	}
	if s.cfg.ToolsVersion != nil {
		o.running.Go(func() {
			relayMethods{o}.announce(0, func() Versions { return Versions{Tools: s.cfg.ToolsVersion()} }, server)
		})
	}
	if s.cfg.CallerVersion != nil {
		watchedTools{o}.watchTools(s.cfg.CallerVersion, server)
	}
	if s.cfg.Logs != nil {
		server.AddReceivingMiddleware(s.logging(o))
	}
	switch {
	case s.cfg.Select != nil:
		server.AddReceivingMiddleware(s.selecting(authn))
	case s.cfg.Relay == nil:
		server.AddReceivingMiddleware(s.refuseUnknown)
	}
	server.AddReceivingMiddleware(authn.requireScope(scopeTable{s.cfg}.scopeOf())) // the last one runs first
	server.AddReceivingMiddleware(authn.requireCaller)
	if s.cfg.Access != nil {
		server.AddReceivingMiddleware(s.accessLog(authn))
	}
	return server, o
}

// declare sets the capabilities in opts.
func (s *Server) declare(opts *mcp.ServerOptions) {
	if opts.Capabilities == nil {
		opts.Capabilities = &mcp.ServerCapabilities{Tools: &mcp.ToolCapabilities{}}
	}
	// There are none, but some clients list prompts without looking at the capabilities.
	opts.Capabilities.Prompts = &mcp.PromptCapabilities{}
	if s.cfg.Resources != nil {
		s.cfg.Resources.declare(opts)
	}
	for _, e := range s.cfg.Extensions {
		opts.Capabilities.AddExtension(e.Name, nil)
	}
	if s.cfg.Tasks != nil {
		opts.Capabilities.AddExtension(tasksExtension, nil)
	}
	if s.cfg.Complete != nil {
		opts.Capabilities.Completions = &mcp.CompletionCapabilities{}
	}
	if s.cfg.Relay != nil {
		opts.Capabilities = relayed()
	}
	if s.cfg.ToolsVersion != nil || s.cfg.CallerVersion != nil {
		opts.Capabilities.Tools.ListChanged = true
	}
	if s.cfg.Logs != nil {
		//lint:ignore SA1019 clients before 2026-07-28 use it
		opts.Capabilities.Logging = &mcp.LoggingCapabilities{}
	}
}

// private is the cache scope of every answer: answers depend on the caller, so a shared
// cache must not store them.
const private = "private"

// listTTL is how long clients may use a list of which they are notified when it changes.
const listTTL = time.Minute

func (t Tool) describe() *mcp.Tool {
	closed := false
	d := &mcp.Tool{
		Name:        t.Name,
		Description: t.Description,
		InputSchema: t.Schema,
		Annotations: &mcp.ToolAnnotations{
			ReadOnlyHint:    t.Hints.ReadOnly,
			DestructiveHint: &t.Hints.Destructive,
			IdempotentHint:  t.Hints.Idempotent,
			OpenWorldHint:   &closed,
		},
	}
	d.Meta = mcp.Meta{}
	if t.MaxResultChars > 0 {
		d.Meta[maxResultChars] = t.MaxResultChars
	}
	if t.AlwaysLoad {
		d.Meta[alwaysLoad] = true
	}
	if t.SearchHint != "" {
		d.Meta[searchHint] = t.SearchHint
	}
	return d
}

// handler converts t's handler to the SDK's. The SDK ends the request's context when the
// client cancels; alive ends it when the connection ends.
func (s *Server) handler(alive context.Context, authn authenticator, t Tool) mcp.ToolHandler {
	return func(ctx context.Context, req *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		ctx, end := during(ctx, alive)
		defer end()
		call := Call{
			Caller:    authn.callerOf(ctx, req),
			Client:    clientOf(req.Session),
			Subset:    choiceOf(req).Subset,
			Origin:    originOf(req),
			Own:       authn.verify == nil,
			Arguments: req.Params.Arguments,
			Trace:     trace(req),
		}
		note := newNotifier(ctx, req)
		defer note.stop()
		call.Progress = note.report()
		required := call.askable(req)
		if !authn.mayUse(ctx, req, s.cfg.AskScope) {
			call.Ask, call.Require, call.State, call.Replies = nil, nil, "", nil
		}
		call.sampleable(req, required)
		call.taskable(ctx, req)
		redacted, err := contain(ctx, t.Handle, call)
		if errors.Is(err, ErrState) {
			return nil, &jsonrpc.Error{Code: jsonrpc.CodeInvalidParams, Message: ErrState.Error()}
		}
		if err == nil && required.requests != nil {
			return &mcp.CallToolResult{InputRequests: required.requests, RequestState: required.state}, nil
		}
		if err == nil {
			var res *mcp.CallToolResult
			if res, err = result(redacted, t.MaxResultChars); err == nil {
				return res, nil
			}
		}
		s.cfg.Log.Error("tool call failed", "tool", t.Name, "error", err)
		return failure(), nil
	}
}

// during returns a ctx that also ends with alive, and its cancel function.
func during(ctx, alive context.Context) (context.Context, func()) {
	ctx, cancel := context.WithCancelCause(ctx)
	stop := context.AfterFunc(alive, func() { cancel(context.Cause(alive)) })
	return ctx, func() { stop(); cancel(nil) }
}

// trace returns a client's trace context from the message, or from its HTTP headers.
func trace(req *mcp.CallToolRequest) func(string) string {
	return func(name string) string {
		if of, ok := req.Params.Meta[name].(string); ok {
			return of
		}
		if x := req.GetExtra(); x != nil {
			return x.Header.Get(name)
		}
		return ""
	}
}

// contain calls h and converts a panic to an error, so that one call cannot end the
// others.
func contain(ctx context.Context, h Handler, c Call) (redacted redact.Redacted, err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("panic: %v\n%s", p, debug.Stack())
		}
	}()
	return h(ctx, c)
}

const (
	// maxResultChars is the key of the length above which Claude Code moves a text to a file.
	// It is only set for texts longer than longText.
	maxResultChars = "anthropic/maxResultSizeChars"
	longText       = 40_000

	// alwaysLoad and searchHint are keys that Claude Code reads, which defers tools: the first
	// excludes a tool from that, and the second has words for its search of the others.
	alwaysLoad = "anthropic/alwaysLoad"
	searchHint = "anthropic/searchHint"
)

// result converts redacted content to one text block and images. There is no structured
// content: it would double the tokens, and clients drop images if it is present.
func result(redacted redact.Redacted, maxChars int) (*mcp.CallToolResult, error) {
	text, images, failed, err := redacted.Content()
	if err != nil {
		return nil, err
	}
	res := &mcp.CallToolResult{IsError: failed, Content: []mcp.Content{&mcp.TextContent{Text: text}}}
	for _, img := range images {
		res.Content = append(res.Content, &mcp.ImageContent{Data: img.Data, MIMEType: img.MIME})
	}
	if maxChars > 0 && len(text) > longText {
		res.Meta = mcp.Meta{maxResultChars: maxChars}
	}
	return res, nil
}

// failure is the answer after an internal error. It contains nothing of the call.
func failure() *mcp.CallToolResult {
	body, _ := json.Marshal(map[string]any{"success": false, "error": fault.Message(errors.New(""))})
	return &mcp.CallToolResult{IsError: true, Content: []mcp.Content{&mcp.TextContent{Text: string(body)}}}
}
