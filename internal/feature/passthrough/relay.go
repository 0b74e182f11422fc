package passthrough

import (
	"context"
	"encoding/json"
	"errors"

	"github.com/sandpiper-mcp/sandpiper/internal/fault"
	"github.com/sandpiper-mcp/sandpiper/internal/home/approval"
	"github.com/sandpiper-mcp/sandpiper/internal/mcpserver/builtin"
	"github.com/sandpiper-mcp/sandpiper/internal/mcpserver/wire"
	"github.com/sandpiper-mcp/sandpiper/internal/privacy/redact"
	"github.com/sandpiper-mcp/sandpiper/internal/tool/catalog"
)

// Relay returns the answers of an Aggregator to clients.
func Relay(g *Aggregator) *builtin.Relay {
	type named struct {
		Name      string
		Arguments map[string]string
	}
	return &builtin.Relay{Profile: name, Answers: map[string]answerer{
		"tools/list":               listing(g, (*Aggregator).Tools),
		"tools/call":               passing(g, pass),
		"resources/list":           listing(g, (*Aggregator).Resources),
		"resources/templates/list": listing(g, (*Aggregator).Templates),
		"resources/read": passing(g, func(ctx context.Context, g *Aggregator, v builtin.Visit, p struct{ URI string }) (any, error) {
			c, err := g.Read(ctx, v.Home, v.Gate, p.URI)
			return redact.Message{Body: c, Sources: c.From}, err
		}),
		"prompts/list": listing(g, (*Aggregator).Prompts),
		"prompts/get": passing(g, func(ctx context.Context, g *Aggregator, v builtin.Visit, p named) (any, error) {
			m, err := g.Prompt(ctx, v.Home, v.Gate, p.Name, p.Arguments)
			return redact.Message{Body: m, Sources: m.From}, err
		}),
		"completion/complete": passing(g, func(ctx context.Context, g *Aggregator, v builtin.Visit, c Completion) (any, error) {
			return g.Complete(ctx, v.Home, v.Gate, c)
		}),
	}, Versions: func() (v wire.Versions) {
		v.Tools, v.Resources, v.Prompts = g.Versions()
		return v
	}}
}

// answerer answers one request.
type answerer = func(context.Context, builtin.Visit) (any, error)

// passing parses the parameters for answer, which gets the Aggregator of the caller.
func passing[P any](g *Aggregator, answer func(context.Context, *Aggregator, builtin.Visit, P) (any, error)) answerer {
	return func(ctx context.Context, v builtin.Visit) (any, error) {
		var p P
		if err := json.Unmarshal(v.Params, &p); err != nil {
			return nil, fault.Wrap(fault.Invalid, err, "the parameters of this request do not match the protocol")
		}
		return answer(ctx, g.For(catalog.Viewer{Tenant: v.Home.ID(), Subset: v.Subset}), v, p)
	}
}

// listing returns the answerer of a list.
func listing[P any](g *Aggregator, list func(g *Aggregator, ctx context.Context, cursor string) (P, error)) answerer {
	return passing(g, func(ctx context.Context, g *Aggregator, v builtin.Visit, p struct{ Cursor string }) (any, error) {
		cursor, err := v.Gate.Restorer().Name(ctx, redact.ToServer, p.Cursor) // it contains a name
		if err != nil {
			return nil, err
		}
		return list(g, ctx, cursor)
	})
}

// pass calls a tool of a server. All errors are tool results for the model, except an
// unknown tool, which is a protocol error.
func pass(ctx context.Context, g *Aggregator, v builtin.Visit, p struct {
	Name      string
	Arguments json.RawMessage
}) (any, error) {
	c := client{v, g.cfg.Log}
	a, err := g.Call(ctx, v.Home, v.Gate, Call{
		Name:     p.Name,
		Args:     p.Arguments,
		Progress: c.progress(ctx),
		Ask:      c.question(p.Name),
		Approve:  c.approval(),
		Client:   v.Client,
	})
	if err != nil && !errors.Is(err, ErrNoTool) {
		if fault.KindOf(err) == fault.Internal && !errors.Is(err, context.Canceled) {
			g.cfg.Log.Error("tool failed", "tool", p.Name, "error", err)
		}
		text := v.Commands.Complete(fault.Sentence(err))
		if w, ok := errors.AsType[*approval.Waiting](err); ok {
			return redact.Message{Body: Waiting(a, p.Name, w.ID, text)}, nil
		}
		a, err = Failure(text), nil
	}
	return redact.Message{Body: a, Sources: a.From}, err
}
