// Package passthrough lists the tools, resources and prompts of all connected servers as
// those of one server, for clients that do not execute code.
//
// A name or URI that only one server has is listed unchanged; one that several have is
// listed with the server as prefix: see names and address. Lists are protocol JSON in
// pages; answers of servers are passed on unchanged. Calls go through toolcall.
// Quarantined tools and tools of unconnected servers are not listed; calling one returns
// the reason.
//
// A Face is safe for concurrent use. It caches the last lists of resources and prompts,
// requests them again when a client lists them, and limits the wait for an answer. It
// redacts nothing and decides nothing.
package passthrough

import (
	"cmp"
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/sandpiper-mcp/sandpiper/internal/tool/catalog"
	"github.com/sandpiper-mcp/sandpiper/internal/toolcall"
	"github.com/sandpiper-mcp/sandpiper/internal/upstream"
)

// Config of a Face.
type Config struct {
	Catalog *catalog.Catalog // required
	Calls   *toolcall.Stack  // required
	Servers *upstream.Set    // required
	// Wait limits how long the first list of tools waits for servers that were never
	// listed, and every list of resources and prompts; 0 means 5 s.
	Wait time.Duration
}

// Face offers what all servers have.
type Face struct {
	cfg       Config
	resources *listCache[upstream.Resource]
	prompts   *listCache[upstream.Prompt]
	links     links

	mu    sync.Mutex
	until time.Time // end of the wait for servers that were never listed
	seen  *tools    // tools of the last snapshot

	changes uint64 // of the list of tools; a list may change back between two polls
}

// New returns a Face. The caller closes it.
func New(cfg Config) *Face {
	cfg.Wait = cmp.Or(cfg.Wait, 5*time.Second)
	return &Face{cfg: cfg,
		resources: newListCache(cfg.Wait, cfg.Servers.ListResources),
		prompts:   newListCache(cfg.Wait, cfg.Servers.ListPrompts),
	}
}

// Close cancels requests to servers and waits for them.
func (f *Face) Close() {
	f.resources.close()
	f.prompts.close()
}

// Versions returns strings that change with each list.
func (f *Face) Versions() (tools, resources, prompts string) {
	f.tools()
	f.mu.Lock()
	tools = fmt.Sprint(f.changes)
	f.mu.Unlock()
	r, p := f.cfg.Servers.ListChanges()
	return tools, fmt.Sprintf("%d %d %q", r, f.resources.news(), f.having(hasResources)), fmt.Sprintf("%d %d %q", p, f.prompts.news(), f.having(hasPrompts))
}

func hasResources(s catalog.Server) bool { return s.Resources }
func hasPrompts(s catalog.Server) bool   { return s.Prompts }

// having returns the connected servers that declare a capability.
func (f *Face) having(something func(catalog.Server) bool) (names []string) {
	for _, s := range f.cfg.Catalog.Now().Servers {
		if s.Connected && something(s) {
			names = append(names, s.Name)
		}
	}
	return names
}

// await waits a limited time for servers that were never listed.
func (f *Face) await(ctx context.Context) {
	f.mu.Lock()
	if f.until.IsZero() {
		f.until = time.Now().Add(f.cfg.Wait)
	}
	ctx, cancel := context.WithDeadline(ctx, f.until)
	f.mu.Unlock()
	defer cancel()
	f.cfg.Calls.AwaitTools(ctx, unlisted(f.cfg.Catalog.Now())...)
}

func unlisted(now *catalog.Snapshot) (names []string) {
	for _, s := range now.Servers {
		if s.Connected && s.Listed.IsZero() {
			names = append(names, s.Name)
		}
	}
	return names
}
