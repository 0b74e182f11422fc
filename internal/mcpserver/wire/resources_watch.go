package wire

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// watch is the subscription of one client.
type watch struct {
	conn   *mcp.ServerSession
	caller string
	uris   []string
	known  []string // the versions last sent
	id     any      // id of the subscribing request; nil before 2026-07-28
}

// poll notifies the subscriber of w of changes until ctx ends.
func (o *subscriptions) poll(ctx context.Context, w watch) {
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
			o.log.Debug("check subscribed resources", "error", err)
			continue
		}
		for i, uri := range w.uris {
			if w.known[i] != versions[i] {
				w.known[i] = versions[i]
				o.notify(ctx, w, uri)
			}
		}
	}
}

// versions is Versions, contained.
func (o *subscriptions) versions(ctx context.Context, caller string, uris []string) (versions []string, err error) {
	defer o.contain("notifications/resources/updated", &err)
	return o.Versions(ctx, caller, uris)
}

func (o *subscriptions) notify(ctx context.Context, w watch, uri string) {
	p := &mcp.ResourceUpdatedNotificationParams{URI: uri}
	if w.id != nil {
		p.Meta = mcp.Meta{mcp.MetaKeySubscriptionID: w.id}
	}
	_, err := o.send(ctx, "notifications/resources/updated",
		&mcp.ServerRequest[*mcp.ResourceUpdatedNotificationParams]{Session: w.conn, Params: p})
	if err != nil {
		o.log.Debug("notify subscriber", "error", err)
	}
}

// done is an empty result.
type done struct{ mcp.ResultBase }

// subscribe subscribes to one URI until the connection ends, before 2026-07-28.
func (o *subscriptions) subscribe(ctx context.Context, r *mcp.SubscribeRequest) (mcp.Result, error) {
	w := watch{conn: r.Session, caller: o.authn.callerOf(ctx, r), uris: []string{r.Params.URI}}
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
	// The request's context would associate the notifications with its answer.
	ctx, cancel := context.WithCancel(o.alive)
	stops[r.Params.URI] = func() { cancel(); o.free(w) }
	o.running.Go(func() { o.poll(ctx, w) })
	return &done{}, nil
}

func (o *subscriptions) unsubscribe(r *mcp.UnsubscribeRequest) (mcp.Result, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	stops := o.older[r.Session]
	if stop := stops[r.Params.URI]; stop != nil {
		stop()
		delete(stops, r.Params.URI)
	}
	return &done{}, nil
}

// forget ends the subscriptions of a connection that ended.
func (o *subscriptions) forget(conn *mcp.ServerSession) {
	_ = conn.Wait() // logged elsewhere
	o.mu.Lock()
	defer o.mu.Unlock()
	for _, stop := range o.older[conn] {
		stop()
	}
	delete(o.older, conn)
}

// listen subscribes by a request that stays open, since 2026-07-28. The SDK acknowledges
// it and waits; the acknowledgement passes sending, which finds the id of the request
// by its context.
func (o *subscriptions) listen(ctx context.Context, r *mcp.SubscriptionsListenRequest, next mcp.MethodHandler) (mcp.Result, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(o.alive, cancel)()
	if n := r.Params.Notifications; n != nil && len(n.ResourceSubscriptions) > 0 {
		acknowledged := make(chan any, 1)
		leave, err := o.startPolling(ctx, r, acknowledged)
		if err != nil {
			return nil, err
		}
		defer leave()
		ctx = onAcknowledged(ctx, func(id any) { acknowledged <- id })
	}
	return next(ctx, "subscriptions/listen", r)
}

// startPolling polls for the subscriptions of r once they are acknowledged, until ctx ends;
// leave releases them.
func (o *subscriptions) startPolling(ctx context.Context, r *mcp.SubscriptionsListenRequest, acknowledged <-chan any) (leave func(),
	err error) {
	uris := slices.Sorted(slices.Values(r.Params.Notifications.ResourceSubscriptions))
	w := watch{conn: r.Session, caller: o.authn.callerOf(ctx, r), uris: slices.Compact(uris)}
	if err := o.checkLimit("a connection", 0, len(w.uris), o.maxSubscriptions()); err != nil {
		return nil, err // before reading many files
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
		w := w // with its own id
		select {
		case w.id = <-acknowledged:
			o.poll(ctx, w)
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

// onAcknowledged calls f with the id of the subscribing request of ctx when it is acknowledged.
func onAcknowledged(ctx context.Context, f func(id any)) context.Context {
	before, _ := ctx.Value(acknowledgedKey{}).(func(any))
	return context.WithValue(ctx, acknowledgedKey{}, func(id any) {
		if before != nil {
			before(id)
		}
		f(id)
	})
}

// sending learns how to send to a connection, and the ids of subscribing requests, which
// the SDK does not expose.
func (o *subscriptions) sending(next mcp.MethodHandler) mcp.MethodHandler {
	o.send = next
	return func(ctx context.Context, method string, req mcp.Request) (mcp.Result, error) {
		res, err := next(ctx, method, req)
		if ack, ok := req.GetParams().(*mcp.SubscriptionsAcknowledgedParams); ok && err == nil {
			if f, ok := ctx.Value(acknowledgedKey{}).(func(any)); ok {
				f(ack.Meta[mcp.MetaKeySubscriptionID])
			}
		}
		return res, err
	}
}

// callerConnections is the number of connections with all subscriptions that a caller
// may have.
const callerConnections = 10

// reserve counts the subscriptions of w. The caller holds the lock, and starts polling
// before releasing it.
func (o *subscriptions) reserve(w watch) error {
	if o.closed {
		return errStopped
	}
	if err := o.checkLimit("a connection", o.conns[w.conn], len(w.uris), o.maxSubscriptions()); err != nil {
		return err
	}
	if err := o.checkLimit("a client", o.callers[w.caller], len(w.uris), callerConnections*o.maxSubscriptions()); err != nil {
		return err
	}
	o.conns[w.conn] += len(w.uris)
	o.callers[w.caller] += len(w.uris)
	return nil
}

// free undoes reserve; the caller holds the lock.
func (o *subscriptions) free(w watch) {
	if o.conns[w.conn] -= len(w.uris); o.conns[w.conn] == 0 {
		delete(o.conns, w.conn)
	}
	if o.callers[w.caller] -= len(w.uris); o.callers[w.caller] == 0 {
		delete(o.callers, w.caller)
	}
}

func (o *subscriptions) maxSubscriptions() int {
	if o.MaxSubscriptions == 0 {
		return 100
	}
	return o.MaxSubscriptions
}

func (o *subscriptions) checkLimit(owner string, has, more, limit int) error {
	if has+more <= limit {
		return nil
	}
	return &jsonrpc.Error{Code: jsonrpc.CodeInvalidParams, Message: fmt.Sprintf(
		"%s may have %d subscriptions and has %d: end some before asking for %d more", owner, limit, has, more)}
}

// close ends all subscriptions and waits for their polling, at most a second, since one
// may block in a write. It is idempotent.
func (o *subscriptions) close() {
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
