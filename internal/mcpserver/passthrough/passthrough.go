// Package passthrough shows the tools, resources and prompts of all connected
// servers as if one server had them: what a client gets that wants no code mode.
//
// A name or URI that one server alone has is shown as it is; what several have is
// shown with its server before it, for each of them: see names and address. Lists
// are in the protocol's own JSON, in pages, and so is what servers answer, which
// is passed on as they wrote it. Calls go through toolcall; tools that are held,
// or whose server is not connected, are not listed, and say why when they are
// called.
//
// A Face is safe for concurrent use. It keeps the last lists of resources and
// prompts, asks servers again when a client lists them, and waits only so long
// for an answer. It knows no protocol but the JSON, seals nothing and decides
// nothing.
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
	// Wait is how long lists wait for servers: for those that never said which
	// tools they have, from the first list on and not again. Zero means 5 s.
	Wait time.Duration
}

// Face is what clients see of all servers.
type Face struct {
	cfg       Config
	resources *shelf[upstream.Resource]
	prompts   *shelf[upstream.Prompt]
	links     links

	mu    sync.Mutex
	until time.Time // servers that never were listed are waited for
	seen  *tools    // of the last snapshot

	changes uint64 // of the list of tools; a list may go and come back between two looks
}

// New returns a Face. It is to be closed.
func New(cfg Config) *Face {
	cfg.Wait = cmp.Or(cfg.Wait, 5*time.Second)
	return &Face{cfg: cfg,
		resources: newShelf(cfg.Wait, cfg.Servers.ListResources),
		prompts:   newShelf(cfg.Wait, cfg.Servers.ListPrompts),
	}
}

// Close gives up on what servers are still asked, and waits for that.
func (f *Face) Close() {
	f.resources.close()
	f.prompts.close()
}

// Versions are texts that are others when a list is another one.
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

// having are the connected servers that say that they have something.
func (f *Face) having(something func(catalog.Server) bool) (names []string) {
	for _, s := range f.cfg.Catalog.Now().Servers {
		if s.Connected && something(s) {
			names = append(names, s.Name)
		}
	}
	return names
}

// await gives servers that never were listed some time to be.
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
