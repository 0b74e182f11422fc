// Package upstream holds the connections to MCP servers: it starts them when they
// are first needed, keeps them while they are, and says of each how it is.
//
// A server is a program that speaks over its streams, an address that speaks
// over HTTP, or an API that an OpenAPI document describes, whose operations are
// its tools. It is stopped, starting, ready or failed. One that failed is tried
// again after a pause that doubles; a call in between is answered at once. One
// that crashed after it had served is started again by the next call. No server
// holds up another, and nothing that one does ends the daemon.
//
// Sub-rooms: child runs programs, mcp speaks the protocol and is the only one
// that knows the SDK, oauth has the tokens that servers over HTTP ask for, openapi
// calls what a document describes, plain makes foreign text safe to show.
//
// A Set is safe for concurrent use. It decides nothing about calls (no policy,
// no validation, no personal data), writes no journal and keeps no catalog:
// those are wrappers and rooms above. Text from servers is bounded and free of
// what a terminal would obey, and still only data.
package upstream

import (
	"context"
	"encoding/json"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/sandpiper-mcp/sandpiper/internal/store/secret"
	"github.com/sandpiper-mcp/sandpiper/internal/tool"
	"github.com/sandpiper-mcp/sandpiper/internal/upstream/mcp"
	"github.com/sandpiper-mcp/sandpiper/internal/upstream/oauth"
	"github.com/sandpiper-mcp/sandpiper/internal/upstream/openapi"
)

// Server is one that can be reached: by a Command, at a URL or as a document
// says.
type Server struct {
	Name              string
	Command           string            // a program on PATH, or a path
	Args              []string          //
	Env               map[string]string // beside PATH, HOME and a few others; values go through Config.Resolve
	Dir               string            // working directory; "" means the daemon's
	URL               string            // http or https
	Headers           map[string]string // values go through Config.Resolve
	OpenAPI           *openapi.Source   // an API in place of an MCP server; its texts go through Config.Resolve
	Transport         string            // "" means stdio for a Command, else streamable HTTP or, where that is refused, events; or "http", "sse"
	Client            Client            // who we are to the authorization server of a URL; its ID, Secret and Key go through Config.Resolve
	ClientCredentials bool              // the Client's credentials are all there is to a login: no person is needed

	Timeout      time.Duration // of a call, from when it is sent; 0 means 60 s
	StartTimeout time.Duration // until it is ready; 0 means 60 s
	Idle         time.Duration // stopped after so long without a call; 0 means 5 min, less means never
	Concurrency  int           // calls at once, others wait; 0 means 8
	Legacy       bool          // the last connection was opened as Info.Legacy says
}

// Config of a Set.
type Config struct {
	Servers []Server
	// Resolve turns a value of Env or Headers, the Command, an argument or the URL
	// into what is meant: it is asked when
	// a connection starts and never before. What it changes is a secret, which no
	// error, state or log will show. nil means that values are what they say.
	Resolve func(ctx context.Context, value string) (string, error)
	// Redact takes personal data out of what programs write to stderr, which belongs to
	// no tenant; nil leaves it.
	Redact func(string) string
	// Logins keeps what people logged in to, for all processes that have it. nil
	// means that there is no logging in.
	Logins *secret.Store
	// Changed is told that a server has other tools now, or may have: after the first
	// call over a connection on which they were not listed. It may call the Set, but
	// not Close; nil means that nobody asks.
	ToolsChanged    func(server string)
	DocumentCache   string        // directory for copies of OpenAPI documents that lie at URLs; "" means that none is kept
	Client, Version string        // who we say we are; "" means sandpiper, and no version
	MaxResponse     int           // bytes of one answer; 0 means 32 MiB
	RetryDelay      time.Duration // before a failed server is first tried again; it doubles up to 5 min; 0 means 1 s
	Log             *slog.Logger  // nil discards
}

// What servers offer.
type (
	Info     = mcp.Info
	Resource = mcp.Resource
	Prompt   = mcp.Prompt
	Argument = mcp.Argument
	Message  = mcp.Message

	Completion = mcp.Completion
	Values     = mcp.Values
)

// Logging in to a server.
type (
	Client      = oauth.Client
	Interaction = oauth.Interaction
)

// Listing is a server with all its tools.
type Listing struct {
	Info  Info              `json:"info"`
	Tools []tool.Definition `json:"tools"`
	Notes []string          `json:"notes,omitempty"` // what was left out and why
}

// Set is all upstream servers. It implements tool.Caller.
type Set struct {
	cfg         Config
	servers     map[string]*server
	ctx         context.Context // ends with Close
	cancel      context.CancelFunc
	listChanges mcp.ListChanges

	mu         sync.Mutex
	closed     bool
	background sync.WaitGroup
}

// New returns the Set. Nothing is started.
func New(cfg Config) (*Set, error) {
	if cfg.Log == nil {
		cfg.Log = slog.New(slog.DiscardHandler)
	}
	if cfg.Client == "" {
		cfg.Client = "sandpiper"
	}
	if cfg.RetryDelay == 0 {
		cfg.RetryDelay = time.Second
	}
	s := &Set{cfg: cfg, servers: map[string]*server{}}
	for _, c := range cfg.Servers {
		if err := validate(c); err != nil && cfg.Resolve == nil { // else what it stands for is checked
			return nil, err
		}
		if s.servers[c.Name] != nil {
			return nil, duplicateName(c.Name)
		}
		s.servers[c.Name] = newServer(s, c)
	}
	if s.cfg.Resolve == nil {
		s.cfg.Resolve = func(_ context.Context, value string) (string, error) { return value, nil }
	}
	s.ctx, s.cancel = context.WithCancel(context.Background())
	return s, nil
}

// Call implements tool.Caller: it calls a tool of a server, which it starts if
// need be. Progress is told by the goroutine that called.
func (s *Set) Call(ctx context.Context, c tool.Call) (tool.Result, error) {
	return withSession(ctx, s, c.Server, "calling "+c.Tool, c.Starting, func(ctx callContext, on session) (tool.Result, error) {
		v := s.servers[c.Server]
		if v.markToolsRequested() { // its list may have changed while nobody was connected
			defer v.notifyToolsChanged()
		}
		sent := c
		sent.Ask = v.pauseWhileAsking(ctx.limit, c.Ask)
		r, err := on.Call(ctx, sent)
		return v.redact.redactResult(r), err
	})
}

// List asks a server what it is and for all its tools.
func (s *Set) List(ctx context.Context, server string) (Listing, error) {
	return withSession(ctx, s, server, "listing its tools", nil, func(ctx callContext, on session) (Listing, error) {
		s.servers[server].markToolsRequested()
		tools, notes, err := on.Tools(ctx, server)
		for _, note := range notes {
			s.cfg.Log.Warn("a tool of an upstream server cannot be taken as it is", "server", server, "note", note)
		}
		return Listing{Info: on.Info(), Tools: tools, Notes: notes}, err
	})
}

// ListResources asks for all resources and templates of a server.
func (s *Set) ListResources(ctx context.Context, server string) ([]Resource, error) {
	return withMCPSession(ctx, s, server, "listing its resources", func(ctx context.Context, on *mcp.Session) ([]Resource, error) {
		return on.Resources(ctx)
	})
}

// ReadResource reads one.
func (s *Set) ReadResource(ctx context.Context, server, uri string) ([]tool.Part, error) {
	return withMCPSession(ctx, s, server, "reading a resource", func(ctx context.Context, on *mcp.Session) ([]tool.Part, error) {
		parts, err := on.ReadResource(ctx, uri)
		return s.servers[server].redact.redactResult(tool.Result{Parts: parts}).Parts, err
	})
}

// ListPrompts asks for all prompts of a server.
func (s *Set) ListPrompts(ctx context.Context, server string) ([]Prompt, error) {
	return withMCPSession(ctx, s, server, "listing its prompts", func(ctx context.Context, on *mcp.Session) ([]Prompt, error) {
		return on.Prompts(ctx)
	})
}

// Prompt asks for the messages of one.
func (s *Set) GetPrompt(ctx context.Context, server, name string, args map[string]string) ([]Message, error) {
	return withMCPSession(ctx, s, server, "getting a prompt", func(ctx context.Context, on *mcp.Session) ([]Message, error) {
		said, err := on.GetPrompt(ctx, name, args)
		for i, m := range said {
			said[i].Part = s.servers[server].redact.redactResult(tool.Result{Parts: []tool.Part{m.Part}}).Parts[0]
		}
		return said, err
	})
}

// Complete asks for values of an argument of a prompt or a template.
func (s *Set) Complete(ctx context.Context, server string, c Completion) (Values, error) {
	return withMCPSession(ctx, s, server, "completing an argument", func(ctx context.Context, on *mcp.Session) (Values, error) {
		return on.Complete(ctx, c)
	})
}

// News is how often servers have said that their resources are others now, and
// how often their prompts.
func (s *Set) ListChanges() (resources, prompts uint64) {
	return s.listChanges.Resources.Load(), s.listChanges.Prompts.Load()
}

// Close stops all servers and waits for them, some seconds at most. Calls under
// way end.
func (s *Set) Close() {
	s.mu.Lock()
	s.closed = true
	s.mu.Unlock()
	s.cancel()
	var all sync.WaitGroup
	for _, v := range s.servers {
		all.Go(v.stop)
	}
	all.Wait()
	s.background.Wait()
}

// spawn runs f in the background, unless the Set is closed.
func (s *Set) spawn(f func()) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.closed {
		s.background.Go(f)
	}
	return !s.closed
}

func (s *Set) names() []string {
	names := make([]string, len(s.cfg.Servers))
	for i, c := range s.cfg.Servers {
		names[i] = c.Name
	}
	slices.Sort(names)
	return names
}

var _ tool.Caller = (*Set)(nil)
var _ json.Marshaler = Phase(0)
