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

// Resources are what a client can list, read and hear of: data beside the
// tools. They are asked for at each request, since what there is changes and
// depends on the caller, which is that of Call. An error that is no Refused is
// for the log.
type Resources struct {
	Templates []Template
	// List returns a Listing, sealed. The cursor is empty or the Next of the
	// page before.
	List func(ctx context.Context, caller, cursor string) (redact.Redacted, error)
	// Read returns a Content, sealed.
	Read func(ctx context.Context, caller, uri string) (redact.Redacted, error)
	// Versions returns for each URI a text that is another one after what Read
	// returns has changed, and "" for what cannot be read now. It is asked again
	// and again while somebody has subscribed, and refuses only URIs that can
	// never be read.
	Versions func(ctx context.Context, caller string, uris []string) ([]string, error)
	// Every is how often subscribed resources are looked at, and so how often a
	// subscriber can be told of one; zero means every second.
	Every time.Duration
	// MaxSubscriptions bounds those of one connection, and ten times as many are
	// the most of a caller; zero means 100.
	MaxSubscriptions int
}

// Template is a form of URI.
type Template struct {
	URI         string // RFC 6570
	Name        string
	Description string
	MIME        string // if all of them have the same; else empty
}

// Listing is one page of a list.
type Listing struct {
	Resources []Resource `json:"resources"`
	Next      string     `json:"nextCursor,omitempty"` // empty on the last
}

// Resource is one line of a list.
type Resource struct {
	URI         string `json:"uri"`
	Name        string `json:"name"`
	Description string `json:"description,omitempty"`
	MIME        string `json:"mimeType,omitempty"`
	Size        int64  `json:"size,omitempty"` // in bytes; zero is unknown
}

// Content is what a resource holds: text, or bytes that are no text.
type Content struct {
	URI  string  `json:"uri"`
	MIME string  `json:"mimeType,omitempty"`
	Text *string `json:"text,omitempty"` // nil if it is no text
	Blob []byte  `json:"blob,omitempty"`
}

// Refused is the error of a request that the client could have put better.
type Refused struct {
	Missing bool            // there is no such resource
	Reason  redact.Redacted // one sentence
}

func (r *Refused) Error() string { return "the request for a resource was refused" }

// codeMissing is what the older era says of a resource that is not there; the
// newer one says jsonrpc.CodeInvalidParams (SEP-2164).
const codeMissing = -32002

// maxEchoed bounds a URI that is sent back with an error.
const maxEchoed = 4096

// offer is the resources of one SDK server. The SDK's own lists are the same
// for everybody, and its ResourceUpdated tells all who subscribed to a URI: both
// would cross tenants. So requests are answered, and connections told, by us.
type offer struct {
	*Resources
	who   callers
	log   *slog.Logger
	alive context.Context   // that of all subscriptions
	end   func()            // ends alive
	send  mcp.MethodHandler // a notification to one connection

	mu      sync.Mutex
	closed  bool
	conns   map[*mcp.ServerSession]int               // subscriptions of each connection
	callers map[string]int                           // and of each caller
	older   map[*mcp.ServerSession]map[string]func() // ends one of the older era, by URI
	running sync.WaitGroup                           // looks
}

func (s *Server) offer(alive context.Context, who callers, server *mcp.Server) *offer {
	alive, end := context.WithCancel(alive)
	o := &offer{Resources: s.cfg.Resources, who: who, log: s.cfg.Log, alive: alive, end: end,
		conns: map[*mcp.ServerSession]int{}, callers: map[string]int{}, older: map[*mcp.ServerSession]map[string]func(){}}
	if o.Resources != nil {
		server.AddSendingMiddleware(o.sending)
		server.AddReceivingMiddleware(o.receiving)
	}
	return o
}

// declare says in opts what clients may ask for.
func (r *Resources) declare(opts *mcp.ServerOptions) {
	opts.Capabilities.Resources = &mcp.ResourceCapabilities{Subscribe: true}
	// The SDK acknowledges a subscription of the newer era only if there are
	// handlers; who is told is settled by an offer.
	opts.SubscribeHandler = func(context.Context, *mcp.SubscribeRequest) error { return nil }
	opts.UnsubscribeHandler = func(context.Context, *mcp.UnsubscribeRequest) error { return nil }
}

// receiving answers what is about resources.
func (o *offer) receiving(next mcp.MethodHandler) mcp.MethodHandler {
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

// contain turns a panic into an error, since one broken request must not end
// those of everybody else.
func (o *offer) contain(method string, err *error) {
	if p := recover(); p != nil {
		o.log.Error("request failed", "method", method, "error", fmt.Errorf("panic: %v\n%s", p, debug.Stack()))
		*err = errInternal
	}
}

// errInternal is the answer when there is none. It holds nothing of the request.
var errInternal = &jsonrpc.Error{Code: jsonrpc.CodeInternalError, Message: fault.Message(errors.New(""))}

func (o *offer) list(ctx context.Context, r *mcp.ListResourcesRequest) (mcp.Result, error) {
	cursor := ""
	if r.Params != nil {
		cursor = r.Params.Cursor
	}
	sealed, err := o.List(ctx, o.who.of(ctx, r), cursor)
	if err != nil {
		return nil, o.refuse(r, "", err)
	}
	res, err := open[mcp.ListResourcesResult](sealed)
	if err != nil {
		return nil, o.refuse(r, "", err)
	}
	if res.Resources == nil {
		res.Resources = []*mcp.Resource{} // not null
	}
	res.CacheScope = private
	return res, nil
}

func (o *offer) templates() mcp.Result {
	res := &mcp.ListResourceTemplatesResult{ResourceTemplates: []*mcp.ResourceTemplate{}}
	res.CacheScope = private
	for _, t := range o.Templates {
		res.ResourceTemplates = append(res.ResourceTemplates,
			&mcp.ResourceTemplate{URITemplate: t.URI, Name: t.Name, Description: t.Description, MIMEType: t.MIME})
	}
	return res
}

// readResult is the SDK's, except that it says of itself in the newer era that
// it is complete, which a middleware cannot make the SDK's say, and that an empty
// text is a text.
type readResult struct {
	mcp.ResultBase
	mcp.Cacheable
	ResultType string            `json:"resultType,omitempty"`
	Contents   []json.RawMessage `json:"contents"`
}

func (o *offer) read(ctx context.Context, r *mcp.ReadResourceRequest) (mcp.Result, error) {
	sealed, err := o.Read(ctx, o.who.of(ctx, r), r.Params.URI)
	if err != nil {
		return nil, o.refuse(r, r.Params.URI, err)
	}
	content, err := open[json.RawMessage](sealed)
	if err != nil {
		return nil, o.refuse(r, r.Params.URI, err)
	}
	res := &readResult{Contents: []json.RawMessage{*content}}
	res.CacheScope = private
	if r.ProtocolVersion() >= stateless {
		res.ResultType = "complete"
	}
	return res, nil
}

// open reads sealed JSON. Listing and Content have the protocol's keys, so that
// no more is to be done with them.
func open[T any](sealed redact.Redacted) (*T, error) {
	text, _, _, err := sealed.Content()
	if err != nil {
		return nil, err
	}
	v := new(T)
	return v, json.Unmarshal([]byte(text), v)
}

// refuse is the protocol's error for err.
func (o *offer) refuse(r mcp.Request, uri string, err error) error {
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
	e := &jsonrpc.Error{Code: jsonrpc.CodeInvalidParams, Message: reason}
	if v, ok := r.(interface{ ProtocolVersion() string }); refused.Missing && uri != "" && ok && v.ProtocolVersion() < stateless {
		e.Code = codeMissing
	}
	if uri != "" && len(uri) <= maxEchoed {
		e.Data, _ = json.Marshal(map[string]string{"uri": uri})
	}
	return e
}
