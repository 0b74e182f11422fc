package wire

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/sandpiper-mcp/sandpiper/internal/privacy/redact"
)

// Logs offers log messages to clients before 2026-07-28, after they have chosen a level. That
// revision deprecates them and ties them to a request; its clients get none.
type Logs struct {
	Scope string // a caller without it cannot choose a level; "" means none is needed
	// Current returns messages about the present state, for a client that has just chosen a
	// level; nil means none.
	Current func(ctx context.Context, caller string) []Notice
}

// Notice is a log message.
type Notice struct {
	Level  string // one of the protocol's, such as warning
	Logger string
	Data   redact.Redacted // JSON
	// For reports whether a caller may see it.
	For func(caller string) bool
}

// levels are the levels of the protocol, least severe first.
var levels = []string{"debug", "info", "notice", "warning", "error", "critical", "alert", "emergency"}

const (
	// maxQueued limits the messages that wait for a slow client.
	maxQueued = 64
	// maxPerMinute limits the messages to one connection.
	maxPerMinute = 100
)

// logClients are the connections that have chosen a level.
type logClients struct {
	mu  sync.Mutex
	all map[*mcp.ServerSession]*logClient
}

type logClient struct {
	caller string
	level  int // of levels
	queue  chan Notice

	window  time.Time // start of the current minute
	sent    int       // in it
	dropped int       // since the last message
}

// Notify sends a message to all connections of the callers that may see it and that have
// chosen its level. It does not wait: messages beyond a limit are counted instead.
func (s *Server) Notify(n Notice) {
	s.logClients.mu.Lock()
	defer s.logClients.mu.Unlock()
	for _, to := range s.logClients.all {
		if n.For(to.caller) {
			to.put(n)
		}
	}
}

// put queues a message. The caller holds the lock of logClients.
func (s *logClient) put(n Notice) {
	if slices.Index(levels, n.Level) < s.level {
		return
	}
	if now := time.Now(); now.Sub(s.window) >= time.Minute {
		s.window, s.sent = now, 0
	}
	if s.sent >= maxPerMinute {
		s.dropped++
		return
	}
	select {
	case s.queue <- n:
		s.sent++
	default:
		s.dropped++
	}
}

// logging handles logging/setLevel, and hides the capability from clients of 2026-07-28.
func (s *Server) logging(o *subscriptions) mcp.Middleware {
	return func(next mcp.MethodHandler) mcp.MethodHandler {
		return func(ctx context.Context, method string, req mcp.Request) (mcp.Result, error) {
			//lint:ignore SA1019 clients before 2026-07-28 use it
			set, ok := req.(*mcp.ServerRequest[*mcp.SetLoggingLevelParams])
			if !ok || newer(req) {
				return withoutLogging(next(ctx, method, req))
			}
			level := slices.Index(levels, string(set.Params.Level))
			if level < 0 {
				return nil, &jsonrpc.Error{Code: jsonrpc.CodeInvalidParams,
					Message: fmt.Sprintf("the level %.40q does not exist: use one of %s", set.Params.Level, strings.Join(levels, ", "))}
			}
			res, err := next(ctx, method, req)
			if err == nil {
				s.subscribe(ctx, o, set.Session, o.authn.callerOf(ctx, req), level)
			}
			return res, err
		}
	}
}

// withoutLogging removes the capability from the answer of server/discover.
func withoutLogging(res mcp.Result, err error) (mcp.Result, error) {
	if d, ok := res.(*mcp.DiscoverResult); ok && err == nil && d.Capabilities != nil {
		reduced := *d.Capabilities
		//lint:ignore SA1019 clients before 2026-07-28 use it
		reduced.Logging = nil
		d.Capabilities = &reduced
	}
	return res, err
}

// subscribe sets the level of a connection. With its first level, it gets messages until it
// ends, starting with those about the present state.
func (s *Server) subscribe(ctx context.Context, o *subscriptions, conn *mcp.ServerSession, caller string, level int) {
	s.logClients.mu.Lock()
	defer s.logClients.mu.Unlock()
	to := s.logClients.all[conn]
	if to != nil {
		to.level = level
		return
	}
	to = &logClient{caller: caller, level: level, queue: make(chan Notice, maxQueued)}
	s.logClients.all[conn] = to
	ended, end := context.WithCancel(o.alive)
	go func() {
		_ = conn.Wait() // logged elsewhere
		end()
		s.logClients.mu.Lock()
		defer s.logClients.mu.Unlock()
		delete(s.logClients.all, conn)
	}()
	if s.cfg.Logs.Current != nil {
		for _, n := range s.cfg.Logs.Current(ctx, caller) {
			to.put(n)
		}
	}
	o.running.Go(func() { s.sendLogs(ended, o, conn, to) })
}

// sendLogs sends the messages of one connection until it ends.
func (s *Server) sendLogs(ctx context.Context, o *subscriptions, conn *mcp.ServerSession, to *logClient) {
	for {
		var n Notice
		select {
		case <-ctx.Done():
			return
		case n = <-to.queue:
		}
		text, _, _, err := n.Data.Content()
		if err == nil {
			err = log(ctx, conn, n.Level, n.Logger, json.RawMessage(text))
		}
		s.logClients.mu.Lock()
		dropped := to.dropped
		to.dropped = 0
		s.logClients.mu.Unlock()
		if err == nil && dropped > 0 {
			err = log(ctx, conn, "warning", "", map[string]any{"message": "messages were dropped: too many at once", "count": dropped})
		}
		if err != nil && ctx.Err() == nil {
			o.log.Debug("send a log message", "error", err)
		}
	}
}

func log(ctx context.Context, conn *mcp.ServerSession, level, logger string, data any) error {
	//lint:ignore SA1019 clients before 2026-07-28 use it
	return conn.Log(ctx, &mcp.LoggingMessageParams{Level: mcp.LoggingLevel(level), Logger: logger, Data: data})
}
