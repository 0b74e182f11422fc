package wire

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"runtime/debug"
	"sync"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/sandpiper-mcp/sandpiper/internal/fault"
	"github.com/sandpiper-mcp/sandpiper/internal/privacy/redact"
)

// Resources are data that a client can list, read and subscribe to. They are requested
// each time, because they change and depend on the caller, as in Call. An error other
// than Refused is logged.
type Resources struct {
	Templates []Template
	Scope     string // a caller without it cannot use resources; "" means none is needed
	// List returns a redacted Listing. The cursor is empty or the Next of the previous
	// page.
	List func(ctx context.Context, caller, cursor string) (redact.Redacted, error)
	// Read returns a redacted Content.
	Read func(ctx context.Context, caller, uri string) (redact.Redacted, error)
	// Versions returns for each URI a string that changes with the result of Read, and
	// "" if it cannot be read now. It is polled while there are subscriptions, and
	// rejects only URIs that can never be read.
	Versions func(ctx context.Context, caller string, uris []string) ([]string, error)
	// Every is the polling interval of subscriptions; 0 means one second.
	Every time.Duration
	// MaxSubscriptions limits the subscriptions per connection; a caller may have ten
	// times as many. 0 means 100.
	MaxSubscriptions int
}

// Template is a URI template.
type Template struct {
	URI         string // RFC 6570
	Name        string
	Description string
	MIME        string // if all have the same; otherwise empty
}

// Listing is one page of a list.
type Listing struct {
	Resources []Resource `json:"resources"`
	Next      string     `json:"nextCursor,omitempty"` // empty on the last page
}

// Resource is one entry of a list.
type Resource struct {
	URI         string `json:"uri"`
	Name        string `json:"name"`
	Description string `json:"description,omitempty"`
	MIME        string `json:"mimeType,omitempty"`
	Size        int64  `json:"size,omitempty"` // in bytes; 0 means unknown
}

// Content is the content of a resource: text or bytes.
type Content struct {
	URI  string  `json:"uri"`
	MIME string  `json:"mimeType,omitempty"`
	Text *string `json:"text,omitempty"` // nil for bytes
	Blob []byte  `json:"blob,omitempty"`
}

// Refused is the error of an invalid request.
type Refused struct {
	Missing bool            // the resource does not exist
	Reason  redact.Redacted // one sentence
}

func (r *Refused) Error() string { return "the request for a resource was refused" }

// codeMissing is the code of a missing resource before 2026-07-28; since then it is
// jsonrpc.CodeInvalidParams (SEP-2164).
const codeMissing = -32002

// maxEchoed limits a URI that is repeated in an error.
const maxEchoed = 4096

// subscriptions notifies the clients of one SDK server of changes. The SDK's ResourceUpdated notifies
// all subscribers of a URI, which would cross tenants. So subscriptions sends notifications itself.
type subscriptions struct {
	*Resources
	authn    authenticator
	askScope string // as Config.AskScope
	log      *slog.Logger
	alive    context.Context   // of all subscriptions, which outlive the requests that open them
	end      func()            // ends alive
	send     mcp.MethodHandler // sends a notification to one connection

	mu      sync.Mutex
	closed  bool
	conns   map[*mcp.ServerSession]int               // number of subscriptions per connection
	callers map[string]int                           // and per caller
	older   map[*mcp.ServerSession]map[string]func() // ends a subscription before 2026-07-28, by URI
	tools   map[*mcp.ServerSession]*toolsWatch
	running sync.WaitGroup // polling loops
}

func (s *Server) subscriptions(alive context.Context, authn authenticator, server *mcp.Server) *subscriptions {
	alive, end := context.WithCancel(alive)
	o := &subscriptions{
		Resources: s.cfg.Resources,
		authn:     authn,
		askScope:  s.cfg.AskScope,
		log:       s.cfg.Log,
		alive:     alive,
		end:       end,
		conns:     map[*mcp.ServerSession]int{},
		callers:   map[string]int{},
		older:     map[*mcp.ServerSession]map[string]func(){},
		tools:     map[*mcp.ServerSession]*toolsWatch{},
	}
	server.AddSendingMiddleware(o.sending)
	if o.Resources != nil {
		server.AddReceivingMiddleware(resourceMethods{o}.receiving)
	}
	return o
}

// declare declares the capabilities in opts.
func (r *Resources) declare(opts *mcp.ServerOptions) {
	opts.Capabilities.Resources = &mcp.ResourceCapabilities{Subscribe: true}
	// The SDK acknowledges a subscription since 2026-07-28 only if there are
	// handlers; subscriptions sends the notifications.
	opts.SubscribeHandler = func(context.Context, *mcp.SubscribeRequest) error { return nil }
	opts.UnsubscribeHandler = func(context.Context, *mcp.UnsubscribeRequest) error { return nil }
}

// resourceMethods answers requests for resources. The SDK's own lists are the same for all clients.
type resourceMethods struct{ *subscriptions }

// receiving handles the methods of resources.
func (o resourceMethods) receiving(next mcp.MethodHandler) mcp.MethodHandler {
	return func(ctx context.Context, method string, req mcp.Request) (_ mcp.Result, err error) {
		defer o.contain(method, &err)
		switch r := req.(type) {
		case *mcp.ListResourcesRequest:
			return o.list(ctx, r)
		case *mcp.ListResourceTemplatesRequest:
			return o.templates(), nil
		case *mcp.ReadResourceRequest:
			return o.read(ctx, r)
		case *mcp.SubscribeRequest:
			return o.subscribe(ctx, r)
		case *mcp.UnsubscribeRequest:
			return o.unsubscribe(r)
		case *mcp.SubscriptionsListenRequest:
			return o.listen(ctx, r, next)
		}
		return next(ctx, method, req)
	}
}

// contain converts a panic to an error, so that one request cannot end the others.
func (o *subscriptions) contain(method string, err *error) {
	if p := recover(); p != nil {
		o.log.Error("request failed", "method", method, "error", fmt.Errorf("panic: %v\n%s", p, debug.Stack()))
		*err = errInternal
	}
}

// errInternal is the answer after an internal error. It contains nothing of the request.
var errInternal = &jsonrpc.Error{Code: jsonrpc.CodeInternalError, Message: fault.Message(errors.New(""))}

func (o resourceMethods) list(ctx context.Context, r *mcp.ListResourcesRequest) (mcp.Result, error) {
	cursor := ""
	if r.Params != nil {
		cursor = r.Params.Cursor
	}
	redacted, err := o.List(ctx, o.authn.callerOf(ctx, r), cursor)
	if err != nil {
		return nil, o.refuse(r, "", err)
	}
	res, err := open[mcp.ListResourcesResult](redacted)
	if err != nil {
		return nil, o.refuse(r, "", err)
	}
	if res.Resources == nil {
		res.Resources = []*mcp.Resource{} // not null
	}
	res.CacheScope = private
	return res, nil
}

func (o resourceMethods) templates() mcp.Result {
	res := &mcp.ListResourceTemplatesResult{ResourceTemplates: []*mcp.ResourceTemplate{}}
	res.CacheScope = private
	for _, t := range o.Templates {
		res.ResourceTemplates = append(res.ResourceTemplates,
			&mcp.ResourceTemplate{URITemplate: t.URI, Name: t.Name, Description: t.Description, MIMEType: t.MIME})
	}
	return res
}

// readResult is the SDK's result with resultType complete since 2026-07-28, which a
// middleware cannot set, and with empty text as text.
type readResult struct {
	mcp.ResultBase
	mcp.Cacheable
	ResultType string            `json:"resultType,omitempty"`
	Contents   []json.RawMessage `json:"contents"`
}

func (o resourceMethods) read(ctx context.Context, r *mcp.ReadResourceRequest) (mcp.Result, error) {
	redacted, err := o.Read(ctx, o.authn.callerOf(ctx, r), r.Params.URI)
	if err != nil {
		return nil, o.refuse(r, r.Params.URI, err)
	}
	content, err := open[json.RawMessage](redacted)
	if err != nil {
		return nil, o.refuse(r, r.Params.URI, err)
	}
	if n := redacted.Neutralized(); n > 0 {
		if *content, err = addMeta(*content, changedText(n)); err != nil {
			return nil, o.refuse(r, r.Params.URI, err)
		}
	}
	res := &readResult{Contents: []json.RawMessage{*content}}
	res.CacheScope = private
	if r.ProtocolVersion() >= stateless {
		res.ResultType = "complete"
	}
	return res, nil
}

// changedText is the _meta of a result, or of contents, whose text was changed in n places.
func changedText(n int) mcp.Meta { return mcp.Meta{"neutralized": n, "as_it_is": redact.Changed} }

// addMeta returns an object with a _meta that it lacks.
func addMeta(object json.RawMessage, meta mcp.Meta) (json.RawMessage, error) {
	members := map[string]json.RawMessage{}
	if err := json.Unmarshal(object, &members); err != nil {
		return nil, err
	}
	text, err := json.Marshal(meta)
	if err != nil {
		return nil, err
	}
	members["_meta"] = text
	return json.Marshal(members)
}

// open parses redacted JSON. Listing and Content have the protocol's keys.
func open[T any](redacted redact.Redacted) (*T, error) {
	text, _, _, err := redacted.Content()
	if err != nil {
		return nil, err
	}
	v := new(T)
	return v, json.Unmarshal([]byte(text), v)
}

// refuse returns the protocol error of err.
func (o *subscriptions) refuse(r mcp.Request, uri string, err error) error {
	refused, ok := errors.AsType[*Refused](err)
	if !ok {
		if !errors.Is(err, context.Canceled) {
			o.log.Error("request for a resource failed", "error", err)
		}
		return errInternal
	}
	reason, _, _, err := refused.Reason.Content()
	if err != nil {
		o.log.Error("request for a resource failed", "error", err)
		return errInternal
	}
	e := invalidParams(reason, uri)
	if v, ok := r.(interface{ ProtocolVersion() string }); refused.Missing && uri != "" && ok && v.ProtocolVersion() < stateless {
		e.Code = codeMissing
	}
	return e
}

// refuseParams is refuse for a method whose missing URI is an invalid parameter in all
// revisions.
func (o *subscriptions) refuseParams(r mcp.Request, uri string, err error) error {
	refusal := o.refuse(r, uri, err)
	if e, ok := errors.AsType[*jsonrpc.Error](refusal); ok && e.Code == codeMissing {
		return invalidParams(e.Message, uri)
	}
	return refusal
}

// invalidParams returns the protocol error for a URI that cannot be used.
func invalidParams(reason, uri string) *jsonrpc.Error {
	e := &jsonrpc.Error{Code: jsonrpc.CodeInvalidParams, Message: reason}
	if uri != "" && len(uri) <= maxEchoed {
		e.Data, _ = json.Marshal(map[string]string{"uri": uri})
	}
	return e
}
