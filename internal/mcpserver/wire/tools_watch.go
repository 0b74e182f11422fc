package wire

import (
	"context"
	"maps"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// toolsWatch is a connection whose client has listed the tools, or has subscribed to the changes of
// the list.
type toolsWatch struct {
	caller string
	id     any    // of the subscribing request; nil before 2026-07-28
	known  string // version of the list
	busy   bool   // a notification is being sent
}

const toolsChanged = "notifications/tools/list_changed"

// watchedTools notifies clients of changes of their tools.
type watchedTools struct{ *subscriptions }

// watchTools notifies the connections of each caller whose version changes, until o ends.
func (o watchedTools) watchTools(version func(caller string) string, server *mcp.Server) {
	server.AddReceivingMiddleware(func(next mcp.MethodHandler) mcp.MethodHandler {
		return func(ctx context.Context, method string, req mcp.Request) (mcp.Result, error) {
			switch r := req.(type) {
			case *mcp.ListToolsRequest:
				if !newer(req) {
					o.watchConnection(r.Session, o.authn.callerOf(ctx, req), version)
				}
			case *mcp.SubscriptionsListenRequest:
				if n := r.Params.Notifications; n != nil && n.ToolsListChanged {
					w := &toolsWatch{caller: o.authn.callerOf(ctx, req)}
					w.known = version(w.caller)
					defer o.unwatchTools(r.Session, w)
					ctx = onAcknowledged(ctx, func(id any) { w.id = id; o.addTools(r.Session, w) })
				}
			}
			return next(ctx, method, req)
		}
	})
	o.running.Go(func() { o.pollTools(version) })
}

// watchConnection watches for a connection until it ends.
func (o watchedTools) watchConnection(conn *mcp.ServerSession, caller string, version func(string) string) {
	o.mu.Lock()
	watched := o.tools[conn] != nil
	o.mu.Unlock()
	if watched {
		return
	}
	w := &toolsWatch{caller: caller, known: version(caller)}
	if !o.addTools(conn, w) {
		return
	}
	go func() {
		_ = conn.Wait() // logged elsewhere
		o.unwatchTools(conn, w)
	}()
}

// addTools reports whether it has added the watch: a connection has one.
func (o watchedTools) addTools(conn *mcp.ServerSession, w *toolsWatch) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.tools[conn] != nil {
		return false
	}
	o.tools[conn] = w
	return true
}

func (o watchedTools) unwatchTools(conn *mcp.ServerSession, w *toolsWatch) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.tools[conn] == w {
		delete(o.tools, conn)
	}
}

func (o watchedTools) pollTools(version func(string) string) {
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	for {
		select {
		case <-o.alive.Done():
			return
		case <-tick.C:
		}
		o.mu.Lock()
		watched := maps.Clone(o.tools)
		o.mu.Unlock()
		versions := map[string]string{}
		for conn, w := range watched {
			if _, ok := versions[w.caller]; !ok {
				versions[w.caller] = version(w.caller)
			}
			o.announceTools(conn, w, versions[w.caller])
		}
	}
}

// announceTools sends a notification if the version has changed since the last one. It does not wait
// for the client.
func (o watchedTools) announceTools(conn *mcp.ServerSession, w *toolsWatch, now string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.closed || w.busy || w.known == now {
		return
	}
	w.known, w.busy = now, true
	o.running.Go(func() {
		p := &mcp.ToolListChangedParams{}
		if w.id != nil {
			p.Meta = mcp.Meta{mcp.MetaKeySubscriptionID: w.id}
		}
		if _, err := o.send(o.alive, toolsChanged, &mcp.ServerRequest[*mcp.ToolListChangedParams]{Session: conn, Params: p}); err != nil {
			o.log.Debug("notify of changed tools", "error", err)
		}
		o.mu.Lock()
		defer o.mu.Unlock()
		w.busy = false
	})
}
