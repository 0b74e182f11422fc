package upstream

import (
	"context"
	"errors"
	"net/url"
	"slices"
	"strings"
	"sync"

	"github.com/sandpiper-mcp/sandpiper/internal/fault"
	"github.com/sandpiper-mcp/sandpiper/internal/upstream/mcp"
)

// Remote is the kind of an MCP server that is reached over HTTP.
type Remote struct {
	URL           string            // http or https
	Headers       map[string]string //
	Transport     string            // "http" or "sse"; "" means streamable HTTP with SSE as fallback
	Authorization Authorization     // obtains access tokens; nil means that there are none
}

// Noun implements Kind.
func (Remote) Noun() string { return "an MCP server with a URL" }

// Validate implements Kind.
func (r Remote) Validate() error {
	switch {
	case r.URL == "":
		return errNoAddress
	case r.Transport != "" && r.Transport != "http" && r.Transport != "sse":
		return fault.New(fault.Invalid, "has transport %q: use http or sse", r.Transport)
	}
	if r.Authorization != nil {
		if err := r.Authorization.Validate(); err != nil {
			return err
		}
	}
	u, err := url.Parse(r.URL)
	if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
		return fault.New(fault.Invalid, "has URL %.200q: it must begin with http:// or https://", hidePassword(r.URL))
	}
	return nil
}

func hidePassword(raw string) string {
	if i := strings.LastIndexByte(raw, '@'); i >= 0 {
		return "…" + raw[i:]
	}
	return raw
}

// Connector implements Kind.
func (r Remote) Connector(h *Host) Connector {
	c := &remote{Remote: r, host: h, initializeFirst: h.legacy}
	c.login.remote = c
	return c
}

// remote connects to a Remote.
type remote struct {
	Remote
	host  *Host
	login login

	mu              sync.Mutex
	initializeFirst bool // see mcp.Info.Legacy
	sseOnly         bool // supports only the SSE transport of 2024-11-05
}

// Open implements Connector.
func (r *remote) Open(ctx context.Context) (Session, error) {
	headers, err := r.resolveHeaders(ctx)
	if err != nil {
		return nil, err
	}
	at, err := r.resolveURL(ctx)
	if err != nil {
		return nil, err
	}
	tokens, err := r.login.tokens(ctx, at)
	if err != nil {
		return nil, err
	}
	return r.connect(ctx, mcp.Address{URL: at, Headers: headers, Tokens: tokens})
}

func (r *remote) resolveHeaders(ctx context.Context) (map[string]string, error) {
	headers, err := r.host.resolveAll(ctx, "header", r.Headers)
	for name, value := range headers {
		if value != r.Headers[name] || isSecretName(name) {
			r.host.redact.addSentHeader(value)
		}
	}
	return headers, err
}

func (r *remote) resolveURL(ctx context.Context) (string, error) {
	at := r.Remote
	var err error
	if at.URL, err = r.host.resolveURL(ctx, r.URL); err != nil {
		return "", unresolved("setting", "url", err)
	}
	if at.URL != r.URL {
		r.host.redact.addSecret(at.URL)
	}
	return at.URL, at.Validate()
}

// connect connects over streamable HTTP. If the first message is refused with status 400, 404 or
// 405, it falls back to the SSE transport of 2024-11-05.
func (r *remote) connect(ctx context.Context, a mcp.Address) (Session, error) {
	r.mu.Lock()
	a.Events = r.Transport == "sse" || r.sseOnly
	cfg := mcpConfig(r.host, r.initializeFirst)
	r.mu.Unlock()
	session, err := mcp.OpenHTTP(ctx, a, cfg)
	status, ok := errors.AsType[*mcp.StatusError](err)
	if ok && r.Transport == "" && !a.Events && slices.Contains([]int{400, 404, 405}, status.Code) {
		a.Events = true
		var second error
		if session, second = mcp.OpenHTTP(ctx, a, mcpConfig(r.host, cfg.InitializeFirst)); second == nil {
			err = nil
		}
	}
	if err != nil {
		return nil, openError(ctx, err)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.sseOnly, r.initializeFirst = a.Events && r.Transport == "", session.Info().Legacy
	return mcpSession{session}, nil
}
