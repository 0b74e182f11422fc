package wire

import (
	"context"
	"net/http"
	"sync"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// connectionHeader names a connection of the older era.
const connectionHeader = "Mcp-Session-Id"

// connections are the open connections of the older era. The SDK tells it of
// their end as their event store.
type connections struct {
	mcp.EventStore
	who callers

	mu     sync.Mutex
	owners map[string]string // by id
}

func newConnections(who callers) *connections {
	return &connections{EventStore: mcp.NewMemoryEventStore(nil), who: who, owners: map[string]string{}}
}

// remember notes whose a new connection is.
func (c *connections) remember(next mcp.MethodHandler) mcp.MethodHandler {
	return func(ctx context.Context, method string, req mcp.Request) (mcp.Result, error) {
		if session, ok := req.GetSession().(*mcp.ServerSession); ok && method == "initialize" && session.ID() != "" {
			c.mu.Lock()
			c.owners[session.ID()] = c.who.of(ctx, req)
			c.mu.Unlock()
		}
		return next(ctx, method, req)
	}
}

// watch refuses a request for the connection of another caller before it has any
// effect. The SDK refuses it too, but later.
func (c *connections) watch(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		c.mu.Lock()
		owner, known := c.owners[r.Header.Get(connectionHeader)]
		c.mu.Unlock()
		if known && owner != c.who.on(r.Context()) {
			http.Error(w, "this connection belongs to another token", http.StatusForbidden)
			return
		}
		next.ServeHTTP(w, r)
	})
}

// SessionClosed implements mcp.EventStore.
func (c *connections) SessionClosed(ctx context.Context, id string) error {
	c.mu.Lock()
	delete(c.owners, id)
	c.mu.Unlock()
	return c.EventStore.SessionClosed(ctx, id)
}
