// Package upstream manages connections to tool servers. It starts each server on first
// use, stops it when idle, and reports its state.
//
// What a server is and how to connect to it is its Kind. Those of this package speak MCP: a
// local program over stdio, a URL over HTTP, and a server in this process. Packages that
// import this one add others: the requests of code to hosts that the operator allows, with a
// tool for each method, and APIs of features.
//
// A server is stopped, starting, ready or failed. A failed server is retried after a
// delay that doubles; a call during the delay fails immediately. A program that crashes
// after it has served calls is restarted by the next call. Servers do not block each
// other, and no failure of a server ends the daemon.
//
// Subpackages: process runs programs, mcp speaks the protocol and is the only one that
// imports the SDK, spool keeps large answers, sanitize makes foreign text safe to display,
// urlpath reads the paths of URLs as servers do. network sends the requests of code, and contains a Kind.
//
// A Set is safe for concurrent use. It does not evaluate policy, validate arguments,
// detect personal data, write the journal or keep a catalog: wrappers and packages above
// do that. Text from servers is bounded and contains no terminal escape sequences, but
// remains untrusted.
package upstream

import (
	"cmp"
	"context"
	"encoding/json"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/sandpiper-mcp/sandpiper/internal/store/secret"
	"github.com/sandpiper-mcp/sandpiper/internal/tool"
	"github.com/sandpiper-mcp/sandpiper/internal/upstream/mcp"
	"github.com/sandpiper-mcp/sandpiper/internal/upstream/spool"
)

// Server is the configuration of one server.
type Server struct {
	Name string
	Kind Kind

	Timeout time.Duration // of a call, without waiting time before it is sent; 0 means 60 s
	// ProgressTimeout is that of a call whose server reports progress, which restarts Timeout; 0
	// means five times Timeout.
	ProgressTimeout time.Duration
	StartTimeout    time.Duration // for becoming ready; 0 means 60 s
	Idle            time.Duration // stopped after this time without a call; 0 means 5 min, negative means never
	Concurrency     int           // concurrent calls; further calls wait; 0 means 8
	Legacy          bool          // Info.Legacy of the last connection
	Identity        string        // returned with listings; not used otherwise
	Revision        string        // changes with the values of the references, so that Update restarts the server; not used otherwise
}

// Config of a Set.
type Config struct {
	Servers []Server
	// Resolve resolves references in a string of a Kind. It is called each time a connection starts. A value that it changes is a
	// secret and is redacted in errors, states and logs. nil means that values are used as
	// they are.
	Resolve func(ctx context.Context, value string) (string, error)
	// Redact removes personal data from the stderr of programs, which belongs to no tenant;
	// nil keeps it.
	Redact func(string) string
	// Logins stores OAuth logins, shared by all processes that open it. nil disables
	// logins.
	Logins *secret.Store
	// ToolsChanged is called when the tools of a server have changed or may have changed:
	// also after the first call over a connection on which they were not listed. It may
	// call the Set, but not Close; nil ignores changes.
	ToolsChanged func(ctx context.Context, server string)
	// Started is called after each attempt to start a server, with its error, and when a connection
	// has failed; nil means not. It must not call the Set.
	Started         func(s Server, err error)
	DocumentCache   string        // directory for copies of downloaded documents; "" keeps none
	Client, Version string        // client name and version sent to servers; "" means sandpiper, and no version
	MaxResponse     int           // bytes of one response in memory; 0 means 32 MiB
	Spool           string        // directory for larger answers while they are received; "" refuses them
	SpoolBytes      int64         // of all those answers together; 0 means 1 GiB
	RetryDelay      time.Duration // before the first retry of a failed server; doubles up to 5 min; 0 means 1 s
	Log             *slog.Logger  // nil discards
}

// Types of package mcp that appear in this API.
type (
	Info     = mcp.Info
	Resource = mcp.Resource
	Prompt   = mcp.Prompt
	Message  = mcp.Message

	Completion = mcp.Completion
	Values     = mcp.Values
)

// Listing describes a server and all its tools.
type Listing struct {
	Info  Info              `json:"info"`
	Tools []tool.Definition `json:"tools"`
	Notes []string          `json:"notes,omitempty"` // what was omitted and why

	Identity string `json:"-"` // of the Server that was listed
}

// Set holds all upstream servers. It implements tool.Caller.
type Set struct {
	*common
	resolved bool // there are no references, so that servers can be checked before they are started

	mu      sync.Mutex
	servers map[string]*server
	retired map[*server]bool // removed or replaced, until their last call has ended
}

// common is what the servers of a Set share.
type common struct {
	*background
	cfg         Config
	listChanges mcp.ListChanges
	spool       *spool.Spool
}

// New returns a Set. It starts no server.
func New(cfg Config) (*Set, error) {
	cfg.Log = cmp.Or(cfg.Log, slog.New(slog.DiscardHandler))
	cfg.Client = cmp.Or(cfg.Client, "sandpiper")
	cfg.RetryDelay = cmp.Or(cfg.RetryDelay, time.Second)
	resolved := cfg.Resolve == nil
	if resolved {
		cfg.Resolve = func(_ context.Context, value string) (string, error) { return value, nil }
	}
	if err := checkServers(cfg.Servers, resolved); err != nil {
		return nil, err
	}
	s := &Set{common: &common{background: newBackground(), cfg: cfg}, resolved: resolved, retired: map[*server]bool{}}
	if cfg.Spool != "" {
		s.spool = &spool.Spool{Dir: cfg.Spool, Max: cmp.Or(cfg.SpoolBytes, 1<<30)}
	}
	s.servers, _ = s.merge(cfg.Servers)
	return s, nil
}

// Call implements tool.Caller. It calls a tool and starts its server if necessary.
// Progress is reported on the calling goroutine.
func (s *Set) Call(ctx context.Context, c tool.Call) (tool.Result, error) {
	var made attempts
	r, err := withSession(ctx, s, c.Server, "calling "+c.Tool, c.Starting, func(ctx callContext, on Session) (tool.Result, error) {
		v := ctx.server
		if v.markToolsRequested() { // the list may have changed since the last connection
			defer v.tools.notify()
		}
		own := c
		own.Progress = ctx.keepAlive(c.Progress)
		own.Ask = v.redact.pauseWhileAsking(ctx.limit, c.Ask)
		own.Hold = pauseWhileHolding(ctx.limit, c.Hold)
		own.Store = v.redact.storeWithoutSecrets(c.Store)
		r, err := callWhenReady(ctx, on, own)
		made.note(err)
		return v.redact.redactResult(r), err
	})
	return r, made.outcome(c.Ref, err)
}

// Check implements tool.Checker.
func (s *Set) Check(_ context.Context, c tool.Call) (destination string, err error) {
	v, done := s.use(c.Server)
	if v == nil {
		return "", nil
	}
	defer done()
	if k, ok := v.Kind.(checker); ok {
		return k.Check(c)
	}
	return "", nil
}

// List returns the description of a server and all its tools.
func (s *Set) List(ctx context.Context, server string) (Listing, error) {
	return withSession(ctx, s, server, "listing its tools", nil, func(ctx callContext, on Session) (Listing, error) {
		ctx.server.markToolsRequested()
		tools, notes, err := on.Tools(ctx, server)
		for _, note := range notes {
			s.cfg.Log.Warn("a tool definition of an upstream server was changed or omitted", "server", server, "note", note)
		}
		return Listing{Info: on.Info(), Tools: tools, Notes: notes, Identity: ctx.server.Identity}, err
	})
}

// ListResources returns all resources and resource templates of a server.
func (s *Set) ListResources(ctx context.Context, server string) ([]Resource, error) {
	return withMCPSession(ctx, s, server, "listing its resources", func(ctx callContext, on *mcp.Session) ([]Resource, error) {
		all, skipped, err := on.Resources(ctx)
		if skipped > 0 {
			s.cfg.Log.Warn("resources of an upstream server are left out of its list: they have no URI, or there are too many", "server",
				server, "resources", skipped)
		}
		return all, err
	})
}

// ReadResource returns the contents of a resource.
func (s *Set) ReadResource(ctx context.Context, server, uri string) ([]tool.Part, error) {
	return withMCPRequest(ctx, s, tool.Ref{Server: server, Tool: "resources/read"}, "reading a resource",
		func(ctx callContext, on *mcp.Session) ([]tool.Part, error) {
			parts, err := on.ReadResource(ctx, uri)
			return ctx.server.redact.redactResult(tool.Result{Parts: parts}).Parts, err
		})
}

// ListPrompts returns all prompts of a server.
func (s *Set) ListPrompts(ctx context.Context, server string) ([]Prompt, error) {
	return withMCPSession(ctx, s, server, "listing its prompts", func(ctx callContext, on *mcp.Session) ([]Prompt, error) {
		all, skipped, err := on.Prompts(ctx)
		if skipped > 0 {
			s.cfg.Log.Warn("prompts of an upstream server are left out of its list: they have no usable name, or there are too many",
				"server", server, "prompts", skipped)
		}
		return all, err
	})
}

// GetPrompt returns the messages of a prompt.
func (s *Set) GetPrompt(ctx context.Context, server, name string, args map[string]string) ([]Message, error) {
	return withMCPRequest(ctx, s, tool.Ref{Server: server, Tool: "prompts/get"}, "getting a prompt",
		func(ctx callContext, on *mcp.Session) ([]Message, error) {
			messages, err := on.GetPrompt(ctx, name, args)
			for i, m := range messages {
				messages[i].Part = ctx.server.redact.redactResult(tool.Result{Parts: []tool.Part{m.Part}}).Parts[0]
			}
			return messages, err
		})
}

// Complete returns completions for an argument of a prompt or resource template.
func (s *Set) Complete(ctx context.Context, server string, c Completion) (Values, error) {
	return withMCPSession(ctx, s, server, "completing an argument", func(ctx callContext, on *mcp.Session) (Values, error) {
		return on.Complete(ctx, c)
	})
}

// ListChanges counts the notifications of changed resource lists and changed prompt
// lists from all servers.
func (s *Set) ListChanges() (resources, prompts uint64) {
	return s.listChanges.Resources.Load(), s.listChanges.Prompts.Load()
}

// Close stops all servers and waits for them, for a few seconds at most. Calls in flight
// are cancelled.
func (s *Set) Close() {
	s.background.end()
	s.mu.Lock()
	servers := slices.AppendSeq(slices.Collect(maps.Values(s.servers)), maps.Keys(s.retired))
	s.mu.Unlock()
	var all sync.WaitGroup
	for _, v := range servers {
		all.Go(v.stop)
	}
	all.Wait()
	s.work.Wait()
}

func (s *Set) names() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Sorted(maps.Keys(s.servers))
}

var _ tool.Caller = (*Set)(nil)
var _ tool.Checker = (*Set)(nil)
var _ json.Marshaler = Phase(0)
