// Package openapi calls HTTP APIs described by OpenAPI documents. Each operation becomes
// a tool.
//
// A Source configures an API: its document, base URL, credentials, and the operations to
// include. Open reads an OpenAPI 3.0 or 3.1 document in JSON or YAML, with the files
// that it references; errors name file, line and JSON pointer. An API keeps the operations
// in a compact form and not the document.
//
// A call builds one request from the arguments, checks its target, and converts the
// response to a result. Credentials are resolved for each call. They are sent only to
// the API's host and to hosts listed by the operator; a redirect from one host to another
// is followed without them, if at all.
//
// An API is safe for concurrent use. Between calls it keeps the operations, which it reads
// again when a file has changed, and an access token. It applies no policy, validates only
// what the request needs, and does not use MCP.
package openapi

import (
	"cmp"
	"context"
	"log/slog"
	"net/http"
	"sync"
	"time"

	"github.com/sandpiper-mcp/sandpiper/internal/fault"
	"github.com/sandpiper-mcp/sandpiper/internal/tool"
)

// Source is the configuration of an API. Config.Resolve resolves the references in its URLs,
// headers and credentials each time they are used.
type Source struct {
	Document  string            `key:"openapi"`            // path or URL of the document. Required
	URL       string            `key:"url" form:"address"` // base URL; "" means the server in the document
	Server    string            `key:"server"`             // selects a server of the document by its description or URL; "" means the first
	Variables map[string]string `key:"variables"`          // of that server's URL; override the defaults in the document
	Hosts     []string          `key:"hosts"`              // further hosts to which calls may be sent, with the same credentials
	Headers   map[string]string `key:"headers"`            // sent with each call
	Auth      Auth              `key:"auth"`
	Include   Filter            `key:"include"` // operations to include; the zero value means all
	Exclude   Filter            `key:"exclude"` // operations to exclude
}

// Auth contains the credentials of a call. Those that are nil or "" are not sent.
type Auth struct {
	Bearer string             `key:"bearer" form:"secret"` // token of an Authorization header
	Basic  *Basic             `key:"basic"`                // of an Authorization header
	Key    *APIKey            `key:"key"`                  // in a header, the query or a cookie
	Client *ClientCredentials `key:"client_credentials"`   // obtain the token of an Authorization header
}

// Basic is a user name and password.
type Basic struct {
	User     string `key:"username"`
	Password string `key:"password" form:"secret"`
}

// APIKey is an API key.
type APIKey struct {
	In    string `key:"in" allow:"header query cookie"` // "" means as in the document
	Name  string `key:"name"`                           // "" means as in the document
	Value string `key:"value" form:"secret"`
}

// Check returns an error for a key that is not complete. The error continues a sentence, as that of
// ClientCredentials.Check.
func (k *APIKey) Check() error {
	switch {
	case (k.In == "") != (k.Name == ""):
		return fault.New(fault.Invalid, "must hold both in and name, or neither: then the document says them")
	case k.Value == "":
		return fault.New(fault.Invalid, "has no value")
	}
	return nil
}

// ClientCredentials are OAuth 2 client credentials.
type ClientCredentials struct {
	TokenURL string   `key:"token_url" form:"address"` // "" means the URL in the document
	ID       string   `key:"client_id"`
	Secret   string   `key:"client_secret" form:"secret"`
	Scopes   []string `key:"scopes"`
	Audience string   `key:"audience"` // audience parameter, for servers that require it; "" sends none
}

// Check returns an error for credentials that are not complete.
func (c *ClientCredentials) Check() error {
	switch {
	case c.ID == "":
		return fault.New(fault.Invalid, "has no client_id")
	case c.Secret == "":
		return fault.New(fault.Invalid, "has no client_secret")
	}
	return nil
}

// Config of an API.
type Config struct {
	Source
	// Resolve resolves the references in a string of Source, which what names for errors,
	// such as "auth.bearer"; a value that it changes is a secret. nil means that strings
	// are used as they are.
	Resolve func(ctx context.Context, what, value string) (string, error)
	// OnSecret is called with every secret that is derived or obtained, so that messages
	// redact it; nil ignores them.
	OnSecret func(secret string)
	// ToolsChanged is called when a call has found a changed document on disk and read it
	// again. It must not block; nil ignores changes.
	ToolsChanged func()
	CacheDir     string       // directory for copies of downloaded documents; "" keeps none
	UserAgent    string       // User-Agent header; "" means sandpiper
	MaxResponse  int          // bytes of one response; 0 means 32 MiB
	Log          *slog.Logger // nil discards
}

// Info is the description of the API in its document.
type Info struct {
	Title       string
	Version     string
	Description string
	Protocol    string // such as "OpenAPI 3.0.3"
}

// API is an opened API.
type API struct {
	cfg    Config
	client *http.Client
	tokens tokenCache
	done   chan struct{}
	closed sync.Once

	mu       sync.Mutex
	compiled *compiled
}

// compiled is the information for calls, extracted from a document.
type compiled struct {
	info       Info
	operations map[string]*operation // by tool name
	order      []*operation          // by name
	notes      []string              // omitted operations
	base       string                // URL of the selected server; "" if Source.URL is set
	key        *APIKey               // API key scheme in the document; nil if not needed
	tokenURL   string                // of the client credentials flow in the document
	files      fileStamps            // of files read; empty for downloads
	read       time.Time             // time of reading
}

// Open reads the document and returns the API.
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

// Info returns the description of the API.
func (a *API) Info() Info {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.compiled.info
}

// documentTTL is the age from which Tools downloads a document again. Calls use it at any
// age.
const documentTTL = 10 * time.Second

// Tools returns the operations as tools of server. notes describe omitted operations. It
// reads the document again if it may have changed.
func (a *API) Tools(ctx context.Context, server string) (tools []tool.Definition, notes []string, err error) {
	a.mu.Lock()
	doc := a.compiled
	a.mu.Unlock()
	if doc.files.changed() || len(doc.files) == 0 && time.Since(doc.read) > documentTTL {
		if doc, err = a.load(ctx); err != nil {
			return nil, nil, err
		}
		a.mu.Lock()
		a.compiled = doc
		a.mu.Unlock()
	}
	for _, op := range doc.order {
		d := op.definition
		d.Server = server
		tools = append(tools, d)
	}
	return tools, doc.notes, nil
}

// Call calls an operation. The error is a *tool.Failure if the API responded with an error,
// a *tool.NotSent if no request was sent, and otherwise a *fault.Error if no usable response was
// received.
func (a *API) Call(ctx context.Context, c tool.Call) (tool.Result, error) {
	doc, op, q, err := a.prepare(ctx, c)
	if err != nil {
		return tool.Result{}, &tool.NotSent{Err: err}
	}
	return a.send(ctx, doc, op, c.Ref, q)
}

// prepare builds the request of a call.
func (a *API) prepare(ctx context.Context, c tool.Call) (*compiled, *operation, *request, error) {
	doc, err := a.current(ctx)
	if err != nil {
		return nil, nil, nil, err
	}
	op := doc.operations[c.Tool]
	if op == nil {
		return nil, nil, nil, fault.New(fault.NotFound, "no longer has an operation %.100q", c.Tool).
			WithHint("its document has changed; run `sandpiper tools sync`")
	}
	args, err := decode(c.Args)
	if err != nil {
		return nil, nil, nil, err
	}
	q, err := op.request(args)
	if err != nil {
		return nil, nil, nil, err
	}
	for name, value := range c.Trace {
		q.headers = append(q.headers, pair{name, value})
	}
	q.hold = c.HoldResult
	return doc, op, q, nil
}

// current returns the compiled document, after reading a file that has changed.
func (a *API) current(ctx context.Context) (*compiled, error) {
	a.mu.Lock()
	doc := a.compiled
	a.mu.Unlock()
	if !doc.files.changed() {
		return doc, nil
	}
	doc, err := a.load(ctx)
	if err != nil {
		return nil, err
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.compiled = doc
	if a.cfg.ToolsChanged != nil {
		a.cfg.ToolsChanged()
	}
	return doc, nil
}

// Done returns a channel that Close closes. An API does not end by itself.
func (a *API) Done() <-chan struct{} { return a.done }

// Close closes idle connections. Calls in flight end with their contexts.
func (a *API) Close() {
	a.closed.Do(func() {
		close(a.done)
		a.client.CloseIdleConnections()
	})
}
