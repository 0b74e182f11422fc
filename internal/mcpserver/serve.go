package mcpserver

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"

	"github.com/sandpiper-mcp/sandpiper/internal/access"
	"github.com/sandpiper-mcp/sandpiper/internal/home/approval"
	"github.com/sandpiper-mcp/sandpiper/internal/mcpserver/builtin"
	"github.com/sandpiper-mcp/sandpiper/internal/mcpserver/wire"
	"github.com/sandpiper-mcp/sandpiper/internal/privacy/redact"
	"github.com/sandpiper-mcp/sandpiper/internal/telemetry"
)

// wireTool wraps t for the protocol: it opens the tenant's home for the call, and redacts
// the answer.
func wireTool(s *Server, t builtin.Tool) wire.Tool {
	args := t.Schema
	if args == nil {
		args = builtin.Schema(t.Params)
	}
	return wire.Tool{
		Name:           t.Name,
		Description:    t.Description,
		Schema:         args,
		Hints:          t.Hints,
		MaxResultChars: t.MaxChars,
		AlwaysLoad:     t.AlwaysLoad,
		SearchHint:     t.SearchHint,
		Scope:          string(cmp.Or(t.Scope, access.Execute)),
		Handle: func(ctx context.Context, c wire.Call) (redact.Redacted, error) {
			ctx, span := s.cfg.Telemetry.Start(s.cfg.Telemetry.Continue(ctx, c.Trace), telemetry.Request,
				telemetry.Facts{Tenant: c.Caller, Tool: cmp.Or(t.Label, t.Name)})
			outcome := "error"
			defer func() { span.End(outcome) }()
			if err := builtin.CheckSizes(t.Name, t.Params, c.Arguments); err != nil {
				return s.gateWithoutTenant().Redact(ctx, s.failed(t.Name, err))
			}
			ctx, release := withShare(ctx, s.cfg.Memory, c.Caller)
			defer release()
			home, err := s.acquire(ctx, c.Caller)
			if err != nil {
				return s.gateWithoutTenant().Redact(ctx, s.failed(t.Name, err))
			}
			answered := builtin.Call{
				Call:     c,
				Home:     home,
				Tool:     &t,
				Privacy:  s.cfg.Privacy.Of(home.ID()),
				Session:  new(sessionOf(c.Arguments)),
				Outcome:  &outcome,
				Note:     new(string),
				Commands: s.cfg.commands(c.Caller, c.Origin, c.Own),
			}
			if approval.ViaOf(home.Approvals) == approval.ViaOperator {
				answered.Ask, answered.Require, answered.Replies = nil, nil, nil
			}
			answered.ModelInput = redact.NewModelInput(c.Arguments, "context_vars") // its values are not the model's own text
			span.Update(func(f *telemetry.Facts) { f.BytesIn = len(c.Arguments) })
			defer func() { span.Update(func(f *telemetry.Facts) { f.Session = *answered.Session }) }()
			return s.serve(ctx, answered)
		},
	}
}

// run runs a tool. One that starts an execution is called again with the state of its request.
func (s *Server) run(ctx context.Context, c builtin.Call) (redact.Message, error) {
	switch {
	case c.Tool.Converse != nil:
		return conversations{s}.serve(ctx, c)
	case c.Tool.Start == nil:
		return c.Tool.Run(ctx, c)
	case c.State != "":
		return follower{s}.answered(ctx, c)
	}
	x, err := c.Tool.Start(ctx, c)
	if err != nil {
		return redact.Message{}, err
	}
	return follower{s}.follow(ctx, c, x)
}

// serve answers one call and releases its home.
func (s *Server) serve(ctx context.Context, c builtin.Call) (redacted redact.Redacted, err error) {
	defer func() {
		// Acknowledge writes only after Release succeeded.
		if e := c.Home.Release(context.WithoutCancel(ctx)); e != nil && err == nil {
			redacted, err = s.gateWithoutTenant().Redact(ctx, s.failed(c.Tool.Name, e))
		}
	}()
	m, err := s.run(ctx, c)
	if *c.Outcome = "answered"; err != nil || m.Failed {
		*c.Outcome = "failed"
	}
	if errors.Is(err, wire.ErrState) {
		return redact.Redacted{}, err
	}
	if err != nil {
		m = s.failed(c.Tool.Name, err)
	}
	switch b := m.Body.(type) {
	case failure:
		b.Error = c.Commands.Complete(b.Error)
		m.Body = b
	case suspended:
		b.Error = c.Commands.Complete(b.Error)
		m.Body = b
	}
	m.Note, m.CountTokens = *c.Note, true
	redacted, err = c.Gate().Redact(context.WithoutCancel(ctx), m)
	if err != nil { // for example, tokens were not stored
		if redacted, err = s.gateWithoutTenant().Redact(ctx, s.failed(c.Tool.Name, err)); err != nil {
			return redacted, err
		}
	}
	text, _, _, _ := redacted.Content()
	if !m.Reveal {
		s.recent.add(c.Home.ID(), text)
	}
	c.Home.Usage.AddModelText(*c.Session, string(c.Arguments), text)
	return redacted, nil
}

// sessionOf returns the session id in arguments, without checking them.
func sessionOf(args json.RawMessage) string {
	var of struct {
		Session string `json:"session_id"`
	}
	_ = json.Unmarshal(args, &of)
	return of.Session
}
