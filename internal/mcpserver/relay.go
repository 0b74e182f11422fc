package mcpserver

import (
	"context"
	"encoding/json"

	"github.com/sandpiper-mcp/sandpiper/internal/access"
	"github.com/sandpiper-mcp/sandpiper/internal/home"
	"github.com/sandpiper-mcp/sandpiper/internal/home/approval"
	"github.com/sandpiper-mcp/sandpiper/internal/mcpserver/builtin"
	"github.com/sandpiper-mcp/sandpiper/internal/mcpserver/wire"
	"github.com/sandpiper-mcp/sandpiper/internal/privacy/redact"
	"github.com/sandpiper-mcp/sandpiper/internal/telemetry"
)

// relayed passes requests on to a relay.
type relayed struct{ *Server }

// relayHandler handles one request of a relay.
type relayHandler = func(context.Context, wire.Request) (redact.Redacted, error)

// relay returns the handlers of the relay, which lists only what it has itself.
func (s relayed) relay() *wire.Relay {
	answers := map[string]relayHandler{}
	for method, answer := range s.cfg.Relay.Answers {
		answers[method] = s.visiting(redact.ModelInput{}, answer)
		if method == "tools/call" {
			answers[method] = s.calling(answer)
		}
	}
	return &wire.Relay{Scope: string(access.Execute), Answers: answers, Versions: func() wire.Versions {
		v, settings := s.cfg.Relay.Versions(), s.cfg.Revision()
		return wire.Versions{Tools: v.Tools + " " + settings, Resources: v.Resources + " " + settings, Prompts: v.Prompts + " " + settings}
	}}
}

// visiting opens the home of the caller for an answer, and redacts its result.
func (s relayed) visiting(wrote redact.ModelInput, answer func(context.Context, builtin.Visit) (any, error)) relayHandler {
	return func(ctx context.Context, r wire.Request) (redact.Redacted, error) {
		ctx, release := withShare(ctx, s.cfg.Memory, r.Caller)
		defer release()
		return resourceReader(s).visitWith(ctx, r.Caller, wrote, func(home *home.Home, out *redact.Gate) (any, error) {
			if approval.ViaOf(home.Approvals) == approval.ViaOperator {
				r.Ask = nil
			}
			return answer(ctx, builtin.Visit{Request: r, Home: home, Gate: out, Commands: s.cfg.commands(r.Caller, r.Origin, r.Own)})
		})
	}
}

// calling is visiting for a call of a tool, whose arguments a model wrote.
//
// Usage does not count the call: it compares with clients that call tools directly.
func (s relayed) calling(answer func(context.Context, builtin.Visit) (any, error)) relayHandler {
	return func(ctx context.Context, r wire.Request) (_ redact.Redacted, err error) {
		ctx, span := s.cfg.Telemetry.Start(s.cfg.Telemetry.Continue(ctx, r.Trace), telemetry.Request,
			telemetry.Facts{Tenant: r.Caller, BytesIn: len(r.Params)})
		defer func() {
			outcome := "answered"
			if err != nil {
				outcome = "error"
			}
			span.End(outcome)
		}()
		var p struct{ Arguments json.RawMessage }
		if err := json.Unmarshal(r.Params, &p); err != nil {
			return redact.Redacted{}, err
		}
		return s.visiting(redact.NewModelInput(p.Arguments), answer)(ctx, r)
	}
}
