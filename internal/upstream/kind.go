package upstream

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"github.com/sandpiper-mcp/sandpiper/internal/tool"
	"github.com/sandpiper-mcp/sandpiper/internal/upstream/spool"
)

// Kind is what a server is, with the settings of that kind: a Program, a Remote, an InProcess, or
// a type of a package that imports this one. Strings may contain references, which Host.Resolve
// resolves. Kinds that reflect.DeepEqual finds equal are the same server to Set.Update.
//
// The messages of errors continue a sentence that begins with the name of the server, as in
// "has no document".
type Kind interface {
	// Noun returns what a server of this kind is, such as "a local program".
	Noun() string
	// Validate returns an error for settings without references that cannot work.
	Validate() error
	// Connector returns the Connector of a server. It opens no connection.
	Connector(h *Host) Connector
}

// checker is an optional ability of a Kind: see tool.Checker.
type checker interface {
	Check(c tool.Call) (destination string, err error)
}

// Connector opens the connections to one server, one at a time.
type Connector interface {
	// Open opens a connection. Its context ends after the StartTimeout of the server.
	Open(ctx context.Context) (Session, error)
}

// ConnectorFunc is a Connector that keeps nothing between connections.
type ConnectorFunc func(ctx context.Context) (Session, error)

// Open implements Connector.
func (f ConnectorFunc) Open(ctx context.Context) (Session, error) { return f(ctx) }

// Session is an open connection. It is safe for concurrent use.
type Session interface {
	Info() Info
	// Tools returns all tools. notes describe what was omitted.
	Tools(ctx context.Context, server string) (tools []tool.Definition, notes []string, err error)
	// Call returns the result of a tool. Its errors are those of tool.Caller, or ErrTooLarge.
	Call(ctx context.Context, c tool.Call) (tool.Result, error)
	// IsBroken reports whether err, of a request over this connection, makes it unusable.
	IsBroken(err error) bool
	// Done returns a channel that is closed when the connection is broken or closed.
	Done() <-chan struct{}
	Close()
}

// ErrTooLarge means that a response exceeds Host.MaxResponse.
var ErrTooLarge = errors.New("response too large")

// Host is what a Connector may use of the Set, for one server.
type Host struct {
	UserAgent   string       // of requests over HTTP
	Cache       string       // directory for copies of downloaded documents; "" keeps none
	MaxResponse int          // bytes of one response in memory; 0 means 32 MiB
	Spool       *spool.Spool // of larger responses; nil refuses them
	Log         *slog.Logger // names the server
	// ToolsChanged reports that the tools of the server may have changed. It does not block; nil
	// ignores changes.
	ToolsChanged func()

	*messages
	set          *common
	startTimeout time.Duration
	legacy       bool // Server.Legacy
}

// newHost returns the Host of a server with defaults.
func newHost(s *common, c Server, m *messages) *Host {
	h := &Host{
		UserAgent: s.cfg.Client, Cache: s.cfg.DocumentCache, MaxResponse: s.cfg.MaxResponse, Spool: s.spool, Log: s.cfg.Log.With("server",
			c.Name),
		messages: m, set: s, startTimeout: c.StartTimeout, legacy: c.Legacy,
	}
	if s.cfg.Version != "" {
		h.UserAgent += "/" + s.cfg.Version
	}
	return h
}

// AddToken adds a token to the secrets that are redacted, also in results.
func (h *Host) AddToken(token string) { h.redact.addToken(token) }
