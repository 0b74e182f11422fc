package daemon

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"sync"

	"github.com/sandpiper-mcp/sandpiper/internal/config"
	"github.com/sandpiper-mcp/sandpiper/internal/home"
	"github.com/sandpiper-mcp/sandpiper/internal/store/tenant"
	"github.com/sandpiper-mcp/sandpiper/internal/tool/catalog"
	"github.com/sandpiper-mcp/sandpiper/internal/tool/codegen"
)

// modules writes the Python modules that are generated from the catalog: one directory for
// each different selection of servers and tools. One tenant has directories of its own.
type modules struct {
	inferred *inferred                    // in the modules of that tenant
	hand     []codegen.Server             // handwritten modules
	own      func() []codegen.Handwritten // their functions, read once
	warned   sync.Map                     // hidden modules and functions that were logged

	writing sync.Mutex // held while directories are written; locked before mu, which requests wait for

	mu    sync.Mutex
	keys  []string         // of the servers and handwritten modules: the current key, then earlier ones
	views map[string]*view // by the key of their directory
	homes *home.Homes      // nil until the data directory is open
	log   *slog.Logger
	inUse map[string]bool          // selections that some tenant has; see forget
	whole func() *catalog.Snapshot // nil until the modules were first written
	last  *catalog.Snapshot        // that the modules were last written from
}

// view is the directory of one selection.
type view struct {
	selection string           // identifies allow and own
	own       bool             // of the tenant of inferred
	allow     []*catalog.Allow // all must select a tool
	dir       *codegen.Dir     // nil until it was first written; guarded by modules.writing
}

func newModules(cfg Config, hand []codegen.Server, log *slog.Logger) *modules {
	m := &modules{
		inferred: &inferred{tenant: cfg.Tenant},
		keys:     []string{modulesKey(cfg.Servers, hand)},
		hand:     hand,
		log:      log,
		views:    map[string]*view{},
		inUse:    map[string]bool{},
	}
	m.own = sync.OnceValue(func() (all []codegen.Handwritten) {
		for _, h := range hand {
			all = append(all, h.Handwritten()...)
		}
		return all
	})
	m.register(cfg.Tenant)
	return m
}

// register returns the key of the directory with the modules of a tenant's selection. After the first
// write, it writes the directory at once if it is new.
func (m *modules) register(id tenant.ID, allow ...*catalog.Allow) string {
	text, own := "", id == m.inferred.tenant
	for _, a := range allow {
		text += a.Key()
	}
	key, late := m.registerView(text, own, allow)
	if len(late) > 0 {
		m.writeViews(context.Background(), late)
	}
	return key
}

// registerView returns the key of a view, and the views to write: none before the first write, which
// writes all.
func (m *modules) registerView(text string, own bool, allow []*catalog.Allow) (key string, late map[string]*view) {
	m.mu.Lock()
	defer m.mu.Unlock()
	key = m.keys[0]
	if text != "" {
		sum := sha256.Sum256([]byte(text))
		key += "-" + hex.EncodeToString(sum[:8])
	}
	if own {
		key, text = home.OwnModules(key, m.inferred.tenant), m.inferred.selection()+text
	}
	known := m.inUse[text] && m.views[key] != nil
	if m.inUse[text] = true; m.views[key] == nil {
		m.views[key] = &view{selection: text, own: own, allow: allow}
	}
	if known || m.whole == nil {
		return key, nil
	}
	return key, m.selected(func(v *view) bool { return v.selection == text }) // also those of earlier sets of servers
}

// selected returns some views by their key. The caller holds mu.
func (m *modules) selected(is func(*view) bool) map[string]*view {
	some := maps.Clone(m.views)
	maps.DeleteFunc(some, func(_ string, v *view) bool { return !is(v) })
	return some
}

// maxKeys is the number of sets of servers whose directories are kept up to date: live
// interpreters may have mounted those of earlier sets.
const maxKeys = 8

// replace makes the directories for another set of servers. Those of earlier sets receive its
// modules too.
func (m *modules) replace(all []config.Server) {
	key := modulesKey(all, m.hand)
	m.mu.Lock()
	defer m.mu.Unlock()
	m.keys = append([]string{key}, slices.DeleteFunc(m.keys, func(k string) bool { return k == key })...)
	for _, old := range m.keys[min(len(m.keys), maxKeys):] {
		maps.DeleteFunc(m.views, func(k string, _ *view) bool { return strings.HasPrefix(k, old) })
	}
	m.keys = m.keys[:min(len(m.keys), maxKeys)]
}

// forget stops updating the directories of selections until they are registered again. Code that has
// mounted another one may not see what is new in it.
func (m *modules) forget() {
	m.mu.Lock()
	defer m.mu.Unlock()
	maps.DeleteFunc(m.inUse, func(selection string, _ bool) bool { return selection != "" && selection != m.inferred.selection() })
}

// readHandwritten reads the handwritten modules of SERVERS_DIR.
func readHandwritten(dir string, log *slog.Logger) []codegen.Server {
	if dir == "" {
		return nil
	}
	hand, ignored, err := codegen.ReadHandwritten(dir)
	if err != nil {
		log.Warn("SERVERS_DIR has no effect", "error", err)
	}
	for _, path := range ignored {
		log.Warn("a file of SERVERS_DIR is ignored: code cannot import its name, there is a directory of that name, or it is a link out "+
			"of the directory", "file", path)
	}
	return hand
}

// modulesKey identifies the modules of these servers and handwritten modules. All
// daemons with the same key share one directory.
func modulesKey(all []config.Server, hand []codegen.Server) string {
	h := sha256.New()
	for _, s := range hand {
		for _, f := range s.Files {
			fmt.Fprintf(h, "%q %q\n", f.Path, f.Data)
		}
	}
	for _, s := range all {
		fmt.Fprintf(h, "%q %s\n", s.Name, identity(s))
	}
	return hex.EncodeToString(h.Sum(nil))[:16]
}

// write generates the modules of all selections from the catalog. The caller holds
// catalogModules.writing, so that an older state cannot overwrite a newer one.
func (m *modules) write(ctx context.Context, c *catalog.Catalog) {
	m.mu.Lock()
	m.whole = func() *catalog.Snapshot { return catalog.Newest(c) }
	all := m.selected(func(v *view) bool { return m.inUse[v.selection] })
	m.mu.Unlock()
	now := m.writeViews(ctx, all)
	m.mu.Lock()
	defer m.mu.Unlock()
	m.last = now
}

// writeViews generates the modules of some views from the current snapshot, which it returns.
func (m *modules) writeViews(ctx context.Context, some map[string]*view) *catalog.Snapshot {
	m.writing.Lock()
	defer m.writing.Unlock()
	m.mu.Lock()
	whole := m.whole
	m.mu.Unlock()
	now := whole()
	for key, v := range some {
		m.writeView(ctx, key, v, whole)
	}
	return now
}

// infer generates the modules of the tenant of h from the types inferred from results, if these have
// changed. The caller holds catalogModules.writing.
func (m *modules) infer(ctx context.Context, h *home.Home) {
	types, err := h.Shapes.Schemas(ctx)
	if err != nil {
		m.log.Error("read the inferred types of results", "error", err)
		return
	}
	m.mu.Lock()
	own, early := m.selected(func(v *view) bool { return v.own && m.inUse[v.selection] }), m.whole == nil
	m.mu.Unlock()
	for key := range own {
		if err := m.inferred.write(m.homes, key, types); err != nil {
			m.log.Error("write the inferred types of results", "error", err)
			delete(own, key)
		}
	}
	if !early {
		m.writeViews(ctx, own)
	}
}

// isCurrent reports whether the modules were written from a snapshot.
func (m *modules) isCurrent(now *catalog.Snapshot) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.last == nil || m.last == now
}

// writeView generates the modules of one selection, from the snapshot that whole returns when no other process writes
// them. The caller holds writing.
func (m *modules) writeView(ctx context.Context, key string, v *view, whole func() *catalog.Snapshot) {
	if v.dir == nil {
		if err := m.homes.MakeModules(key); err != nil {
			m.log.Error("create the directory of the generated modules", "error", err)
			return
		}
		v.dir = codegen.NewDir(m.homes.Modules(key))
	}
	_, err := codegen.SyncNow(ctx, v.dir, func() []codegen.Server { return m.serversOf(key, v, whole()) })
	if err != nil && ctx.Err() == nil {
		m.log.Error("write the generated modules", "error", err)
	}
}

// serversOf returns the modules of one selection.
func (m *modules) serversOf(key string, v *view, now *catalog.Snapshot) (all []codegen.Server) {
	for _, a := range v.allow {
		now = now.Only(a)
	}
	var types map[string]map[string]json.RawMessage
	if v.own {
		types = m.inferred.read(m.homes, key, m.log)
	}
	for _, s := range now.Servers {
		if !s.Connected {
			continue
		}
		g := codegen.Server{
			Name:        s.Name,
			Module:      s.Module,
			Title:       s.Title,
			Description: s.Instructions,
			Resources:   s.Resources,
			Prompts:     s.Prompts,
		}
		for _, t := range now.Of(s.Name) {
			if t.Quarantined == nil {
				g.Tools = append(g.Tools, codegen.Learned(t.Definition, types[s.Name][t.Definition.Tool]))
			}
		}
		all = append(all, g)
	}
	return m.addHandwritten(all, v.allow)
}

// addHandwritten adds the handwritten modules that allow selects: to the server of the same
// name, or as separate packages.
func (m *modules) addHandwritten(all []codegen.Server, allow []*catalog.Allow) []codegen.Server {
	for _, h := range m.hand {
		if slices.ContainsFunc(allow, func(a *catalog.Allow) bool { return !a.Server(h.Module) }) {
			continue
		}
		i := slices.IndexFunc(all, func(s codegen.Server) bool { return s.Module == h.Module })
		if i < 0 {
			all = append(all, h)
			continue
		}
		all[i].Files = h.Files
		m.warnOnce("a handwritten module is hidden by the module of a connected server", "module", all[i].Shadowed())
		m.warnOnce("a handwritten function is hidden by the tool of a connected server", "function", all[i].ShadowedFunctions())
	}
	return all
}

// warnOnce logs hidden modules or functions, each once.
func (m *modules) warnOnce(message, key string, hidden []string) {
	for _, name := range hidden {
		if _, known := m.warned.LoadOrStore(name, true); !known {
			m.log.Warn(message, key, "servers/"+name)
		}
	}
}

// functions returns the functions of handwritten modules that no tool of a connected server
// hides.
func (m *modules) functions(now *catalog.Snapshot) (all []codegen.Handwritten) {
	for _, f := range m.own() {
		if s, known := now.Server(f.Module); known && s.Connected {
			if _, hidden := now.Function(f.Module, f.Name); hidden {
				continue
			}
		}
		all = append(all, f)
	}
	return all
}

// names returns the names of handwritten modules, for preflight.
func (m *modules) names(now *catalog.Snapshot) map[string]map[string]bool {
	names := map[string]map[string]bool{}
	for _, h := range m.hand {
		s, known := now.Server(h.Module)
		names[h.Module] = map[string]bool{"": !known || !s.Connected}
		for _, f := range h.Files {
			_, name, _ := strings.Cut(strings.TrimSuffix(f.Path, ".py"), "/")
			names[h.Module][name] = true
		}
	}
	for _, f := range m.own() {
		names[f.Module][f.Name] = true
	}
	return names
}
