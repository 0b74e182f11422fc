// Package mcp speaks the Model Context Protocol with one server, over the
// streams of a program or over HTTP. It is, beside mcpserver/wire, the only
// package that knows the SDK, and none of the SDK's types leave it.
//
// A Session is one connection: opened, used by many callers at once, closed. A
// connection that breaks stays broken. The SDK does the handshakes of both eras,
// the headers and the streams; what servers answer is taken whole out of the
// connection before the SDK decodes it, since it would turn all numbers into
// floats and drop a list for one bad item in it: see tap.
//
// What a server says is data. Names are kept as they are, since they are what the
// server knows its things by; other texts are made plain, and all has bounds.
// The package starts no process, decides nothing and retries nothing.
package mcp

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/sandpiper-mcp/sandpiper/internal/upstream/sanitize"
)

// Config of a Session.
type Config struct {
	Client, Version string // who we say we are. Required
	MaxMessage      int    // bytes of one message; 0 means 32 MiB
	// Old sends initialize first, because the server is known to ignore
	// server/discover or to exit on it: see Info.Legacy.
	InitializeFirst bool
	// Changed is told that the list of tools is another one now. It has to return
	// soon; nil means that nobody asks.
	ToolsChanged func()
	// News counts the other lists that change; nil means that nobody asks.
	ListChanges *ListChanges
	// Noise is shown what a server sent that is no message, made plain; nil means
	// that nobody looks.
	InvalidMessage func(string)
	Log            *slog.Logger // nil discards
}

// News counts how often servers said that a list is another one now. It may be
// shared by all of them.
type ListChanges struct{ Resources, Prompts atomic.Uint64 }

// Info is what a server says of itself.
type Info struct {
	Name         string `json:"name"`
	Title        string `json:"title,omitempty"`
	Version      string `json:"version"`
	Instructions string `json:"instructions,omitempty"` // how it wants to be used
	Protocol     string `json:"protocol"`               // version of MCP
	Resources    bool   `json:"resources"`              // whether it has any
	Prompts      bool   `json:"prompts"`
	// Legacy reports whether the server answered initialize and not server/discover,
	// so that the next connection starts sooner with Config.Old.
	Legacy bool `json:"-"`
}

// Session is an open connection. It is safe for concurrent use.
type Session struct {
	info        Info
	cs          *sdk.ClientSession
	interceptor *interceptor
	link        link

	listMu sync.Mutex
	listed bool // whether the SDK has seen the list of tools

	ctx    context.Context // ends with Close
	cancel context.CancelFunc
	done   chan struct{} // closed when the connection is broken or closed

	background sync.WaitGroup
	closeOnce  sync.Once
}

// link is a way to reach a server.
type link interface {
	transport(t *interceptor) (sdk.Transport, error)
	legacy() bool // see Info.Legacy
	abort()       // breaks the connection at once
	wait()        // until all that cut ends has ended
}

// Errors that say why there is no answer. A server's own refusal is a *Refusal,
// an answer of HTTP that carries none a *StatusError.
var (
	ErrTooLarge       = errors.New("the answer is too large")
	ErrMalformed      = errors.New("the answer is malformed")
	ErrListTooLong    = errors.New("the list does not end")
	ErrClosed         = errors.New("the connection is closed")
	ErrClosedEarly    = errors.New("the connection was closed before a word") // by the server, at once
	ErrSessionExpired = errors.New("the server has forgotten the connection") // and did nothing of what was asked
	ErrInputRequired  = errors.New("the server asks for input")               // which nobody here can give
	ErrOtherHost      = errors.New("the server sends us to another host")
)

// Refusal is an error that a server answered with.
type ServerError struct {
	Code    int
	Message string // the server's words
	Data    []byte // JSON; nil if there is none
}

func (r *ServerError) Error() string { return fmt.Sprintf("%s (%d)", r.Message, r.Code) }

// Unknown tells whether the server does not know what was asked for at all.
func (r *ServerError) IsMethodNotFound() bool { return r.Code == jsonrpc.CodeMethodNotFound }

// oldProtocol is the newest version before the era in which each request stands
// alone.
const legacyProtocol = "2025-11-25"

// closePatience bounds the goodbye over HTTP.
const closeTimeout = 2 * time.Second

func open(ctx context.Context, l link, cfg Config) (*Session, error) {
	if cfg.MaxMessage == 0 {
		cfg.MaxMessage = 32 << 20
	}
	if cfg.Log == nil {
		cfg.Log = slog.New(slog.DiscardHandler)
	}
	s := &Session{link: l, interceptor: newInterceptor(cfg), done: make(chan struct{})}
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

// connect shakes hands. The SDK may wait beyond the end of ctx for streams that
// it opens; cutting the link ends that.
func (s *Session) connect(ctx context.Context, t sdk.Transport, cfg Config) error {
	options := &sdk.ClientSessionOptions{}
	if cfg.InitializeFirst {
		options.ProtocolVersion = legacyProtocol
	}
	var err error
	connected := make(chan struct{})
	go func() {
		defer close(connected)
		s.cs, err = newClient(cfg, s.interceptor).Connect(ctx, t, options)
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

// newClient is a client that offers to show forms to a person, and nothing else:
// a server that asks for samples or roots is refused.
func newClient(cfg Config, t *interceptor) *sdk.Client {
	c := sdk.NewClient(&sdk.Implementation{Name: cfg.Client, Version: cfg.Version}, &sdk.ClientOptions{
		Capabilities: &sdk.ClientCapabilities{Elicitation: &sdk.ElicitationCapabilities{Form: &sdk.FormElicitationCapabilities{}}},
		// The SDK's own would put what a server asks through a validator first.
		MultiRoundTrip: &sdk.MultiRoundTripOptions{Disabled: true},
		Logger:         slog.New(debugHandler{cfg.Log.Handler()}),
		// Makes the SDK ask for the news; the tap hears them.
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
		info.Name, info.Title, info.Version = sanitize.Line(s.Name, maxName), sanitize.Line(s.Title, maxName), sanitize.Line(s.Version, maxName)
	}
	if can := res.Capabilities; can != nil {
		info.Resources, info.Prompts = can.Resources != nil, can.Prompts != nil
	}
	return info
}

// Info is what the server said of itself.
func (s *Session) Info() Info { return s.info }

// Answers counts what the server has answered so far, also what nobody waited for.
func (s *Session) Responses() uint64 {
	s.interceptor.mu.Lock()
	defer s.interceptor.mu.Unlock()
	return s.interceptor.responses
}

// Ping reports whether the server answers within ctx. A refusal is an answer: the
// newest era has no ping.
func (s *Session) Ping(ctx context.Context) bool {
	before := s.Responses()
	return s.cs.Ping(ctx, nil) == nil || s.Responses() != before
}

// Done is closed when the connection is over.
func (s *Session) Done() <-chan struct{} { return s.done }

// Close ends the connection; calls under way end with it. Over HTTP it says
// goodbye, but does not wait long.
func (s *Session) Close() {
	s.closeOnce.Do(func() {
		s.cancel()
		timer := time.AfterFunc(closeTimeout, s.link.abort)
		defer timer.Stop()
		if _, ok := s.link.(*streams); ok { // there is no goodbye
			s.link.abort()
		}
		_ = s.cs.Close()
		s.background.Wait()
		s.link.wait()
	})
}

// tellChanges passes news of the list on.
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

// quiet makes the SDK's own reports ones of no weight: what matters in them is
// returned as an error too.
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
