package upstream

import (
	"context"
	"errors"
	"strings"

	"github.com/sandpiper-mcp/sandpiper/internal/fault"
	"github.com/sandpiper-mcp/sandpiper/internal/upstream/openapi"
)

// apiSession adapts an openapi.API to session. Only Close ends it.
type apiSession struct{ *openapi.API }

// Info returns the description in the document.
func (a apiSession) Info() Info {
	i := a.API.Info()
	return Info{Name: i.Title, Title: i.Title, Version: i.Version, Instructions: i.Description, Protocol: i.Protocol}
}

// openDocument reads the OpenAPI document. No request is sent to the API.
func (v *server) openDocument(ctx context.Context) (*connection, error) {
	cfg := openapi.Config{Source: *v.OpenAPI, Resolve: v.resolveSetting, OnSecret: v.redact.addToken, CacheDir: v.set.cfg.DocumentCache,
		UserAgent: v.set.cfg.Client, MaxResponse: v.set.cfg.MaxResponse, Log: v.set.cfg.Log.With("server", v.Name)}
	if v.set.cfg.Version != "" {
		cfg.UserAgent += "/" + v.set.cfg.Version
	}
	if v.set.cfg.ToolsChanged != nil {
		cfg.ToolsChanged = v.notifyToolsChanged
	}
	opened, err := openapi.Open(ctx, cfg)
	if own, ok := errors.AsType[*fault.Error](err); ok {
		return nil, v.prefixName(own)
	}
	if err != nil {
		return nil, v.startError(ctx, nil, err)
	}
	if cfg.ToolsChanged != nil { // it may have changed since the last start
		cfg.ToolsChanged()
	}
	return &connection{session: apiSession{opened}}, nil
}

// resolveSetting resolves a setting of an API and registers secrets with the redactor.
func (v *server) resolveSetting(ctx context.Context, what, value string) (string, error) {
	resolve := v.set.cfg.Resolve
	isURL := what == "url" || what == "openapi" || what == "auth.client_credentials.token_url"
	if isURL {
		resolve = v.resolveURL // which registers the secrets that are sent
	}
	found, err := resolve(ctx, value)
	if err != nil {
		return "", fault.New(fault.KindOf(err), "has no value for its %s: %s", what, fault.Message(err)).WithHint("%s", fault.Hint(err))
	}
	referred := found != value
	if referred || isSecretName(what) {
		v.redact.addSecret(found)
	}
	if isURL {
		return found, nil
	}
	name, header := strings.CutPrefix(what, "header ")
	switch what {
	case "auth.basic.username", "auth.client_credentials.client_id":
		if referred {
			v.redact.addSent(found)
		}
	default:
		if header && (referred || isSecretName(name)) {
			v.redact.addSentHeader(found)
		} else if !header {
			v.redact.addSent(found)
		}
	}
	return found, nil
}
