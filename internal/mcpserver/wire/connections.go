package wire

import (
	"context"
	"net/http"
	"sync"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// connectionHeader is the id of a connection before 2026-07-28.
const connectionHeader = "Mcp-Session-Id"

// connections are the open connections before 2026-07-28. Their number is limited per
// caller: a new one replaces the one that was idle longest, as if that had timed out.
// The SDK reports their end to them as to an event store.
type connections struct {
	*replays
	authn   authenticator
	most    int          // of one caller
	dismiss func(string) // cancels the calls of a connection

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

func newConnections(authn authenticator, most int, dismiss func(string)) *connections {
	return &connections{replays: newReplays(), authn: authn, most: most, dismiss: dismiss,
		byID: map[string]*connection{}, byCaller: map[string]map[string]*connection{}}
}

// remember records the caller of a new connection.
func (c *connections) remember(next mcp.MethodHandler) mcp.MethodHandler {
	return func(ctx context.Context, method string, req mcp.Request) (mcp.Result, error) {
		if session, ok := req.GetSession().(*mcp.ServerSession); ok && method == "initialize" && session.ID() != "" {
			if !c.add(session, c.authn.callerOf(ctx, req)) {
				return nil, &jsonrpc.Error{Code: jsonrpc.CodeInvalidRequest,
					Message: "all connections of this token are in use: close one before opening another"}
			}
		}
		return next(ctx, method, req)
	}
}

// add adds a connection, unless all connections of its caller are in use.
func (c *connections) add(session *mcp.ServerSession, caller string) bool {
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
		c.remove(oldest.session.ID())
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

// remove removes a connection; the caller holds the lock.
func (c *connections) remove(id string) {
	gone := c.byID[id]
	if gone == nil {
		return
	}
	delete(c.byID, id)
	if own := c.byCaller[gone.caller]; len(own) > 1 {
		delete(own, id)
	} else {
		delete(c.byCaller, gone.caller)
	}
}

// watch rejects a request for another caller's connection before it has any effect, and
// records when a connection is in use. The SDK rejects it too, but later.
func (c *connections) watch(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		used, foreign := c.use(r.Header.Get(connectionHeader), c.authn.callerFrom(r.Context()))
		if foreign {
			http.Error(w, "this connection was opened with another token", http.StatusForbidden)
			return
		}
		if used != nil {
			defer func() {
				c.mu.Lock()
				defer c.mu.Unlock()
				used.open--
				c.uses++
				used.used = c.uses
			}()
		}
		next.ServeHTTP(w, r)
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

// SessionClosed implements mcp.EventStore.
func (c *connections) SessionClosed(ctx context.Context, id string) error {
	c.mu.Lock()
	c.remove(id)
	c.mu.Unlock()
	return c.replays.SessionClosed(ctx, id)
}
