// Package passthrough lists the tools, resources and prompts of all connected servers as
// those of one server, for clients that do not execute code.
//
// A name or URI that only one server has is listed unchanged; one that several have is
// listed with the server as prefix: see names and address. Lists are protocol JSON in
// pages; answers of servers are passed on unchanged. Calls go through toolcall.
// Quarantined tools and tools of unconnected servers are not listed; calling one returns
// the reason.
//
// An Aggregator is safe for concurrent use. It caches the last lists of resources and prompts,
// requests them again when a client lists them, and limits the wait for an answer. It
// redacts nothing and decides nothing.
package passthrough

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/sandpiper-mcp/sandpiper/internal/home"
	"github.com/sandpiper-mcp/sandpiper/internal/policy"
	"github.com/sandpiper-mcp/sandpiper/internal/privacy/redact"
	"github.com/sandpiper-mcp/sandpiper/internal/store/tenant"
	"github.com/sandpiper-mcp/sandpiper/internal/tool"
	"github.com/sandpiper-mcp/sandpiper/internal/tool/catalog"
	"github.com/sandpiper-mcp/sandpiper/internal/toolcall"
	"github.com/sandpiper-mcp/sandpiper/internal/upstream"
)

// Config of an Aggregator.
type Config struct {
	Catalog *catalog.Catalog // required
	Calls   *toolcall.Stack  // required
	Servers *upstream.Set    // required
	// ServersOf returns the connections of a tenant to a server; nil means Servers.
	ServersOf func(id tenant.ID, server string) *upstream.Set
	// Wait limits how long the first list of tools waits for servers that were never
	// listed, and every list of resources and prompts; 0 means 5 s.
	Wait time.Duration
	Log  *slog.Logger // nil means discard
}

// Aggregator offers what all servers have, as far as its viewer may use it.
type Aggregator struct {
	*shared
	viewer catalog.Viewer
}

// shared is the state of the Aggregators of all viewers.
type shared struct {
	cfg       Config
	tools     toolCache
	resources *listCache[upstream.Resource]
	prompts   *listCache[upstream.Prompt]
	links     links

	mu    sync.Mutex
	until time.Time // end of the wait for servers that were never listed
}

// New returns the Aggregator of the operator. The caller closes it.
func New(cfg Config) *Aggregator {
	cfg.Wait = cmp.Or(cfg.Wait, 5*time.Second)
	if cfg.Log == nil {
		cfg.Log = slog.New(slog.DiscardHandler)
	}
	return &Aggregator{shared: &shared{cfg: cfg,
		resources: newListCache(cfg, hasResources, (*upstream.Set).ListResources),
		prompts:   newListCache(cfg, hasPrompts, (*upstream.Set).ListPrompts),
	}}
}

// For returns the Aggregator of a viewer.
func (g *Aggregator) For(v catalog.Viewer) *Aggregator { return &Aggregator{g.shared, v} }

func (g *Aggregator) now() *catalog.Snapshot { return g.cfg.Catalog.For(g.viewer) }

// connections returns the viewer's connections to a server.
func (g *Aggregator) connections(server string) *upstream.Set {
	if g.cfg.ServersOf == nil {
		return g.cfg.Servers
	}
	return g.cfg.ServersOf(g.viewer.Tenant, server)
}

// lists returns the lists of the connected servers: requested again if fresh is true, else cached.
// Those of servers with which the viewer has connections of its own are always requested.
func lists[T any](ctx context.Context, g *Aggregator, c *listCache[T], fresh bool) map[string][]T {
	servers := having(g.now(), c.of)
	all := c.cached(servers)
	if fresh || len(all) == 0 {
		g.await(ctx, g.now())
		servers = having(g.now(), c.of)
		all = c.fresh(ctx, servers)
	}
	ctx, cancel := context.WithTimeout(ctx, c.wait)
	defer cancel()
	for _, name := range servers {
		if set := g.connections(name); set != g.cfg.Servers {
			delete(all, name)
			if got, err := c.list(set, ctx, name); err == nil {
				all[name] = got
			}
		}
	}
	return all
}

func (g *Aggregator) owner(home *home.Home, gate *redact.Gate) toolcall.Owner {
	return toolcall.Owner{Home: home, Gate: gate, Subset: g.viewer.Subset, Sandbox: policy.NoCode}
}

// Close cancels requests to servers and waits for them.
func (s *shared) Close() {
	s.resources.close()
	s.prompts.close()
}

// Versions returns strings that change with each list.
func (g *Aggregator) Versions() (tools, resources, prompts string) {
	now := g.now()
	g.tools.of(g.cfg.Catalog.Now(), now)
	r, p := g.cfg.Servers.ListChanges()
	return fmt.Sprint(g.tools.news()),
		fmt.Sprintf("%d %d %q", r, g.resources.news(), having(now, hasResources)),
		fmt.Sprintf("%d %d %q", p, g.prompts.news(), having(now, hasPrompts))
}

// capability is something that a server declares, and the request that lists it.
type capability struct {
	declared func(catalog.Server) bool
	list     string
}

var (
	hasResources = capability{func(s catalog.Server) bool { return s.Resources }, "resources/list"}
	hasPrompts   = capability{func(s catalog.Server) bool { return s.Prompts }, "prompts/list"}
)

// having returns the connected servers that declare a capability.
func having(now *catalog.Snapshot, c capability) (names []string) {
	for _, s := range now.Servers {
		if s.Connected && c.declared(s) && now.Allows(tool.Ref{Server: s.Name, Tool: c.list}) {
			names = append(names, s.Name)
		}
	}
	return names
}

// await waits a limited time for servers that were never listed.
func (s *shared) await(ctx context.Context, now *catalog.Snapshot) {
	s.mu.Lock()
	if s.until.IsZero() {
		s.until = time.Now().Add(s.cfg.Wait)
	}
	ctx, cancel := context.WithDeadline(ctx, s.until)
	s.mu.Unlock()
	defer cancel()
	s.cfg.Calls.AwaitTools(ctx, unlisted(now)...)
}

func unlisted(now *catalog.Snapshot) (names []string) {
	for _, s := range now.Servers {
		if s.Connected && s.Listed.IsZero() {
			names = append(names, s.Name)
		}
	}
	return names
}
