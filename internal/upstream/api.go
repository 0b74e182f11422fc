package upstream

import (
	"context"
	"errors"
	"strings"

	"github.com/sandpiper-mcp/sandpiper/internal/fault"
	"github.com/sandpiper-mcp/sandpiper/internal/upstream/openapi"
)

// api is a session with an API. It is over when it is closed, and not before.
type api struct{ *openapi.API }

// Info is what the document says.
func (a api) Info() Info {
	i := a.API.Info()
	return Info{Name: i.Title, Title: i.Title, Version: i.Version, Instructions: i.Description, Protocol: i.Protocol}
}

// describe reads the document of an API, which is all that it takes to start.
func (v *server) describe(ctx context.Context) (*connection, error) {
	cfg := openapi.Config{Source: *v.OpenAPI, Resolve: v.lookUp, Hide: v.redact.pass, Cache: v.set.cfg.Documents,
		Agent: v.set.cfg.Client, MaxAnswer: v.set.cfg.MaxAnswer, Log: v.set.cfg.Log.With("server", v.Name)}
	if v.set.cfg.Version != "" {
		cfg.Agent += "/" + v.set.cfg.Version
	}
	if v.set.cfg.Changed != nil {
		cfg.Changed = v.changed
	}
	opened, err := openapi.Open(ctx, cfg)
	if said, ok := errors.AsType[*fault.Error](err); ok {
		return nil, v.worded(said)
	}
	if err != nil {
		return nil, v.notStarted(ctx, nil, err)
	}
	if cfg.Changed != nil { // since it was last read
		cfg.Changed()
	}
	return &connection{session: api{opened}}, nil
}

// lookUp is the value that a setting of an API stands for.
func (v *server) lookUp(ctx context.Context, what, value string) (string, error) {
	found, err := v.set.cfg.Resolve(ctx, value)
	if err != nil {
		return "", fault.New(fault.KindOf(err), "has no value for its %s: %s", what, fault.Message(err)).WithHint("%s", fault.Hint(err))
	}
	referred := found != value
	if referred || secretive(what) {
		v.redact.add(found)
	}
	name, header := strings.CutPrefix(what, "header ")
	switch what {
	case "url", "auth.client_credentials.token_url": // answers have links
	case "auth.basic.username", "auth.client_credentials.client_id":
		if referred {
			v.redact.send(found)
		}
	default:
		if header && (referred || secretive(name)) {
			v.redact.sendHeader(found)
		} else if !header {
			v.redact.send(found)
		}
	}
	return found, nil
}
