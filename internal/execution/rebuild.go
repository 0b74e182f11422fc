package execution

import (
	"context"

	"github.com/sandpiper-mcp/sandpiper/internal/execution/reply"
	"github.com/sandpiper-mcp/sandpiper/internal/execution/sessions"
	"github.com/sandpiper-mcp/sandpiper/internal/home"
	"github.com/sandpiper-mcp/sandpiper/internal/home/session"
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

// Replay is how a step of a session's log is rerun. RebuildSession creates it.
type Replay struct {
	turn        *sessions.Interpreter // of the session, which RebuildSession holds; nil means that the execution waits for it
	record      []byte                // from which calls are answered
	repeatCalls bool                  // calls are made instead
	session     []session.Step        // all steps, whose code selects the sandbox of the interpreter
}

// Rebuilt describes how a session was rebuilt.
type Rebuilt = sessions.Rebuilt

// RebuildSession replays the steps of a session's log in a new interpreter; see package sessions.
func RebuildSession(ctx context.Context, r *Runner, h *home.Home, o Rebuild) (*Rebuilt, error) {
	run := func(ctx context.Context, s sessions.Rerun) (reply.Result, error) {
		return o.Run(ctx, Request{
			Code: s.Code, Vars: s.Vars, SessionID: o.Session, Subset: o.Subset, MemoryMB: s.MemoryMB, Timeout: r.Limits(h.ID()).MaxTimeout,
			Replay: &Replay{turn: s.Held, record: s.Record, repeatCalls: s.RepeatCalls, session: s.Session},
		})
	}
	return r.interpreters.Rebuild(ctx, sessions.Rebuild{Key: sessions.Key{Owner: h.ID(), Session: o.Session}, Log: h.Sessions, MemoryMB: o.MemoryMB, RepeatCalls: o.RepeatCalls, Run: run})
}
