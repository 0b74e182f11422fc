package daemon

import (
	"context"
	"sync"

	"github.com/sandpiper-mcp/sandpiper/internal/home"
	"github.com/sandpiper-mcp/sandpiper/internal/tool/catalog"
	"github.com/sandpiper-mcp/sandpiper/internal/tool/codegen"
)

// catalogModules are the catalog and the modules that are generated from it.
type catalogModules struct {
	Catalog *catalog.Catalog
	modules *modules

	first   sync.Once     // of writeOnce
	written chan struct{} // closed when the modules were first written
	writing sync.RWMutex  // held while servers, catalog and modules change together
}

// writeOnce writes the modules of known tools, in the background.
func (m *catalogModules) writeOnce(spawn func(func(context.Context))) {
	m.first.Do(func() {
		spawn(func(ctx context.Context) {
			m.writing.Lock()
			m.modules.write(ctx, m.Catalog)
			m.writing.Unlock()
			close(m.written)
		})
	})
}

// await waits until the modules were written and returns the current snapshot.
func (m *catalogModules) await(ctx context.Context) *catalog.Snapshot {
	select {
	case <-m.written:
	case <-ctx.Done():
	}
	m.writing.RLock()
	defer m.writing.RUnlock()
	return m.Catalog.Now()
}

// accept trusts the new definitions of quarantined tools and writes the modules.
func (m *catalogModules) accept(ctx context.Context, server, shown string, tools ...string) ([]string, error) {
	m.writing.Lock()
	defer m.writing.Unlock()
	accepted, err := m.Catalog.AcceptShown(ctx, server, shown, tools...)
	if err == nil {
		m.modules.write(context.WithoutCancel(ctx), m.Catalog)
	}
	return accepted, err
}

// store stores a listing and writes the modules, before Know can return.
func (m *catalogModules) store(ctx context.Context, name string, listing catalog.Listing) (catalog.Change, error) {
	m.writing.Lock()
	defer m.writing.Unlock()
	change, err := m.Catalog.Put(ctx, name, listing)
	if err == nil && change.Modules {
		m.modules.write(ctx, m.Catalog)
	}
	return change, err
}

// follow writes the modules after another process has changed the catalog.
func (m *catalogModules) follow(ctx context.Context) {
	if m.modules.isCurrent(m.Catalog.Now()) {
		return
	}
	m.writing.Lock()
	defer m.writing.Unlock()
	m.modules.write(ctx, m.Catalog)
}

// infer writes the modules of a tenant with what was inferred from results since it was last called.
func (m *catalogModules) infer(ctx context.Context, h *home.Home) {
	if m.modules.inferred.changed(h) {
		m.writing.Lock()
		defer m.writing.Unlock()
		m.modules.infer(ctx, h)
	}
}

// connected returns the module names of the configured servers.
func (m *catalogModules) connected() (names []string) {
	for _, s := range catalog.OverviewFor(m.Catalog, catalog.Viewer{}).Servers {
		if s.Connected {
			names = append(names, s.Module)
		}
	}
	return names
}

// handwritten returns the names of handwritten modules.
func (m *catalogModules) handwritten() map[string]map[string]bool {
	return m.modules.names(m.Catalog.Now())
}

// functions returns the functions of handwritten modules, for search.
func (m *catalogModules) functions() []codegen.Handwritten {
	return m.modules.functions(m.Catalog.Now())
}
