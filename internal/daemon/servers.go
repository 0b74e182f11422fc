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
	"github.com/sandpiper-mcp/sandpiper/internal/home"
	"github.com/sandpiper-mcp/sandpiper/internal/store/tenant"
	"github.com/sandpiper-mcp/sandpiper/internal/tool/catalog"
	"github.com/sandpiper-mcp/sandpiper/internal/tool/codegen"
	"github.com/sandpiper-mcp/sandpiper/internal/upstream"
)

// servers keeps the catalog and the generated modules up to date. A server that was
// listed once is listed again when requested, when it reports a changed list, and
// concurrently with the first call over a new connection.
type servers struct {
	Catalog *catalog.Catalog
	Set     *upstream.Set
	own     *ownServers // of tenants with credentials of their own
	tenants func() *config.Tenants
	modules *modules
	lookup  atomic.Pointer[func(string) (string, bool)] // of the configuration; a nil function knows no variable
	audit   *audit.Log
	log     *slog.Logger

	failures failures

	failed      func(server string, err error) // as in serversConfig
	quarantined func(server, tool string)

	started sync.Once
	first   sync.Once                     // of writeModules
	spawn   func(f func(context.Context)) // runs f in a goroutine of work, with a context that cancel ends
	cancel  context.CancelFunc
	work    sync.WaitGroup

	writing sync.RWMutex              // held while servers, catalog and modules change together
	now     atomic.Pointer[serverSet] // replaced with writing locked
	written chan struct{}             // closed when the modules were first written

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
func (v *servers) start() { v.started.Do(v.startOnce) }

func (v *servers) startOnce() {
	v.first.Do(v.writeModules)
	v.listUnlisted()
}

// writeModules writes the modules of known tools, in the background.
func (v *servers) writeModules() {
	v.spawn(func(ctx context.Context) {
		v.writing.Lock()
		v.modules.write(ctx, v.Catalog)
		v.writing.Unlock()
		close(v.written)
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
			v.first.Do(v.writeModules)
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
		if err == nil || ctx.Err() != nil || !v.needsListing(name) {
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

func (v *servers) needsListing(name string) bool {
	s, ok := v.Catalog.Now().Server(name)
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
		Title: got.Info.Title, Version: got.Info.Version, Instructions: got.Info.Instructions,
		Resources: got.Info.Resources, Prompts: got.Info.Prompts, Legacy: got.Info.Legacy, Tools: got.Tools, Notes: got.Notes, Identity: got.Identity,
	})
}

// store stores a listing and writes the modules, before Know can return.
func (v *servers) store(ctx context.Context, name string, listing catalog.Listing) (catalog.Change, error) {
	v.writing.Lock()
	defer v.writing.Unlock()
	change, err := v.Catalog.Put(ctx, name, listing)
	if err == nil && change.Modules {
		v.modules.write(ctx, v.Catalog)
	}
	return change, err
}

// follow writes the modules after another process has changed the catalog.
func (v *servers) follow(ctx context.Context) {
	if v.modules.isCurrent(v.Catalog.Now()) {
		return
	}
	v.writing.Lock()
	defer v.writing.Unlock()
	v.modules.write(ctx, v.Catalog)
}

// inferrer returns a function that writes the modules of a tenant with what was inferred from results
// since it was last called.
func inferrer(v *servers) func(context.Context, *home.Home) {
	return func(ctx context.Context, h *home.Home) {
		if v.modules.inferred.changed(h) {
			v.writing.Lock()
			defer v.writing.Unlock()
			v.modules.infer(ctx, h)
		}
	}
}

// connected returns the module names of the configured servers.
func (v *servers) connected() (names []string) {
	for _, s := range catalog.OverviewFor(v.Catalog, catalog.Viewer{}).Servers {
		if s.Connected {
			names = append(names, s.Module)
		}
	}
	return names
}

// Know waits until the modules of some servers can be imported. It lists servers that
// were never listed, and returns an error for each that fails. It does not need start: commands
// that run no code with tools list no other servers.
func (v *servers) Know(ctx context.Context, names ...string) map[string]error {
	v.first.Do(v.writeModules)
	select {
	case <-v.written:
	case <-ctx.Done():
	}
	v.writing.RLock()
	now := v.Catalog.Now()
	v.writing.RUnlock()
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

// handwritten returns the names of handwritten modules.
func (v *servers) handwritten() map[string]map[string]bool { return v.modules.names(v.Catalog.Now()) }

// functions returns the functions of handwritten modules, for search.
func (v *servers) functions() []codegen.Handwritten { return v.modules.functions(v.Catalog.Now()) }

// Accept trusts the new definitions of quarantined tools, if they are those that were shown: see
// catalog.AcceptShown.
func (v *servers) Accept(ctx context.Context, server, shown string, tools ...string) ([]string, error) {
	v.writing.Lock()
	accepted, err := v.Catalog.AcceptShown(ctx, server, shown, tools...)
	if err == nil {
		v.modules.write(context.WithoutCancel(ctx), v.Catalog)
	}
	v.writing.Unlock()
	if err != nil {
		return accepted, err
	}
	for _, name := range accepted {
		line := audit.Line{Kind: audit.Configuration, Server: server, Tool: name, Outcome: "accepted"}
		if err := v.record(ctx, line, fmt.Sprintf("%s.%s is accepted", server, name)); err != nil {
			return accepted, err
		}
	}
	return accepted, nil
}

// Login logs a person in to a server.
func (v *servers) Login(ctx context.Context, server string, p upstream.Interaction) error {
	if err := v.Set.Login(ctx, server, p); err != nil {
		if v.known(server) { // an unknown name is not recorded
			v.audit.AppendLater(audit.Line{Kind: audit.Login, Server: server, Outcome: "login_failed"})
		}
		return err
	}
	return v.record(ctx, audit.Line{Kind: audit.Login, Server: server, Outcome: "logged_in"}, "the login is stored")
}

// LoginTenant logs a tenant in to a server, with a login that no other tenant uses, and lists the
// tools of the server.
func (v *servers) LoginTenant(ctx context.Context, id tenant.ID, server string, p upstream.Interaction) (catalog.Change, error) {
	set := v.own.open(id, server)
	line := audit.Line{Kind: audit.Login, Tenant: id, Server: server, Outcome: "login_failed"}
	if err := set.Login(ctx, server, p); err != nil {
		if v.known(server) {
			v.audit.AppendLater(line)
		}
		return catalog.Change{}, err
	}
	line.Outcome = "logged_in"
	if err := v.record(ctx, line, "the login is stored"); err != nil {
		return catalog.Change{}, err
	}
	got, err := set.List(ctx, server)
	if err != nil {
		return catalog.Change{}, err
	}
	return v.storeListing(ctx, server, got)
}

// LogoutTenant is Logout for the login of a tenant.
func (v *servers) LogoutTenant(ctx context.Context, id tenant.ID, server string) (unrevoked, err error) {
	line := audit.Line{Kind: audit.Login, Tenant: id, Server: server, Outcome: "logged_out"}
	if unrevoked, err = v.own.open(id, server).Logout(ctx, server); err != nil {
		if line.Outcome = "logout_failed"; v.known(server) {
			v.audit.AppendLater(line)
		}
		return unrevoked, err
	}
	return unrevoked, v.record(ctx, line, "the login is deleted")
}

// Logout deletes a login. unrevoked is the reason why its tokens stay valid until they
// expire, if they do.
func (v *servers) Logout(ctx context.Context, server string) (unrevoked, err error) {
	if unrevoked, err = v.Set.Logout(ctx, server); err != nil {
		if v.known(server) {
			v.audit.AppendLater(audit.Line{Kind: audit.Login, Server: server, Outcome: "logout_failed"})
		}
		return unrevoked, err
	}
	return unrevoked, v.record(ctx, audit.Line{Kind: audit.Login, Server: server, Outcome: "logged_out"}, "the login is deleted")
}

func (v *servers) known(server string) bool {
	_, ok := v.Catalog.Now().Server(server)
	return ok
}

func (v *servers) record(ctx context.Context, line audit.Line, done string) error {
	return record(ctx, v.audit, line, done)
}

// countStates reports the number of servers in each state.
func (v *servers) countStates(part func(string, int64)) {
	states := map[string]int64{}
	for _, s := range v.Set.States() {
		states[s.State.String()]++
	}
	for state, n := range states {
		part(state, n)
	}
}

func (v *servers) close() error {
	v.cancel()
	_ = v.own.close()
	v.Set.Close()
	v.work.Wait()
	return nil
}
