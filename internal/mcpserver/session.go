package mcpserver

import (
	"context"

	"github.com/sandpiper-mcp/sandpiper/internal/execution"
	"github.com/sandpiper-mcp/sandpiper/internal/execution/reply"
	"github.com/sandpiper-mcp/sandpiper/internal/execution/sessions"
	"github.com/sandpiper-mcp/sandpiper/internal/mcpserver/builtin"
	"github.com/sandpiper-mcp/sandpiper/internal/mcpserver/wire"
	"github.com/sandpiper-mcp/sandpiper/internal/privacy/redact"
)

func (s *Server) sessionTools() []builtin.Tool {
	return []builtin.Tool{{
		Name: "resume_session", Profile: builtin.Standard,
		Description: "Restore the variables of a lost session.",
		Params:      []builtin.Param{{Name: "session_id", Kind: builtin.Text, Required: true, Source: sessionIDs}},
		MaxChars:    100_000,
		Hints:       wire.Hints{Destructive: true}, // files are written again
		Run:         s.resumeSession,
	}}
}

// resumeSession rebuilds a session. Its code asks nothing, since answers are on record.
func (s *Server) resumeSession(ctx context.Context, c builtin.Call) (redact.Message, error) {
	var args struct {
		Session string `json:"session_id"`
	}
	if err := c.Read(&args); err != nil {
		return redact.Message{}, err
	}
	*c.Session = args.Session
	b, err := execution.RebuildSession(ctx, s.cfg.Runner, c.Home, execution.Rebuild{Session: args.Session, Subset: c.Subset, Run: func(ctx context.Context, req execution.Request) (reply.Result, error) {
		x, err := s.cfg.Runner.Start(ctx, c.Home, req)
		if err != nil {
			return reply.Result{}, err
		}
		for {
			e, err := x.Next(context.WithoutCancel(ctx)) // the end of ctx ends the execution
			switch {
			case err != nil:
				return reply.Result{}, err
			case e.Progress != nil:
				s.progress(ctx, c, *e.Progress)
			case e.Done != nil:
				return *e.Done, nil
			}
		}
	}})
	if err != nil {
		return redact.Message{}, err
	}
	return redact.Message{Body: struct {
		Success bool `json:"success"`
		*sessions.Rebuilt
	}{true, b}}, nil
}
