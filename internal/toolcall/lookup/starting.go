package lookup

import (
	"context"
	"slices"
	"time"

	"github.com/sandpiper-mcp/sandpiper/internal/tool/catalog"
	"github.com/sandpiper-mcp/sandpiper/internal/upstream"
)

// maxAwait limits the time that a request waits for servers that are being started.
const maxAwait = 10 * time.Second

// Await waits for servers that are being started and were never listed.
func (f view) Await(ctx context.Context) { f.awaitListing(ctx, f.now().Servers...) }

// awaitListing waits for those of the servers that were never listed, and returns the catalog then:
// an agent does not search again when the first search finds nothing. No request waits for a server
// for which another one has waited.
func (f view) awaitListing(ctx context.Context, servers ...catalog.Server) *catalog.Snapshot {
	var names []string
	for _, v := range servers {
		if _, waited := f.waited.Load(v.Name); v.Connected && v.Listed.IsZero() && !waited {
			names = append(names, v.Name)
		}
	}
	if len(names) == 0 || f.cfg.AwaitTools == nil {
		return f.now()
	}
	waiting, stop := context.WithTimeout(ctx, maxAwait)
	defer stop()
	f.cfg.AwaitTools(waiting, names...)
	if ctx.Err() == nil {
		for _, name := range names {
			f.waited.Store(name, true)
		}
	}
	return f.now()
}

// starting returns the servers that were never listed and have not failed.
func (f view) starting(now *catalog.Snapshot) (names []string) {
	if f.cfg.States == nil {
		return nil
	}
	for _, s := range f.cfg.States(f.viewer.Tenant) {
		v, ok := now.Server(s.Name)
		if ok && v.Connected && v.Listed.IsZero() && (s.State == upstream.Starting || s.State == upstream.Ready) {
			names = append(names, s.Name)
		}
	}
	slices.Sort(names)
	return names
}

// startingHint is the hint of an answer without the tools of these servers.
func startingHint(servers []string) string {
	return "tools of " + listSome(servers) + " are missing: still starting; search again later"
}
