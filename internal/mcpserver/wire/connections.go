package wire

import (
	"context"
	"crypto/rand"
	"log/slog"
	"net/http"
	"strings"
	"sync"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/sandpiper-mcp/sandpiper/internal/home/stream"
)

// connectionHeader is the id of a connection before 2026-07-28.
const connectionHeader = "Mcp-Session-Id"

// connections are the open connections before 2026-07-28. Their number is limited per
// caller: a new one replaces the one that was idle longest, as if that had timed out.
// The SDK reports their end to them as to an event store.
type connections struct {
	*replays
	authn   authenticator
	most    int                            // of one caller
	dismiss func(string)                   // cancels the calls of a connection
	foreign func(caller string, f Foreign) // as HTTPConfig.Foreign
	answers keptAnswers

	mu       sync.Mutex
	byID     map[string]*connection
	byCaller map[string]map[string]*connection // by caller and id
	uses     uint64                            // of all connections so far
}

type connection struct {
	session *mcp.ServerSession
	caller  string
	open    int    // requests
	used    uint64 // number of its last use
}

func newConnections(authn authenticator, cfg HTTPConfig, log *slog.Logger, dismiss func(string)) *connections {
	return &connections{replays: newReplays(), authn: authn, most: cfg.CallerConnections, dismiss: dismiss, foreign: cfg.Foreign, answers: keptAnswers{use: cfg.Answers, log: log},
		byID: map[string]*connection{}, byCaller: map[string]map[string]*connection{}}
}

// remember records the caller of a new connection.
func (c *connections) remember(next mcp.MethodHandler) mcp.MethodHandler {
	return func(ctx context.Context, method string, req mcp.Request) (mcp.Result, error) {
		if session, ok := req.GetSession().(*mcp.ServerSession); ok && method == "initialize" && session.ID() != "" {
			if !c.admit(session, c.authn.callerOf(ctx, req)) {
				return nil, &jsonrpc.Error{Code: jsonrpc.CodeInvalidRequest,
					Message: "all connections of this token are in use: close one before opening another"}
			}
		}
		return next(ctx, method, req)
	}
}

// admit adds a connection, unless all connections of its caller are in use.
func (c *connections) admit(session *mcp.ServerSession, caller string) bool {
	c.mu.Lock()
	if c.byID[session.ID()] != nil { // it initializes again
		c.mu.Unlock()
		return true
	}
	own := c.byCaller[caller]
	var oldest *connection
	if len(own) >= c.most {
		for _, other := range own {
			if other.open == 0 && (oldest == nil || other.used < oldest.used) {
				oldest = other
			}
		}
		if oldest == nil {
			c.mu.Unlock()
			return false
		}
		delete(own, oldest.session.ID()) // byID has it until it is closed
	}
	if own = c.byCaller[caller]; own == nil {
		own = map[string]*connection{}
		c.byCaller[caller] = own
	}
	c.uses++
	added := &connection{session: session, caller: caller, used: c.uses}
	own[session.ID()], c.byID[session.ID()] = added, added
	c.mu.Unlock()
	if oldest != nil {
		c.dismiss(oldest.session.ID()) // closing would wait for its calls
		_ = oldest.session.Close()
	}
	return true
}

// remove removes a connection and returns its caller; "" if it is unknown. The caller holds
// the lock.
func (c *connections) remove(id string) (caller string) {
	gone := c.byID[id]
	if gone == nil {
		return ""
	}
	delete(c.byID, id)
	own := c.byCaller[gone.caller]
	if delete(own, id); len(own) == 0 {
		delete(c.byCaller, gone.caller)
	}
	return gone.caller
}

// watch records when a connection is in use. A connection of another caller does not exist
// for this one: the request continues with an id that no connection has, so that it has no
// effect, and its answer is the same as for an unknown id.
func (c *connections) watch(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		id, caller := r.Header.Get(connectionHeader), c.authn.callerFrom(r.Context())
		used, foreign := c.use(id, caller)
		if foreign {
			c.foreign(caller, ForeignConnection)
		}
		if used == nil && c.answers.serve(w, r, caller) {
			return
		}
		if foreign {
			r.Header.Set(connectionHeader, rand.Text())
		}
		if used != nil {
			if c.isForeignStream(r.Header.Get("Last-Event-Id"), caller) { // the store does not find it
				c.foreign(caller, ForeignStream)
			}
			defer func() {
				c.mu.Lock()
				defer c.mu.Unlock()
				used.open--
				c.uses++
				used.used = c.uses
			}()
		}
		next.ServeHTTP(&retryWriter{w}, r)
	})
}

// use records a request for a connection; nil if the connection is unknown.
func (c *connections) use(id, caller string) (used *connection, foreign bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	used = c.byID[id]
	if used == nil || used.caller != caller {
		return nil, used != nil
	}
	used.open++
	return used, false
}

// isForeignStream reports whether an event id names a stream of another caller.
func (c *connections) isForeignStream(eventID, caller string) bool {
	id, _, _ := strings.Cut(eventID, "_")
	if id == "" { // the first stream of every connection has no name
		return false
	}
	connection := c.connectionOf(id)
	c.mu.Lock()
	defer c.mu.Unlock()
	owner := c.byID[connection]
	return owner != nil && owner.caller != caller
}

// SessionClosed implements mcp.EventStore.
func (c *connections) SessionClosed(ctx context.Context, id string) error {
	c.mu.Lock()
	caller := c.remove(id)
	c.mu.Unlock()
	if caller != "" {
		c.answers.forget(ctx, caller, id)
	}
	return c.replays.SessionClosed(ctx, id)
}

// Append implements mcp.EventStore.
func (c *connections) Append(ctx context.Context, id, of string, data []byte) error {
	index, answer := c.add(id, of, data)
	if !answer {
		return nil
	}
	c.mu.Lock()
	owner := c.byID[id]
	c.mu.Unlock()
	if owner != nil {
		c.answers.put(ctx, owner.caller, stream.Answer{Connection: id, Stream: of, Index: index, Data: data})
	}
	return nil
}
