package mcpserver

import (
	"context"
	"encoding/json"
	"errors"

	"github.com/sandpiper-mcp/sandpiper/internal/egress"
	"github.com/sandpiper-mcp/sandpiper/internal/fault"
	"github.com/sandpiper-mcp/sandpiper/internal/mcpserver/passthrough"
	"github.com/sandpiper-mcp/sandpiper/internal/mcpserver/wire"
)

// relay is what the profile passthrough shows: nothing of ours, and all of what
// the servers have.
func (s *Server) relay() *wire.Relay {
	face := s.cfg.Passthrough
	type named struct {
		Name      string
		Arguments map[string]string
	}
	answers := map[string]answerer{
		"tools/list":               listing(s, face.Tools),
		"tools/call":               s.pass,
		"resources/list":           listing(s, face.Resources),
		"resources/templates/list": listing(s, face.Templates),
		"resources/read":           passing(s, func(ctx context.Context, p struct{ URI string }) (any, error) { return face.Read(ctx, p.URI) }),
		"prompts/list":             listing(s, face.Prompts),
		"prompts/get":              passing(s, func(ctx context.Context, p named) (any, error) { return face.Prompt(ctx, p.Name, p.Arguments) }),
		"completion/complete":      passing(s, func(ctx context.Context, c passthrough.Completion) (any, error) { return face.Complete(ctx, c) }),
	}
	return &wire.Relay{Answers: answers, Versions: func() (v wire.Versions) {
		v.Tools, v.Resources, v.Prompts = face.Versions()
		return v
	}}
}

// answerer answers one request of a relay.
type answerer = func(context.Context, wire.Request) (egress.Sealed, error)

// passing reads the parameters for f, and seals what it returns.
func passing[P any](s *Server, f func(context.Context, P) (any, error)) answerer {
	return func(ctx context.Context, r wire.Request) (egress.Sealed, error) {
		var p P
		if err := json.Unmarshal(r.Params, &p); err != nil {
			return egress.Sealed{}, s.refused(ctx, fault.Wrap(fault.Invalid, err, "the parameters of this request are no JSON of the protocol"))
		}
		v, err := f(ctx, p)
		if err != nil {
			return egress.Sealed{}, s.refused(context.WithoutCancel(ctx), err)
		}
		return s.cfg.Exit.Seal(context.WithoutCancel(ctx), v)
	}
}

// listing is the answerer of a list.
func listing[P any](s *Server, list func(ctx context.Context, cursor string) (P, error)) answerer {
	return passing(s, func(ctx context.Context, p struct{ Cursor string }) (any, error) { return list(ctx, p.Cursor) })
}

// pass calls a tool of a server. Whatever comes of it is for the model, as the
// answer of a tool; only a tool that there is not is the client's mistake.
//
// The meter counts none of it: it compares with clients that call tools
// themselves, as this one does.
func (s *Server) pass(ctx context.Context, r wire.Request) (egress.Sealed, error) {
	var p struct {
		Name      string
		Arguments json.RawMessage
	}
	if err := json.Unmarshal(r.Params, &p); err != nil {
		return egress.Sealed{}, err
	}
	a, err := s.call(ctx, r.Caller, passthrough.Call{Name: p.Name, Args: p.Arguments, Progress: s.passProgress(ctx, r), Ask: s.passQuestion(p.Name, r)})
	switch {
	case errors.Is(err, passthrough.ErrNoTool):
		return egress.Sealed{}, s.refused(ctx, err)
	case err != nil:
		s.complain(p.Name, err)
		a = passthrough.Failure(sentence(err))
	}
	return s.cfg.Exit.Seal(context.WithoutCancel(ctx), a)
}

func (s *Server) call(ctx context.Context, caller string, c passthrough.Call) (passthrough.Answer, error) {
	home, err := s.acquire(ctx, caller)
	if err != nil {
		return passthrough.Answer{}, err
	}
	a, err := s.cfg.Passthrough.Call(ctx, home, c)
	// What was recorded is acknowledged only once it is released without fault.
	if e := home.Release(context.WithoutCancel(ctx)); e != nil && err == nil {
		err = e
	}
	return a, err
}

// passProgress tells the client what a tool says of how far it is; nil if it did not
// ask.
func (s *Server) passProgress(ctx context.Context, r wire.Request) func(done, total float64, message string) {
	if r.Progress == nil {
		return nil
	}
	return func(done, total float64, message string) {
		sealed, err := s.cfg.Exit.Seal(ctx, message)
		if err == nil {
			err = r.Progress(ctx, done, total, sealed)
		}
		if err != nil {
			s.cfg.Log.Debug("progress of a tool was not passed on", "error", err)
		}
	}
}

// passQuestion shows the client what a server asks during the call of a tool; nil
// if it cannot be asked meanwhile.
func (s *Server) passQuestion(name string, r wire.Request) func(context.Context, passthrough.Question) (passthrough.Reply, error) {
	if r.Ask == nil {
		return nil
	}
	return func(ctx context.Context, q passthrough.Question) (passthrough.Reply, error) {
		text, err := s.cfg.Exit.Seal(ctx, "The tool "+printable(name)+" asks: "+printable(q.Text))
		if err != nil {
			return passthrough.Reply{}, err
		}
		replies, err := r.Ask(ctx, []wire.Question{{ID: "q", Text: text, Schema: q.Schema}})
		if err != nil {
			s.cfg.Log.Debug("the client could not be asked", "error", err)
			return passthrough.Reply{}, fault.Wrap(fault.Unavailable, err, "the client did not show it")
		}
		return passthrough.Reply{Action: passthrough.Action(replies["q"].Action), Content: replies["q"].Content}, nil
	}
}
