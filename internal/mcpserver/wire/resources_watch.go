package wire

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// watch is what one subscriber wants to hear of.
type watch struct {
	conn   *mcp.ServerSession
	caller string
	uris   []string
	known  []string // the versions that the subscriber knows of
	id     any      // of the request that subscribed; nil in the older era
}

// look tells w's subscriber of changes until ctx ends.
func (o *offer) look(ctx context.Context, w watch) {
	every := o.Every
	if every == 0 {
		every = time.Second
	}
	tick := time.NewTicker(every)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		versions, err := o.versions(ctx, w.caller, w.uris)
		if err != nil {
			o.log.Debug("subscribed resources were not looked at", "error", err)
			continue
		}
		for i, uri := range w.uris {
			if w.known[i] != versions[i] {
				w.known[i] = versions[i]
				o.tell(ctx, w, uri)
			}
		}
	}
}

// versions is Versions, contained.
func (o *offer) versions(ctx context.Context, caller string, uris []string) (versions []string, err error) {
	defer o.contain("notifications/resources/updated", &err)
	return o.Versions(ctx, caller, uris)
}

func (o *offer) tell(ctx context.Context, w watch, uri string) {
	p := &mcp.ResourceUpdatedNotificationParams{URI: uri}
	if w.id != nil {
		p.Meta = mcp.Meta{mcp.MetaKeySubscriptionID: w.id}
	}
	_, err := o.send(ctx, "notifications/resources/updated",
		&mcp.ServerRequest[*mcp.ResourceUpdatedNotificationParams]{Session: w.conn, Params: p})
	if err != nil {
		o.log.Debug("a subscriber was not told of a change", "error", err)
	}
}

// done is an answer that says no more than that.
type done struct{ mcp.ResultBase }

// subscribe is the older era's way: one URI a request, until the connection
// ends.
func (o *offer) subscribe(ctx context.Context, r *mcp.SubscribeRequest) (mcp.Result, error) {
	w := watch{conn: r.Session, caller: o.who.of(ctx, r), uris: []string{r.Params.URI}}
	var err error
	if w.known, err = o.Versions(ctx, w.caller, w.uris); err != nil {
		return nil, o.refuse(r, r.Params.URI, err)
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	stops := o.older[w.conn]
	if _, ok := stops[r.Params.URI]; ok {
		return &done{}, nil
	}
	if err := o.reserve(w); err != nil {
		return nil, err
	}
	if stops == nil {
		stops = map[string]func(){}
		o.older[w.conn] = stops
		go o.forget(w.conn)
	}
	// The request's own context would tie the notifications to its answer.
	ctx, cancel := context.WithCancel(o.alive)
	stops[r.Params.URI] = func() { cancel(); o.free(w) }
	o.running.Go(func() { o.look(ctx, w) })
	return &done{}, nil
}

func (o *offer) unsubscribe(r *mcp.UnsubscribeRequest) (mcp.Result, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	stops := o.older[r.Session]
	if stop := stops[r.Params.URI]; stop != nil {
		stop()
		delete(stops, r.Params.URI)
	}
	return &done{}, nil
}

// forget ends the subscriptions of a connection of the older era with it.
func (o *offer) forget(conn *mcp.ServerSession) {
	_ = conn.Wait() // why it ended is told elsewhere
	o.mu.Lock()
	defer o.mu.Unlock()
	for _, stop := range o.older[conn] {
		stop()
	}
	delete(o.older, conn)
}

// listen is the newer era's way: a request that stays open as long as somebody
// wants to hear. The SDK acknowledges it and waits; what it acknowledges is sent
// through sending, which knows by the context whom to tell of the request's id.
func (o *offer) listen(ctx context.Context, r *mcp.SubscriptionsListenRequest, next mcp.MethodHandler) (mcp.Result, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(o.alive, cancel)()
	if n := r.Params.Notifications; n != nil && len(n.ResourceSubscriptions) > 0 {
		acknowledged := make(chan any, 1)
		leave, err := o.attend(ctx, r, acknowledged)
		if err != nil {
			return nil, err
		}
		defer leave()
		ctx = context.WithValue(ctx, acknowledgedKey{}, acknowledged)
	}
	return next(ctx, "subscriptions/listen", r)
}

// attend looks after the subscriptions of r once they are acknowledged, until
// ctx ends; leave gives their places back.
func (o *offer) attend(ctx context.Context, r *mcp.SubscriptionsListenRequest, acknowledged <-chan any) (leave func(), err error) {
	uris := slices.Sorted(slices.Values(r.Params.Notifications.ResourceSubscriptions))
	w := watch{conn: r.Session, caller: o.who.of(ctx, r), uris: slices.Compact(uris)}
	if err := o.room("a connection", 0, len(w.uris), o.most()); err != nil {
		return nil, err // before anybody looks at a million files
	}
	if w.known, err = o.Versions(ctx, w.caller, w.uris); err != nil {
		return nil, o.refuse(r, "", err)
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	if err := o.reserve(w); err != nil {
		return nil, err
	}
	o.running.Go(func() {
		w := w // of which the id is known here alone
		select {
		case w.id = <-acknowledged:
			o.look(ctx, w)
		case <-ctx.Done():
		}
	})
	return func() {
		o.mu.Lock()
		defer o.mu.Unlock()
		o.free(w)
	}, nil
}

type acknowledgedKey struct{}

// sending learns how to send to one connection, and the ids of requests that
// subscribe: the SDK shows them nowhere else.
func (o *offer) sending(next mcp.MethodHandler) mcp.MethodHandler {
	o.send = next
	return func(ctx context.Context, method string, req mcp.Request) (mcp.Result, error) {
		res, err := next(ctx, method, req)
		if ack, ok := req.GetParams().(*mcp.SubscriptionsAcknowledgedParams); ok && err == nil {
			if acknowledged, ok := ctx.Value(acknowledgedKey{}).(chan any); ok {
				acknowledged <- ack.Meta[mcp.MetaKeySubscriptionID]
			}
		}
		return res, err
	}
}

// callerConnections is how many connections full of subscriptions a caller may
// have.
const callerConnections = 10

// reserve counts the subscriptions of w. The caller holds the lock, and starts to
// look before it gives it back.
func (o *offer) reserve(w watch) error {
	if o.closed {
		return errStopped
	}
	if err := o.room("a connection", o.conns[w.conn], len(w.uris), o.most()); err != nil {
		return err
	}
	if err := o.room("a client", o.callers[w.caller], len(w.uris), callerConnections*o.most()); err != nil {
		return err
	}
	o.conns[w.conn] += len(w.uris)
	o.callers[w.caller] += len(w.uris)
	return nil
}

// free gives back what reserve counted; the caller holds the lock.
func (o *offer) free(w watch) {
	if o.conns[w.conn] -= len(w.uris); o.conns[w.conn] == 0 {
		delete(o.conns, w.conn)
	}
	if o.callers[w.caller] -= len(w.uris); o.callers[w.caller] == 0 {
		delete(o.callers, w.caller)
	}
}

func (o *offer) most() int {
	if o.MaxSubscriptions == 0 {
		return 100
	}
	return o.MaxSubscriptions
}

func (o *offer) room(who string, has, more, most int) error {
	if has+more <= most {
		return nil
	}
	return &jsonrpc.Error{Code: jsonrpc.CodeInvalidParams, Message: fmt.Sprintf(
		"%s may have %d subscriptions and has %d: end some before asking for %d more", who, most, has, more)}
}

// close ends all subscriptions and waits until nobody looks any more: a second
// at most, since one may hang in a write that nobody reads. It is idempotent.
func (o *offer) close() {
	o.end()
	o.mu.Lock()
	o.closed = true
	o.mu.Unlock()
	ended := make(chan struct{})
	go func() { o.running.Wait(); close(ended) }()
	select {
	case <-ended:
	case <-time.After(time.Second):
	}
}
