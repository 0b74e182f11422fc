package execution

import (
	"context"

	"github.com/sandpiper-mcp/sandpiper/internal/execution/reply"
	"github.com/sandpiper-mcp/sandpiper/internal/execution/sessions"
	"github.com/sandpiper-mcp/sandpiper/internal/home"
)

// Rebuild states how a session is rebuilt.
type Rebuild struct {
	Session  string
	Subset   string // of the servers; see Request
	MemoryMB int    // of the interpreter; 0 means Limits.MemoryMB
	// RepeatCalls makes the calls of steps that have no record again. Otherwise a call that is
	// not on record ends the rebuild with an error.
	RepeatCalls bool
	// Run starts a request and waits for its result.
	Run func(context.Context, Request) (reply.Result, error)
}

// RebuildSession replays the steps of a session's log in a new interpreter; see package sessions.
func RebuildSession(ctx context.Context, r *Runner, h *home.Home, o Rebuild) (*sessions.Rebuilt, error) {
	return r.interpreters.Rebuild(ctx, sessions.Rebuild{
		Key: sessions.Key{Owner: h.ID(), Session: o.Session}, Log: h.Sessions, MemoryMB: o.MemoryMB, RepeatCalls: o.RepeatCalls,
		Run: func(ctx context.Context, s sessions.Rerun) (reply.Result, error) {
			return o.Run(ctx, Request{
				Code:      s.Code,
				Vars:      s.Vars,
				SessionID: o.Session,
				Subset:    o.Subset,
				MemoryMB:  s.MemoryMB,
				Timeout:   r.Limits(h.ID()).MaxTimeout,
				Replay:    &s,
			})
		},
	})
}
