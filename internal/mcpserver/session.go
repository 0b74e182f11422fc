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

// sessionTools are the tools for sessions.
type sessionTools struct{ *Server }

func (s sessionTools) all() []builtin.Tool {
	return []builtin.Tool{{
		Name: "resume_session", Profile: builtin.Standard,
		Description: "Restore the variables of a lost session.",
		Params:      []builtin.Param{{Name: "session_id", Kind: builtin.Text, Required: true, Source: builtin.SessionIDs}},
		MaxChars:    100_000,
		Hints:       wire.Hints{Destructive: true}, // files are written again
		Run:         builtin.Handle(s.resumeSession),
	}}
}

// resumeSession rebuilds a session. Its code asks nothing, since answers are on record.
func (s sessionTools) resumeSession(ctx context.Context, c builtin.Call, args struct {
	Session string `json:"session_id"`
}) (redact.Message, error) {
	*c.Session = args.Session
	b, err := execution.RebuildSession(ctx, s.cfg.Runner, c.Home,
		execution.Rebuild{Session: args.Session, Subset: c.Subset,
			Run: func(ctx context.Context, req execution.Request) (reply.Result, error) {
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
						follower(s).progress(ctx, c, *e.Progress)
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
