// Package mcp is an MCP client for one server, over stdio streams or HTTP. Like
// mcpserver/wire it is built on the SDK, and it exports none of the SDK's types.
//
// A Session is one connection, used concurrently by many callers. A broken connection is
// not reopened. The SDK performs the handshakes of both protocol eras and handles
// headers and streams. Results are taken from the connection before the SDK decodes
// them, because the SDK converts all numbers to floats and drops a whole list for one
// invalid item: see interceptor. Over streams, tools/call does not pass through the SDK at
// all: see caller.
//
// Server data is untrusted. Names are kept unchanged, because the server identifies
// items by them; other texts are sanitized, and everything is bounded. The package
// starts no process, applies no policy and retries nothing.
package mcp

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/sandpiper-mcp/sandpiper/internal/upstream/sanitize"
	"github.com/sandpiper-mcp/sandpiper/internal/upstream/spool"
)

// Config of a Session.
type Config struct {
	Client, Version string       // client name and version. Required
	MaxMessage      int          // maximum bytes of one message in memory; 0 means 32 MiB
	Spool           *spool.Spool // stores larger answers to calls that accept them; nil refuses them
	// InitializeFirst sends initialize before server/discover, for servers known to ignore
	// server/discover or to exit on it: see Info.Legacy.
	InitializeFirst bool
	// ToolsChanged is called when the server reports a changed tool list. It must not
	// block; nil ignores changes.
	ToolsChanged func()
	// ListChanges counts changes of the other lists; nil ignores them.
	ListChanges *ListChanges
	// InvalidMessage receives the sanitized beginning of invalid messages; nil ignores
	// them.
	InvalidMessage func(string)
	Log            *slog.Logger // nil discards
}

// ListChanges counts list-changed notifications. It may be shared by several sessions.
type ListChanges struct{ Resources, Prompts atomic.Uint64 }

// Info is the server's description of itself.
type Info struct {
	Name         string `json:"name"`
	Title        string `json:"title,omitempty"`
	Version      string `json:"version"`
	Instructions string `json:"instructions,omitempty"` // usage instructions for models
	Protocol     string `json:"protocol"`               // protocol version
	Resources    bool   `json:"resources"`              // supports resources
	Prompts      bool   `json:"prompts"`
	// Legacy reports whether the server answered initialize and not server/discover, so
	// that the next connection starts faster with Config.InitializeFirst.
	Legacy bool `json:"-"`
}

// Session is an open connection. It is safe for concurrent use.
type Session struct {
	info        Info
	client      *sdk.Implementation // of this client
	cs          *sdk.ClientSession
	interceptor *interceptor
	link        link

	listMu sync.Mutex
	listed bool // whether the SDK has seen the tools that require headers

	ctx    context.Context // ends the requests of all callers; cancelled by Close
	cancel context.CancelFunc
	done   chan struct{} // closed when the connection is broken or closed

	background sync.WaitGroup
	closeOnce  sync.Once
}

// link is a transport.
type link interface {
	transport(t *interceptor) (sdk.Transport, error)
	legacy() bool // see Info.Legacy
	abort()       // breaks the connection immediately
	wait()        // waits for the goroutines that abort stops
}

// Errors for missing or invalid responses. An error response of the server is a
// *ServerError, an HTTP response without a message a *StatusError.
var (
	ErrTooLarge       = errors.New("response too large")
	ErrMalformed      = errors.New("malformed response")
	ErrListTooLong    = errors.New("list exceeds the page or size limit")
	ErrClosed         = errors.New("connection closed")
	ErrClosedEarly    = errors.New("connection closed before any message")
	ErrSessionExpired = errors.New("session expired")       // the request was not executed
	ErrInputRequired  = errors.New("server requests input") // and no one can answer
	ErrOtherHost      = errors.New("redirect to another host")
)

// ServerError is a JSON-RPC error response.
type ServerError struct {
	Code    int
	Message string // sanitized
	Data    []byte // JSON; nil if there is none
}

func (r *ServerError) Error() string { return fmt.Sprintf("%s (%d)", r.text(), r.Code) }

// maxErrorData limits the data of an error that its text shows.
const maxErrorData = 500

// text returns the message with the data, which often has the reason.
func (r *ServerError) text() string {
	data := sanitize.Line(string(r.Data), maxErrorData)
	if data == "" || data == "null" || data == "{}" || strings.Contains(r.Message, strings.Trim(data, `"`)) {
		return r.Message
	}
	return r.Message + ": " + data
}

// IsMethodNotFound reports whether the server does not support the method.
func (r *ServerError) IsMethodNotFound() bool { return r.Code == jsonrpc.CodeMethodNotFound }

// MayHaveEffect reports whether the error does not show that the tool did not run. Codes outside of
// the range that JSON-RPC reserves are the tool's own.
//
// https://www.jsonrpc.org/specification#error_object
func (r *ServerError) MayHaveEffect() bool {
	switch r.Code {
	case jsonrpc.CodeParseError, jsonrpc.CodeInvalidRequest, jsonrpc.CodeMethodNotFound, jsonrpc.CodeInvalidParams,
		sdk.CodeHeaderMismatch, sdk.CodeMissingRequiredClientCapabilities, sdk.CodeUnsupportedProtocolVersion,
		sdk.CodeURLElicitationRequired:
		return false
	}
	return r.Code == 0 || r.Code >= -32768 && r.Code <= -32000
}

// legacyProtocol is the newest protocol version with initialize. In later versions,
// requests are independent of each other.
const legacyProtocol = "2025-11-25"

// closeTimeout bounds the session termination over HTTP.
const closeTimeout = 2 * time.Second

func open(ctx context.Context, l link, cfg Config) (*Session, error) {
	if cfg.MaxMessage == 0 {
		cfg.MaxMessage = 32 << 20
	}
	if cfg.Log == nil {
		cfg.Log = slog.New(slog.DiscardHandler)
	}
	s := &Session{link: l, interceptor: newInterceptor(cfg), done: make(chan struct{}),
		client: &sdk.Implementation{Name: cfg.Client, Version: cfg.Version}}
	s.ctx, s.cancel = context.WithCancel(context.Background())
	transport, err := l.transport(s.interceptor)
	if err != nil {
		return nil, err
	}
	if err := s.connect(ctx, transport, cfg); err != nil {
		s.cancel()
		l.abort()
		l.wait()
		return nil, err
	}
	s.info = serverInfo(s.cs.InitializeResult())
	s.info.Legacy = l.legacy()
	s.background.Go(func() {
		_ = s.cs.Wait()
		close(s.done)
		l.abort()
	})
	if cfg.ToolsChanged != nil {
		s.background.Go(func() { s.forwardToolChanges(cfg.ToolsChanged) })
	}
	return s, nil
}

// connect performs the handshake. The SDK may wait beyond the end of ctx for streams
// that it opens; aborting the link ends that wait.
func (s *Session) connect(ctx context.Context, t sdk.Transport, cfg Config) error {
	options := &sdk.ClientSessionOptions{}
	if cfg.InitializeFirst {
		options.ProtocolVersion = legacyProtocol
	}
	var err error
	connected := make(chan struct{})
	go func() {
		defer close(connected)
		s.cs, err = newClient(s.client, cfg.Log, s.interceptor).Connect(ctx, t, options)
	}()
	select {
	case <-connected:
	case <-ctx.Done():
		s.link.abort()
		<-connected
		if err == nil {
			_ = s.cs.Close()
		}
		return ctx.Err()
	}
	if err == nil {
		return nil
	}
	if errors.Is(err, sdk.ErrConnectionClosed) || s.interceptor.isClosed() {
		if !s.interceptor.hasReceived() {
			return ErrClosedEarly
		}
		return ErrClosed
	}
	return translateError(err)
}

// clientCapabilities are those of newClient in JSON.
const clientCapabilities = `{"elicitation":{"form":{}}}`

// newClient returns an SDK client that supports form elicitation only. Requests for
// sampling or roots are refused.
func newClient(identity *sdk.Implementation, log *slog.Logger, t *interceptor) *sdk.Client {
	c := sdk.NewClient(identity, &sdk.ClientOptions{
		Capabilities: &sdk.ClientCapabilities{Elicitation: &sdk.ElicitationCapabilities{Form: &sdk.FormElicitationCapabilities{}}},
		// The SDK's implementation would validate the server's request first.
		MultiRoundTrip: &sdk.MultiRoundTripOptions{Disabled: true},
		Logger:         slog.New(debugHandler{log.Handler()}),
		// Makes the SDK subscribe to list changes; the interceptor receives them.
		ToolListChangedHandler:     func(context.Context, *sdk.ToolListChangedRequest) {},
		ResourceListChangedHandler: func(context.Context, *sdk.ResourceListChangedRequest) {},
		PromptListChangedHandler:   func(context.Context, *sdk.PromptListChangedRequest) {},
	})
	c.AddReceivingMiddleware(func(next sdk.MethodHandler) sdk.MethodHandler {
		return func(ctx context.Context, method string, req sdk.Request) (sdk.Result, error) {
			if p, ok := req.GetParams().(*sdk.ElicitParams); ok && p != nil {
				return t.answerElicitation(p), nil
			}
			if method != "ping" {
				return nil, &jsonrpc.Error{Code: jsonrpc.CodeMethodNotFound, Message: "this client offers no " + method}
			}
			return next(ctx, method, req)
		}
	})
	return c
}

const maxText = 64 << 10 // bytes of a description, or of instructions

func serverInfo(res *sdk.InitializeResult) Info {
	info := Info{Protocol: res.ProtocolVersion, Instructions: sanitize.Text(res.Instructions, maxText)}
	if s := res.ServerInfo; s != nil {
		info.Name, info.Title, info.Version = sanitize.Line(s.Name, maxName), sanitize.Line(s.Title, maxName), sanitize.Line(s.Version,
			maxName)
	}
	if can := res.Capabilities; can != nil {
		info.Resources, info.Prompts = can.Resources != nil, can.Prompts != nil
	}
	return info
}

// Info returns the server's description of itself.
func (s *Session) Info() Info { return s.info }

// Responses counts the responses of the server, including those to abandoned requests.
func (s *Session) Responses() uint64 {
	s.interceptor.mu.Lock()
	defer s.interceptor.mu.Unlock()
	return s.interceptor.responses
}

// Ping reports whether the server responds within ctx. An error response counts: the
// newest protocol era has no ping.
func (s *Session) Ping(ctx context.Context) bool {
	before := s.Responses()
	return s.cs.Ping(ctx, nil) == nil || s.Responses() != before
}

// Done returns a channel that is closed when the connection is broken or closed.
func (s *Session) Done() <-chan struct{} { return s.done }

// Close closes the connection and cancels calls in flight. Over HTTP it terminates the
// session, within closeTimeout.
func (s *Session) Close() {
	s.closeOnce.Do(func() {
		s.cancel()
		timer := time.AfterFunc(closeTimeout, s.link.abort)
		defer timer.Stop()
		if _, ok := s.link.(*streams); ok { // no session termination
			s.link.abort()
		}
		_ = s.cs.Close()
		s.background.Wait()
		s.link.wait()
	})
}

// forwardToolChanges calls changed for each change of the tool list.
func (s *Session) forwardToolChanges(changed func()) {
	for {
		select {
		case <-s.interceptor.toolsChanged:
			changed()
		case <-s.done:
			return
		}
	}
}

// debugHandler logs the SDK's records at debug level: important ones are also returned
// as errors.
type debugHandler struct{ slog.Handler }

// Enabled implements slog.Handler.
func (q debugHandler) Enabled(ctx context.Context, _ slog.Level) bool {
	return q.Handler.Enabled(ctx, slog.LevelDebug)
}

// Handle implements slog.Handler.
func (q debugHandler) Handle(ctx context.Context, r slog.Record) error {
	r.Level = slog.LevelDebug
	return q.Handler.Handle(ctx, r)
}
