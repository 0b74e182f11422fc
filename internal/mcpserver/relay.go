package mcpserver

import (
	"context"
	"encoding/json"
	"errors"

	"github.com/sandpiper-mcp/sandpiper/internal/access"
	"github.com/sandpiper-mcp/sandpiper/internal/fault"
	"github.com/sandpiper-mcp/sandpiper/internal/home"
	"github.com/sandpiper-mcp/sandpiper/internal/home/approval"
	"github.com/sandpiper-mcp/sandpiper/internal/mcpserver/builtin"
	"github.com/sandpiper-mcp/sandpiper/internal/mcpserver/passthrough"
	"github.com/sandpiper-mcp/sandpiper/internal/mcpserver/wire"
	"github.com/sandpiper-mcp/sandpiper/internal/privacy/redact"
	"github.com/sandpiper-mcp/sandpiper/internal/telemetry"
	"github.com/sandpiper-mcp/sandpiper/internal/tool/catalog"
)

// relayed passes requests on to the servers, in the profile passthrough.
type relayed struct{ *Server }

// relay returns the handlers of the profile passthrough, which lists only what the
// servers have.
func (s relayed) relay() *wire.Relay {
	type named struct {
		Name      string
		Arguments map[string]string
	}
	answers := map[string]relayHandler{
		"tools/list":               listing(s, (*passthrough.Face).Tools),
		"tools/call":               s.pass,
		"resources/list":           listing(s, (*passthrough.Face).Resources),
		"resources/templates/list": listing(s, (*passthrough.Face).Templates),
		"resources/read": passing(s, func(ctx context.Context, v visit, out *redact.Gate, p struct{ URI string }) (any, error) {
			c, err := v.face.Read(ctx, v.home, out, p.URI)
			return redact.Message{Body: c, Sources: c.From}, err
		}),
		"prompts/list": listing(s, (*passthrough.Face).Prompts),
		"prompts/get": passing(s, func(ctx context.Context, v visit, out *redact.Gate, p named) (any, error) {
			m, err := v.face.Prompt(ctx, v.home, out, p.Name, p.Arguments)
			return redact.Message{Body: m, Sources: m.From}, err
		}),
		"completion/complete": passing(s, func(ctx context.Context, v visit, out *redact.Gate, c passthrough.Completion) (any, error) {
			return v.face.Complete(ctx, v.home, out, c)
		}),
	}
	return &wire.Relay{Scope: string(access.Execute), Answers: answers, Versions: func() (v wire.Versions) {
		v.Tools, v.Resources, v.Prompts = s.cfg.Passthrough.Versions()
		settings := s.cfg.Revision()
		v.Tools, v.Resources, v.Prompts = v.Tools+" "+settings, v.Resources+" "+settings, v.Prompts+" "+settings
		return v
	}}
}

// face returns what a tenant may use of the servers.
func (s relayed) face(home *home.Home, subset string) *passthrough.Face {
	return s.cfg.Passthrough.For(catalog.Viewer{Tenant: home.ID(), Subset: subset})
}

// visit is a request of a tenant.
type visit struct {
	home *home.Home
	face *passthrough.Face
}

// relayHandler handles one request of a relay.
type relayHandler = func(context.Context, wire.Request) (redact.Redacted, error)

// passing parses the parameters for f, and redacts its result.
func passing[P any](s relayed, f func(context.Context, visit, *redact.Gate, P) (any, error)) relayHandler {
	return func(ctx context.Context, r wire.Request) (redact.Redacted, error) {
		ctx, release := withShare(ctx, s.cfg.Memory, r.Caller)
		defer release()
		return resourceReader(s).visit(ctx, r.Caller, func(home *home.Home, out *redact.Gate) (any, error) {
			var p P
			if err := json.Unmarshal(r.Params, &p); err != nil {
				return nil, fault.Wrap(fault.Invalid, err, "the parameters of this request do not match the protocol")
			}
			return f(ctx, visit{home, s.face(home, r.Subset)}, out, p)
		})
	}
}

// listing returns the relayHandler of a list.
func listing[P any](s relayed, list func(f *passthrough.Face, ctx context.Context, cursor string) (P, error)) relayHandler {
	return passing(s, func(ctx context.Context, v visit, out *redact.Gate, p struct{ Cursor string }) (any, error) {
		cursor, err := out.Restorer().Name(ctx, redact.ToServer, p.Cursor) // it contains a name
		if err != nil {
			return nil, err
		}
		return list(v.face, ctx, cursor)
	})
}

// pass calls a tool of a server. All errors are tool results for the model, except an
// unknown tool, which is a protocol error.
//
// Usage does not count the call: it compares with clients that call tools directly.
func (s relayed) pass(ctx context.Context, r wire.Request) (_ redact.Redacted, err error) {
	ctx, span := s.cfg.Telemetry.Start(s.cfg.Telemetry.Continue(ctx, r.Trace), telemetry.Request, telemetry.Facts{Tenant: r.Caller, BytesIn: len(r.Params)})
	defer func() {
		outcome := "answered"
		if err != nil {
			outcome = "error"
		}
		span.End(outcome)
	}()
	ctx, release := withShare(ctx, s.cfg.Memory, r.Caller)
	defer release()
	var p struct {
		Name      string
		Arguments json.RawMessage
	}
	if err := json.Unmarshal(r.Params, &p); err != nil {
		return redact.Redacted{}, err
	}
	return resourceReader(s).visitWith(ctx, r.Caller, redact.NewModelInput(p.Arguments), func(home *home.Home, out *redact.Gate) (any, error) {
		if approval.ViaOf(home.Approvals) == approval.ViaOperator {
			r.Ask = nil
		}
		a, err := s.face(home, r.Subset).Call(ctx, home, out, passthrough.Call{
			Name: p.Name, Args: p.Arguments, Progress: s.passProgress(ctx, out, r), Ask: s.passQuestion(p.Name, out, r), Approve: s.passApproval(out, r), Client: r.Client,
		})
		if err != nil && !errors.Is(err, passthrough.ErrNoTool) {
			s.complain(p.Name, err)
			text := s.cfg.commands(r.Caller, r.Origin, r.Own).Complete(fault.Sentence(err))
			if w, ok := errors.AsType[*approval.Waiting](err); ok {
				return redact.Message{Body: passthrough.Waiting(a, p.Name, w.ID, text)}, nil
			}
			a, err = passthrough.Failure(text), nil
		}
		return redact.Message{Body: a, Sources: a.From}, err
	})
}

// passProgress returns a function that forwards the progress of a tool; nil if the
// client did not ask for progress.
func (s relayed) passProgress(ctx context.Context, out *redact.Gate, r wire.Request) func(done, total float64, message string) {
	if r.Progress == nil {
		return nil
	}
	return func(done, total float64, message string) {
		redacted, err := out.Redact(ctx, message)
		if err == nil {
			err = r.Progress(ctx, done, total, redacted)
		}
		if err != nil {
			s.cfg.Log.Debug("progress of a tool was not passed on", "error", err)
		}
	}
}

// passQuestion returns a function that forwards a server's question during a call; nil
// if the client cannot be asked during a call.
func (s relayed) passQuestion(name string, out *redact.Gate, r wire.Request) func(context.Context, passthrough.Question) (passthrough.Reply, error) {
	if r.Ask == nil {
		return nil
	}
	return func(ctx context.Context, q passthrough.Question) (passthrough.Reply, error) {
		text, err := out.Redact(ctx, "The tool "+printable(name)+" asks: "+printable(q.Text))
		if err != nil {
			return passthrough.Reply{}, err
		}
		schema, err := out.Tokenize(ctx, "", string(q.Schema))
		if err != nil {
			return passthrough.Reply{}, err
		}
		replies, err := r.Ask(ctx, []wire.Question{{ID: "q", Text: text, Schema: json.RawMessage(schema)}})
		if err != nil {
			s.cfg.Log.Debug("the client could not be asked", "error", err)
			return passthrough.Reply{}, fault.Wrap(fault.Unavailable, err, "the client did not show it")
		}
		return passthrough.Reply{Action: passthrough.Action(replies["q"].Action), Content: replies["q"].Content}, nil
	}
}

// passApproval returns a function that asks the person to approve a call; nil if the
// client cannot be asked during a call.
func (s relayed) passApproval(out *redact.Gate, r wire.Request) func(context.Context, passthrough.Approval) (passthrough.Reply, error) {
	if r.Ask == nil {
		return nil
	}
	return func(ctx context.Context, a passthrough.Approval) (passthrough.Reply, error) {
		text, err := out.RevealToPerson(ctx, builtin.WithAsker(a.Text, a.Asker))
		if err != nil {
			return passthrough.Reply{}, err
		}
		replies, err := r.Ask(ctx, []wire.Question{{ID: a.ID, Text: text, Schema: a.Schema}})
		if err == nil && replies[a.ID].Action == wire.Cancel {
			err = errUnanswered
		}
		if err != nil {
			s.cfg.Log.Debug("the client could not be asked", "error", err)
			return passthrough.Reply{}, fault.Wrap(fault.Unavailable, err, "the client did not show it")
		}
		return passthrough.Reply{Action: passthrough.Action(replies[a.ID].Action), Content: replies[a.ID].Content}, nil
	}
}
