package daemon

import (
	"bytes"
	"encoding/json"
	"errors"
	"io/fs"
	"log/slog"
	"os"
	"sync"

	"github.com/sandpiper-mcp/sandpiper/internal/home"
	"github.com/sandpiper-mcp/sandpiper/internal/store/durable"
	"github.com/sandpiper-mcp/sandpiper/internal/store/tenant"
	"github.com/sandpiper-mcp/sandpiper/internal/tool"
	"github.com/sandpiper-mcp/sandpiper/internal/tool/catalog"
)

// inferred are the types of results that were inferred for one tenant, in its own modules: other
// tenants do not see the names of fields in its results. A file next to each directory of modules has
// those that they were generated from, because modules are also written before the data of the tenant
// is open, and by other processes.
type inferred struct {
	tenant tenant.ID

	mu      sync.Mutex
	from    *catalog.Shapes
	changes int // of from, when it was last read
}

// selection identifies the modules of the tenant: see view.
func (i *inferred) selection() string { return i.tenant.String() + "\n" }

// changed reports whether types were inferred for the tenant of h since the last call that returned
// true.
func (i *inferred) changed(h *home.Home) bool {
	if h.ID() != i.tenant {
		return false
	}
	i.mu.Lock()
	defer i.mu.Unlock()
	now := h.Shapes.Changes()
	if i.from == h.Shapes && i.changes == now {
		return false
	}
	i.from, i.changes = h.Shapes, now
	return true
}

// read returns the types, as JSON schemas by server and tool, for the modules of a key.
func (i *inferred) read(homes *home.Homes, key string, log *slog.Logger) (types map[string]map[string]json.RawMessage) {
	dir, _ := homes.Modules(key)
	b, err := os.ReadFile(home.TypesFile(dir))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err == nil {
		err = json.Unmarshal(b, &types)
	}
	if err != nil {
		log.Warn("the generated modules lack the inferred types of results", "error", err)
	}
	return types
}

// write stores the types for the modules of a key.
func (i *inferred) write(homes *home.Homes, key string, types map[tool.Ref]json.RawMessage) error {
	byName := map[string]map[string]json.RawMessage{}
	for ref, schema := range types {
		if byName[ref.Server] == nil {
			byName[ref.Server] = map[string]json.RawMessage{}
		}
		byName[ref.Server][ref.Tool] = schema
	}
	b, err := json.Marshal(byName)
	if err != nil {
		return err
	}
	dir, _ := homes.Modules(key)
	if last, err := os.ReadFile(home.TypesFile(dir)); err == nil && bytes.Equal(last, b) {
		return nil
	}
	return durable.WriteFile(home.TypesFile(dir), b)
}
