package openapi

import (
	"context"
	"errors"
	"strings"

	"github.com/sandpiper-mcp/sandpiper/internal/upstream"
)

// Noun implements upstream.Kind.
func (*Source) Noun() string { return "an OpenAPI document" }

// Validate implements upstream.Kind. Open checks a Source together with its document.
func (*Source) Validate() error { return nil }

// Connector implements upstream.Kind. Opening a connection reads the document, and sends nothing to
// the API.
func (s *Source) Connector(h *upstream.Host) upstream.Connector {
	cfg := Config{
		Source: *s, OnSecret: h.AddToken, ToolsChanged: h.ToolsChanged,
		CacheDir: h.Cache, UserAgent: h.UserAgent, MaxResponse: h.MaxResponse, Log: h.Log,
		Resolve: func(ctx context.Context, what, value string) (string, error) {
			return h.Resolve(ctx, what, value, useOf(what))
		},
	}
	return upstream.ConnectorFunc(func(ctx context.Context) (upstream.Session, error) {
		a, err := Open(ctx, cfg)
		if err != nil {
			return nil, err
		}
		if cfg.ToolsChanged != nil { // it may have changed since the last start
			cfg.ToolsChanged()
		}
		return session{a}, nil
	})
}

// useOf returns where a string of a Source is sent.
func useOf(what string) upstream.Use {
	switch {
	case what == "url", what == "openapi", what == "auth.client_credentials.token_url":
		return upstream.InURL
	case what == "auth.basic.username", what == "auth.client_credentials.client_id":
		return upstream.AsName
	case strings.HasPrefix(what, "header "):
		return upstream.InHeader
	}
	return upstream.AsSecret
}

// session adapts an API to upstream.Session. Only Close ends it.
type session struct{ *API }

// Info returns the description in the document.
func (s session) Info() upstream.Info {
	i := s.API.Info()
	return upstream.Info{Name: i.Title, Title: i.Title, Version: i.Version, Instructions: i.Description, Protocol: i.Protocol}
}

// IsBroken implements upstream.Session. A session is broken only if no operation can be called.
func (session) IsBroken(err error) bool { return errors.Is(err, ErrDown) }
