package daemon

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/sandpiper-mcp/sandpiper/internal/audit"
	"github.com/sandpiper-mcp/sandpiper/internal/config"
	"github.com/sandpiper-mcp/sandpiper/internal/store/tenant"
	"github.com/sandpiper-mcp/sandpiper/internal/tool/catalog"
	"github.com/sandpiper-mcp/sandpiper/internal/upstream"
)

// servers keeps the catalog and the generated modules up to date. A server that was
// listed once is listed again when requested, when it reports a changed list, and
// concurrently with the first call over a new connection.
type servers struct {
	catalogModules
	Set     *upstream.Set
	own     *ownServers // of tenants with credentials of their own
	tenants func() *config.Tenants
	lookup  atomic.Pointer[func(string) (string, bool)] // of the configuration; a nil function knows no variable
	audit   *audit.Log
	log     *slog.Logger

	failures failures

	failed      func(server string, err error) // as in serversConfig
	quarantined func(server, tool string)

	started sync.Once
	spawn   func(f func(context.Context)) // runs f in a goroutine of work, with a context that cancel ends
	cancel  context.CancelFunc
	work    sync.WaitGroup

	now atomic.Pointer[serverSet] // replaced with writing locked

	mu       sync.Mutex
	listing  map[string]*listing // by server, running requests
	unlisted map[string]bool     // servers that listUntilDone tries to list
}

// listing is one tools/list request, shared by all its callers.
type listing struct {
	done   chan struct{}
	change catalog.Change
	err    error
}

// start writes the modules of known tools and lists the servers that were never listed.
// Only code that names servers waits for it. It does this once.
func (v *servers) start() {
	v.started.Do(func() {
		v.writeOnce(v.spawn)
		v.listUnlisted()
	})
}

// startIndexed is start for clients, which search first: the search index is read or built before the
// modules, and stored for the next process. A command that runs code once would spend a third of its time on it.
func startIndexed(v *servers) {
	v.started.Do(func() {
		v.listUnlisted()
		v.spawn(func(context.Context) {
			catalog.Warm(v.Catalog)
			if err := catalog.Store(v.Catalog); err != nil {
				v.log.Warn("the search index was not stored: the next start takes longer", "error", err)
			}
			v.writeOnce(v.spawn)
		})
	})
}

// listUnlisted lists the servers that were never listed, in the background.
func (v *servers) listUnlisted() {
	for _, s := range catalog.OverviewFor(v.Catalog, catalog.Viewer{}).Servers {
		if !s.Connected || !s.Listed.IsZero() {
			continue
		}
		v.mu.Lock()
		trying := v.unlisted[s.Name]
		v.unlisted[s.Name] = true
		v.mu.Unlock()
		if !trying {
			v.spawn(func(ctx context.Context) { v.listUntilDone(ctx, s.Name) })
		}
	}
}

// Waits between attempts to list a server.
const (
	firstWait = 5 * time.Second
	lastWait  = 5 * time.Minute
)

// listUntilDone lists a server, and retries until it answers or is removed.
func (v *servers) listUntilDone(ctx context.Context, name string) {
	defer func() {
		v.mu.Lock()
		defer v.mu.Unlock()
		delete(v.unlisted, name)
	}()
	for wait := firstWait; ; wait = min(2*wait, lastWait) {
		_, err := v.List(ctx, name)
		if err == nil || ctx.Err() != nil || !needsListing(v.Catalog, name) {
			return
		}
		v.log.Warn("listing the tools of a server failed", "server", name, "error", err, "retry_in", wait)
		select {
		case <-time.After(wait):
		case <-ctx.Done():
			return
		}
	}
}

func needsListing(c *catalog.Catalog, name string) bool {
	s, ok := c.Now().Server(name)
	return ok && s.Name == name && s.Connected && s.Listed.IsZero()
}

// listWith lists the tools of a server with the shared credentials. If that fails, it uses those
// of a tenant: a server that only tenants have credentials for has the same tools for all.
func (v *servers) listWith(ctx context.Context, name string) (upstream.Listing, error) {
	got, err := v.Set.List(ctx, name)
	if err == nil {
		return got, nil
	}
	if id, ok := v.tenants().WithCredentials(name); ok {
		if own, second := v.own.of(id, name).List(ctx, name); second == nil {
			return own, nil
		}
	}
	return got, err
}

// changed lists a server again, whose tools have changed.
func (v *servers) changed(ctx context.Context, name string) {
	if _, err := v.List(ctx, name); err != nil && ctx.Err() == nil {
		v.log.Warn("listing the changed tools of a server failed", "server", name, "error", err)
	}
}

// List lists the tools of a server and stores them in the catalog. Concurrent calls share
// one request.
func (v *servers) List(ctx context.Context, name string) (catalog.Change, error) {
	v.mu.Lock()
	l := v.listing[name]
	if l == nil {
		l = &listing{done: make(chan struct{})}
		v.listing[name] = l
		v.spawn(func(ctx context.Context) { v.request(ctx, name, l) })
	}
	v.mu.Unlock()
	select {
	case <-l.done:
		return l.change, l.err
	case <-ctx.Done():
		return catalog.Change{}, context.Cause(ctx)
	}
}

func (v *servers) isListing(name string) bool {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.listing[name] != nil
}

func (v *servers) request(ctx context.Context, name string, l *listing) {
	defer close(l.done)
	defer func() {
		v.mu.Lock()
		defer v.mu.Unlock()
		if v.listing[name] == l { // reload may have replaced it
			delete(v.listing, name)
		}
	}()
	got, err := v.listWith(ctx, name)
	if err == nil {
		l.change, err = v.storeListing(ctx, name, got)
	}
	if ctx.Err() == nil {
		v.noteListing(name, err)
	}
	if l.err = err; err != nil {
		if ctx.Err() == nil {
			v.failed(name, err)
		}
		return
	}
	for _, t := range l.change.Quarantined {
		v.quarantined(name, t)
		v.log.Warn("a tool is quarantined: it is new or has changed, and must be accepted", "server", name, "tool", t,
			"accept", fmt.Sprintf("sandpiper tools accept %s %s", name, t))
	}
}

func (v *servers) storeListing(ctx context.Context, name string, got upstream.Listing) (catalog.Change, error) {
	return v.store(ctx, name, catalog.Listing{
		Title:        got.Info.Title,
		Version:      got.Info.Version,
		Instructions: got.Info.Instructions,
		Resources:    got.Info.Resources,
		Prompts:      got.Info.Prompts,
		Legacy:       got.Info.Legacy,
		Tools:        got.Tools,
		Notes:        got.Notes,
		Identity:     got.Identity,
	})
}

// Know waits until the modules of some servers can be imported. It lists servers that
// were never listed, and returns an error for each that fails. It does not need start: commands
// that run no code with tools list no other servers.
func (v *servers) Know(ctx context.Context, names ...string) map[string]error {
	v.writeOnce(v.spawn)
	now := v.await(ctx)
	var all sync.WaitGroup
	var mu sync.Mutex
	why := map[string]error{}
	for _, name := range names {
		s, ok := now.Server(name)
		if !ok || !s.Connected || !s.Listed.IsZero() {
			continue
		}
		all.Go(func() {
			if _, err := v.List(ctx, s.Name); err != nil {
				mu.Lock()
				defer mu.Unlock()
				why[s.Name] = err
			}
		})
	}
	all.Wait()
	v.follow(ctx) // another process may have listed a server at the same time
	return why
}

// Accept trusts the new definitions of quarantined tools, if they are those that were shown: see
// catalog.AcceptShown.
func (v *servers) Accept(ctx context.Context, server, shown string, tools ...string) ([]string, error) {
	accepted, err := v.accept(ctx, server, shown, tools...)
	if err != nil {
		return accepted, err
	}
	for _, name := range accepted {
		line := audit.Line{Kind: audit.Configuration, Server: server, Tool: name, Outcome: "accepted"}
		if err := record(ctx, v.audit, line, fmt.Sprintf("%s.%s is accepted", server, name)); err != nil {
			return accepted, err
		}
	}
	return accepted, nil
}

// ListOwn is List over the connection that Login has made for a tenant.
func (v *servers) ListOwn(ctx context.Context, id tenant.ID, server string) (catalog.Change, error) {
	got, err := v.own.open(id, server).List(ctx, server)
	if err != nil {
		return catalog.Change{}, err
	}
	return v.storeListing(ctx, server, got)
}

// Login logs a person in to a server: for all tenants, or for one, with a login that no other tenant uses.
func (v *servers) Login(ctx context.Context, id tenant.ID, server string, p upstream.Interaction) error {
	if err := v.own.loginSet(id, server).Login(ctx, server, p); err != nil {
		recordFailure(v, audit.Line{Kind: audit.Login, Tenant: id, Server: server, Outcome: "login_failed"})
		return err
	}
	return record(ctx, v.audit, audit.Line{Kind: audit.Login, Tenant: id, Server: server, Outcome: "logged_in"}, "the login is stored")
}

// Logout deletes a login, of all tenants or of one. unrevoked is the reason why its tokens stay valid until
// they expire, if they do.
func (v *servers) Logout(ctx context.Context, id tenant.ID, server string) (unrevoked, err error) {
	if unrevoked, err = v.own.loginSet(id, server).Logout(ctx, server); err != nil {
		recordFailure(v, audit.Line{Kind: audit.Login, Tenant: id, Server: server, Outcome: "logout_failed"})
		return unrevoked, err
	}
	return unrevoked, record(ctx, v.audit, audit.Line{Kind: audit.Login, Tenant: id, Server: server, Outcome: "logged_out"},
		"the login is deleted")
}

// recordFailure records a failed login or logout, unless it was of an unknown server.
func recordFailure(v *servers, line audit.Line) {
	if _, known := v.Catalog.Now().Server(line.Server); known {
		v.audit.AppendLater(line)
	}
}

func (v *servers) close() error {
	v.cancel()
	_ = v.own.close()
	v.Set.Close()
	v.work.Wait()
	return nil
}
