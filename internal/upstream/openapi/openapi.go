// Package openapi makes an HTTP API callable as its OpenAPI document describes
// it: each operation is a tool.
//
// A Source is what the operator says of an API: where its document lies, where it
// is called, with what credentials, and which operations are wanted. Open reads
// the document, of OpenAPI 3.0 or 3.1, in JSON or YAML, with the files it refers
// to; what cannot be understood is named with file, line and pointer. An API
// holds what a call needs, and nothing more of the document: a document of
// thousands of operations is read whole, and let go.
//
// A call makes one request from the arguments, checks where it goes, and turns
// the answer into a result; credentials are looked up when it is made, and go
// to the API's own host and to those the operator names, also when somebody
// redirects.
//
// An API is safe for concurrent use. It decides nothing about calls, validates
// no more than the request needs, keeps no state between calls but a token that
// it was given for its credentials, and knows nothing of MCP.
package openapi

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"net/http"
	"sync"
	"time"

	"github.com/sandpiper-mcp/sandpiper/internal/fault"
	"github.com/sandpiper-mcp/sandpiper/internal/tool"
)

// Source is an API as the operator wants it. Texts go through Config.Resolve
// when they are needed, not before.
type Source struct {
	Document  string            // path or URL of the document. Required
	URL       string            // where the API is called; "" means the server that the document names
	Server    string            // which of the document's servers: its description or its URL as written; "" means the first
	Variables map[string]string // of that server's URL; the document has defaults
	Hosts     []string          // other hosts that operations may be called at, with the same credentials
	Headers   map[string]string // sent with each call
	Auth      Auth
	Include   Filter // operations that are wanted; the zero value means all
	Exclude   Filter // operations that are not
}

// Auth is how a call shows who makes it; what is nil or "" is not shown.
type Auth struct {
	Bearer string             // token of an Authorization header
	Basic  *Basic             //
	Key    *APIKey            //
	Client *ClientCredentials // a token is asked for with these
}

// Basic is a name with a password.
type Basic struct{ User, Password string }

// Key is a secret that is sent under a name.
type APIKey struct {
	In    string // header, query or cookie; "" means where the document says
	Name  string // "" means as the document says
	Value string
}

// Client are the client credentials of OAuth 2.
type ClientCredentials struct {
	TokenURL string // "" means the one of the document
	ID       string
	Secret   string
	Scopes   []string
	Audience string // sent along, for servers that ask for it; "" means not
}

// Config of an API.
type Config struct {
	Source
	// Resolve turns a text of Source into what is meant; what it changes is a
	// secret. nil means that texts are what they say.
	Resolve func(ctx context.Context, what, value string) (string, error)
	// Hide is told of a secret that was made or given on the way, so that no message
	// shows it; nil means that nobody asks.
	OnSecret func(secret string)
	// Changed is told that the document on disk became another one. It has to
	// return soon; nil means that nobody asks.
	ToolsChanged func()
	CacheDir     string       // directory for copies of documents from URLs; "" means that none is kept
	UserAgent    string       // who we say we are; "" means sandpiper
	MaxResponse  int          // bytes of one answer; 0 means 32 MiB
	Log          *slog.Logger // nil discards
}

// Info is what a document says of its API.
type Info struct {
	Title       string
	Version     string
	Description string
	Protocol    string // "OpenAPI 3.0.3"
}

// API is one that can be called.
type API struct {
	cfg    Config
	client *http.Client
	tokens tokenCache
	done   chan struct{}
	closed sync.Once

	mu       sync.Mutex
	compiled *compiled
}

// api is what was made of a document.
type compiled struct {
	info       Info
	operations map[string]*operation // by the name of the tool
	order      []*operation          // by name
	notes      []string              // what was left out
	base       string                // URL of the server that is chosen; "" where the configuration says it
	key        *APIKey               // how the document wants its key; nil if that is not asked
	tokenURL   string                // of the document's client credentials
	files      fileStamps            // of what was read; empty for what was downloaded
	read       time.Time             // when
}

// ErrTooLarge says that an answer has more bytes than are taken.
var ErrTooLarge = errors.New("the answer is too large")

// Open reads the document.
func Open(ctx context.Context, cfg Config) (*API, error) {
	if cfg.Log == nil {
		cfg.Log = slog.New(slog.DiscardHandler)
	}
	if cfg.Resolve == nil {
		cfg.Resolve = func(_ context.Context, _, value string) (string, error) { return value, nil }
	}
	if cfg.OnSecret == nil {
		cfg.OnSecret = func(string) {}
	}
	cfg.MaxResponse = cmp.Or(cfg.MaxResponse, 32<<20)
	cfg.UserAgent = cmp.Or(cfg.UserAgent, "sandpiper")
	a := &API{cfg: cfg, done: make(chan struct{}), tokens: tokenCache{lock: make(chan struct{}, 1)}}
	a.client = &http.Client{Transport: http.DefaultTransport.(*http.Transport).Clone(), CheckRedirect: a.checkRedirect}
	var err error
	if a.compiled, err = a.load(ctx); err != nil {
		a.Close()
		return nil, err
	}
	return a, nil
}

// Info is what the document says of the API.
func (a *API) Info() Info {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.compiled.info
}

// fresh is how long a document from a URL is taken as it was.
const documentTTL = 10 * time.Second

// Tools are the operations, as tools of server. Notes say what was left out and
// why. A document that may have changed is read again.
func (a *API) Tools(ctx context.Context, server string) (tools []tool.Definition, notes []string, err error) {
	a.mu.Lock()
	now := a.compiled
	a.mu.Unlock()
	if now.files.changed() || len(now.files) == 0 && time.Since(now.read) > documentTTL {
		if now, err = a.load(ctx); err != nil {
			return nil, nil, err
		}
		a.mu.Lock()
		a.compiled = now
		a.mu.Unlock()
	}
	for _, op := range now.order {
		d := op.definition
		d.Server = server
		tools = append(tools, d)
	}
	return tools, now.notes, nil
}

// Call calls an operation. An answer that says that it failed gives a
// *tool.Failure; a *fault.Error says why nothing was asked or answered.
func (a *API) Call(ctx context.Context, c tool.Call) (tool.Result, error) {
	now, err := a.current(ctx)
	if err != nil {
		return tool.Result{}, err
	}
	op := now.operations[c.Tool]
	if op == nil {
		return tool.Result{}, fault.New(fault.NotFound, "has no operation %.100q any more", c.Tool).
			WithHint("its document has changed; `sandpiper tools sync` reads it")
	}
	args, err := decode(c.Args)
	if err != nil {
		return tool.Result{}, err
	}
	q, err := op.request(args)
	if err != nil {
		return tool.Result{}, err
	}
	for name, value := range c.Trace {
		q.headers = append(q.headers, pair{name, value})
	}
	return a.send(ctx, now, op, c.Ref, q)
}

// current is what the document says; one on disk that has changed is read again.
func (a *API) current(ctx context.Context) (*compiled, error) {
	a.mu.Lock()
	now := a.compiled
	a.mu.Unlock()
	if !now.files.changed() {
		return now, nil
	}
	now, err := a.load(ctx)
	if err != nil {
		return nil, err
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.compiled = now
	if a.cfg.ToolsChanged != nil {
		a.cfg.ToolsChanged()
	}
	return now, nil
}

// Done is closed by Close: nothing else ends an API.
func (a *API) Done() <-chan struct{} { return a.done }

// Close lets go of connections. Calls under way end with their contexts.
func (a *API) Close() {
	a.closed.Do(func() {
		close(a.done)
		a.client.CloseIdleConnections()
	})
}
