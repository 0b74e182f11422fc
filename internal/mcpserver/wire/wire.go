// Package wire is the border to the MCP SDK: tools as plain values go in, the
// protocol comes out. No SDK type leaves it, so that the next protocol
// revision or SDK changes this package alone.
//
// A Server is immutable and may serve any number of connections at once; each
// connection runs its calls concurrently. What a handler returns must have
// passed the exit (redact.Redacted): anything else is refused here. The package
// checks no arguments and knows no tenant; its callers do.
//
// Both protocol eras are served by the same code: the handshake of 2025-11-25
// and before, and the stateless requests of 2026-07-28.
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
	"github.com/sandpiper-mcp/sandpiper/internal/privacy/redact"
)

// Config describes a Server.
type Config struct {
	Name         string // required
	Title        string // shown to people; empty means Name
	Version      string // required
	Instructions string // a hint to the model; empty means none
	Tools        []Tool
	Resources    *Resources // nil offers none
	Relay        *Relay     // in place of Tools and Resources; nil offers these
	// Caller is who calls where no token is required: over stdio, and over HTTP
	// without HTTPConfig.Verify.
	Caller string
	// Linger is how long calls under way may go on after the client closed its
	// end; zero means 10 s.
	Linger time.Duration
	// Grace is how long calls under way may go on after the daemon was told to
	// stop; zero means 2 s.
	Grace time.Duration
	Log   *slog.Logger // nil means discard
}

// Tool is one tool as the protocol shows it.
type Tool struct {
	Name        string
	Description string
	Schema      json.RawMessage // JSON Schema of the arguments; its type is "object"
	Hints       Hints
	// MaxResultChars tells clients that cut long results how long ours may
	// rightly be; zero leaves it to them.
	MaxResultChars int
	Handle         Handler
}

// Hints tell a client how careful to be with a tool.
type Hints struct {
	ReadOnly    bool
	Destructive bool
	Idempotent  bool
}

// Handler answers one call. Its context ends when the client cancels the call
// or goes away, or the daemon stops. An error is for the log: the client is told
// only that something went wrong, so what a client should read is sealed too.
type Handler func(ctx context.Context, c Call) (redact.Redacted, error)

// Call is one call of a tool.
type Call struct {
	// Caller is who calls, as HTTPConfig.Verify said, or Config.Caller.
	Caller    string
	Arguments json.RawMessage // as the client sent them, unchecked; nil if it sent none
	// Progress reports how far the call is; nil if the client did not ask. Total
	// 0 is unknown.
	Progress func(ctx context.Context, done, total float64, message redact.Redacted) error
	// Ask asks the person, all questions at once, and waits for what they do; nil
	// if this client cannot be asked while its call is open.
	Ask func(ctx context.Context, questions []Question) (map[string]Reply, error)
	// Require makes the answer of this call the questions, in place of what the
	// handler returns. The client then calls again, with State and Replies; nil if
	// it cannot do that.
	Require func(questions []Question, state string) error
	State   string           // of an earlier Require, as the client gives it back; unchecked
	Replies map[string]Reply // by the ids of its questions; unchecked
	// Trace is what the client says of the trace that the call is part of, by the
	// names of W3C: traceparent and tracestate; "" for nothing. Unchecked.
	Trace func(name string) string
}

// Server offers tools over MCP.
type Server struct{ cfg Config }

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
	if cfg.Relay != nil && (len(cfg.Tools) > 0 || cfg.Resources != nil) {
		return nil, errors.New("wire: what is relayed stands in place of tools and resources")
	}
	seen := map[string]bool{}
	for _, t := range cfg.Tools {
		if seen[t.Name] || t.Name == "" || t.Handle == nil || !json.Valid(t.Schema) {
			return nil, fmt.Errorf("wire: tool %q is named twice, or has no name, handler or schema", t.Name)
		}
		seen[t.Name] = true
	}
	return &Server{cfg: cfg}, nil
}

// build makes the SDK's server, whose calls end with alive and come from who. It
// fills in opts. The offer is to be closed.
func (s *Server) build(alive context.Context, who callers, opts *mcp.ServerOptions) (*mcp.Server, *offer) {
	impl := &mcp.Implementation{Name: s.cfg.Name, Title: s.cfg.Title, Version: s.cfg.Version}
	opts.Instructions = s.cfg.Instructions
	opts.Logger = slog.New(quiet{s.cfg.Log.Handler()})
	if opts.Capabilities == nil {
		opts.Capabilities = &mcp.ServerCapabilities{Tools: &mcp.ToolCapabilities{}}
	}
	if s.cfg.Resources != nil {
		s.cfg.Resources.declare(opts)
	}
	if s.cfg.Relay != nil {
		opts.Capabilities = relayed()
	}
	opts.SetCacheable = func(_ context.Context, _ mcp.Request, c *mcp.Cacheable) { c.CacheScope = private }
	server := mcp.NewServer(impl, opts)
	server.AddReceivingMiddleware(refuseUndeclared(opts.Capabilities))
	if s.cfg.Relay == nil {
		server.AddReceivingMiddleware(s.refuseUnknown)
	}
	for _, t := range s.cfg.Tools {
		server.AddTool(t.describe(), s.handler(alive, who, t))
	}
	o := s.offer(alive, who, server)
	if s.cfg.Relay != nil {
		s.relay(alive, o, server)
	}
	server.AddReceivingMiddleware(who.required) // last, and so the first to see a request
	return server, o
}

// private is the scope of every answer: it may depend on who asks, so a shared
// cache must not keep it.
const private = "private"

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
	if t.MaxResultChars > 0 {
		d.Meta = mcp.Meta{maxResultChars: t.MaxResultChars}
	}
	return d
}

// handler turns t's handler into the SDK's. The SDK ends the request's context
// when the client cancels; alive ends it when the connection does.
func (s *Server) handler(alive context.Context, who callers, t Tool) mcp.ToolHandler {
	return func(ctx context.Context, req *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		ctx, end := during(ctx, alive)
		defer end()
		call := Call{Caller: who.of(ctx, req), Arguments: req.Params.Arguments, Progress: progress(req), Trace: trace(req)}
		required := call.askable(req)
		sealed, err := contain(ctx, t.Handle, call)
		if errors.Is(err, ErrState) {
			return nil, &jsonrpc.Error{Code: jsonrpc.CodeInvalidParams, Message: ErrState.Error()}
		}
		if err == nil && required.requests != nil {
			return &mcp.CallToolResult{InputRequests: required.requests, RequestState: required.state}, nil
		}
		if err == nil {
			var res *mcp.CallToolResult
			if res, err = result(sealed, t.MaxResultChars); err == nil {
				return res, nil
			}
		}
		s.cfg.Log.Error("tool call failed", "tool", t.Name, "error", err)
		return failure(), nil
	}
}

// during returns a ctx that ends with alive too, and what is to be called after it.
func during(ctx, alive context.Context) (context.Context, func()) {
	ctx, cancel := context.WithCancelCause(ctx)
	stop := context.AfterFunc(alive, func() { cancel(context.Cause(alive)) })
	return ctx, func() { stop(); cancel(nil) }
}

// trace reads what a client says of a trace: in the message itself, else in the
// headers that it came with.
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

// contain calls h and turns a panic into an error, since one broken call must
// not end those of everybody else.
func contain(ctx context.Context, h Handler, c Call) (sealed redact.Redacted, err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("panic: %v\n%s", p, debug.Stack())
		}
	}()
	return h(ctx, c)
}

// progress returns a function that notifies the client, or nil if it gave no
// token to notify it by.
func progress(req *mcp.CallToolRequest) func(context.Context, float64, float64, redact.Redacted) error {
	token := req.Params.GetProgressToken()
	if token == nil {
		return nil
	}
	return func(ctx context.Context, done, total float64, message redact.Redacted) error {
		text, _, _, err := message.Content()
		if err != nil {
			return err
		}
		return req.Session.NotifyProgress(ctx, &mcp.ProgressNotificationParams{
			ProgressToken: token, Progress: done, Total: total, Message: text,
		})
	}
}

const (
	// maxResultChars is the key by which Claude Code learns how long a text may
	// be before it is moved to a file; longText is where it begins to matter.
	maxResultChars = "anthropic/maxResultSizeChars"
	longText       = 40_000
)

// result writes sealed content as one text block and the images after it. There
// is no structured content: it would double the tokens, and clients drop images
// where it is present.
func result(sealed redact.Redacted, maxChars int) (*mcp.CallToolResult, error) {
	text, images, failed, err := sealed.Content()
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

// failure is the answer when a handler had none. It holds nothing of the call.
func failure() *mcp.CallToolResult {
	body, _ := json.Marshal(map[string]any{"success": false, "error": fault.Message(errors.New(""))})
	return &mcp.CallToolResult{IsError: true, Content: []mcp.Content{&mcp.TextContent{Text: string(body)}}}
}
