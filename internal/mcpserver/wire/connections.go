package wire

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"net/http"
	"strings"
	"sync"
	"time"

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
	most    int // of one caller
	scopeOf func(operation) string
	scopes  []string // all that operations need
	maxBody int64
	absence time.Duration                  // after which a connection without an open request is closed
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
	closing bool   // it has been chosen to be closed; no request may use it any more
	used    uint64 // number of its last use
	needs   needs  // of readers of its first stream, which has the notifications that it asked for
	absent  *time.Timer
	readers map[*reader]bool // of its first stream
}

// reader is a request that reads the first stream of a connection.
type reader struct {
	request context.Context // has the token
	end     context.CancelFunc
	ended   chan struct{}
}

// endReaders ends the requests that read the first stream of a connection if their tokens lack a scope
// that its notifications need since a request with another token, before that takes effect.
func (c *connections) endReaders(ctx context.Context, of *connection) {
	c.mu.Lock()
	var without []*reader
	for r := range of.readers {
		if c.authn.verify != nil && len(c.authn.missing(r.request, of.needs.all())) > 0 {
			without = append(without, r)
		}
	}
	c.mu.Unlock()
	for _, r := range without {
		r.end()
		select {
		case <-r.ended:
		case <-ctx.Done():
		}
	}
}

// read returns the request of a stream of a connection, which endReaders can end, until stop.
func (c *connections) read(of *connection, r *http.Request) (ending *http.Request, stop func()) {
	ctx, cancel := context.WithCancel(r.Context())
	one := &reader{request: ctx, end: cancel, ended: make(chan struct{})}
	c.mu.Lock()
	defer c.mu.Unlock()
	of.readers[one] = true
	return r.WithContext(ctx), func() {
		cancel()
		close(one.ended)
		c.mu.Lock()
		defer c.mu.Unlock()
		delete(of.readers, one)
	}
}

func newConnections(authn authenticator, cfg HTTPConfig, s *Server, dismiss func(string)) *connections {
	scopes := scopeTable{s.cfg}
	return &connections{
		replays:  newReplays(),
		authn:    authn,
		scopeOf:  scopes.scopeOf(),
		scopes:   scopes.scopes(),
		maxBody:  cfg.MaxBody,
		most:     cfg.CallerConnections,
		absence:  cfg.Absence,
		dismiss:  dismiss,
		foreign:  cfg.Foreign,
		answers:  keptAnswers{use: cfg.Answers, log: s.cfg.Log},
		byID:     map[string]*connection{},
		byCaller: map[string]map[string]*connection{},
	}
}

// remember records the caller of a new connection, and which scopes its notifications need.
func (c *connections) remember(next mcp.MethodHandler) mcp.MethodHandler {
	return func(ctx context.Context, method string, req mcp.Request) (mcp.Result, error) {
		if session, ok := req.GetSession().(*mcp.ServerSession); ok && method == "initialize" && session.ID() != "" {
			if !c.admit(session, c.authn.callerOf(ctx, req)) {
				return nil, &jsonrpc.Error{Code: jsonrpc.CodeInvalidRequest,
					Message: "all connections of this token are in use: close one before opening another"}
			}
		}
		if session, ok := req.GetSession().(*mcp.ServerSession); ok && (method == "logging/setLevel" || method == "resources/subscribe") {
			if of := c.find(session.ID()); of != nil {
				of.needs.add(c.scopeOf(operationOf(method, req)))
				c.endReaders(ctx, of)
			}
		}
		return next(ctx, method, req)
	}
}

func (c *connections) find(id string) *connection {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.byID[id]
}

// refuseUse answers a request that reads a stream of a connection, or that ends its requests, without the
// scopes that these need.
func (c *connections) refuseUse(w http.ResponseWriter, r *http.Request, of *connection, id string) bool {
	switch r.Method {
	case http.MethodGet:
		return c.refuseWithout(w, r, c.neededBy(of, id, r.Header.Get(lastEvent)))
	case http.MethodDelete:
		return c.refuseWithout(w, r, c.unanswered(id))
	}
	if c.authn.verify == nil || len(c.authn.missing(r.Context(), c.scopes)) == 0 {
		return false
	}
	return cancels(peek(r, c.maxBody)) && c.refuseWithout(w, r, c.unanswered(id))
}

// refuseWithout answers a request whose token lacks one of some scopes; nil means that they are not known,
// and may be any.
func (c *connections) refuseWithout(w http.ResponseWriter, r *http.Request, scopes []string) bool {
	if scopes == nil {
		scopes = c.scopes
	}
	missing := c.authn.missing(r.Context(), scopes)
	if len(missing) > 0 {
		c.authn.refuseScope(w, json.RawMessage("null"), missing...)
	}
	return len(missing) > 0
}

// neededBy returns the scopes that a GET needs to read a stream of a connection.
func (c *connections) neededBy(of *connection, id, lastEventID string) []string {
	needs := &of.needs
	if stream, _, _ := strings.Cut(lastEventID, "_"); stream != "" {
		if needs = c.needsOf(id, stream); needs == nil {
			return []string{} // there is no such stream
		}
	}
	return needs.all()
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
		oldest.closing = true
		delete(own, oldest.session.ID()) // byID has it until it is closed
	}
	if own = c.byCaller[caller]; own == nil {
		own = map[string]*connection{}
		c.byCaller[caller] = own
	}
	c.uses++
	added := &connection{session: session, caller: caller, used: c.uses, needs: needs{scopes: []string{}}, readers: map[*reader]bool{}}
	added.absent = time.AfterFunc(c.absence, func() { c.closeAbsent(added) })
	own[session.ID()], c.byID[session.ID()] = added, added
	c.mu.Unlock()
	if oldest != nil {
		c.dismiss(oldest.session.ID()) // closing would wait for its calls
		_ = oldest.session.Close()
	}
	return true
}

// closeAbsent closes a connection whose client has had no request open for the time of absence.
func (c *connections) closeAbsent(gone *connection) {
	c.mu.Lock()
	back := gone.open > 0
	gone.closing = gone.closing || !back
	c.mu.Unlock()
	if !back {
		c.dismiss(gone.session.ID())
		_ = gone.session.Close()
	}
}

// remove removes a connection and returns its caller; "" if it is unknown. The caller holds
// the lock.
func (c *connections) remove(id string) (caller string) {
	gone := c.byID[id]
	if gone == nil {
		return ""
	}
	gone.absent.Stop()
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
		used, foreign, closing := c.use(id, caller)
		if foreign {
			c.foreign(caller, ForeignConnection)
		}
		if used == nil && c.answers.serve(w, r, caller, c.refuseWithout) {
			return
		}
		if foreign || closing {
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
				if used.open == 0 && c.byID[id] == used {
					used.absent.Reset(c.absence)
				}
			}()
			if r.Method == http.MethodGet && isFirstStream(r.Header.Get(lastEvent)) {
				var stop func()
				r, stop = c.read(used, r) // before its scopes are checked
				defer stop()
			}
			if c.refuseUse(w, r, used, id) {
				return
			}
		}
		next.ServeHTTP(&firstEventWriter{w}, r)
	})
}

// use records a request for a connection; nil if the connection is unknown, of another caller or
// being closed.
func (c *connections) use(id, caller string) (used *connection, foreign, closing bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	used = c.byID[id]
	switch {
	case used == nil:
		return nil, false, false
	case used.caller != caller:
		return nil, true, false
	case used.closing:
		return nil, false, true
	}
	used.open++
	used.absent.Stop()
	return used, false, false
}

// isFirstStream reports whether an event id is of the first stream of a connection, which has no name.
func isFirstStream(eventID string) bool { return eventID == "" || eventID[0] == '_' }

// isForeignStream reports whether an event id names a stream of another caller.
func (c *connections) isForeignStream(eventID, caller string) bool {
	id, _, _ := strings.Cut(eventID, "_")
	if isFirstStream(eventID) {
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
	var scopes []string
	if n := c.needsOf(id, of); n != nil { // add may remove the stream
		scopes = n.all()
	}
	index, answer := c.add(id, of, data)
	if !answer {
		return nil
	}
	if owner := c.find(id); owner != nil {
		c.answers.put(ctx, owner.caller, stream.Answer{Connection: id, Stream: of, Index: index, Data: data, Scopes: scopes})
	}
	return nil
}
