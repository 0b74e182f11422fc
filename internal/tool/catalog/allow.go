package catalog

import (
	"maps"
	"slices"
	"strings"
	"sync"

	"github.com/sandpiper-mcp/sandpiper/internal/store/tenant"
	"github.com/sandpiper-mcp/sandpiper/internal/tool"
	"github.com/sandpiper-mcp/sandpiper/internal/tool/glob"
)

// Viewer is the caller that a part of the catalog is shown to.
type Viewer struct {
	Tenant tenant.ID // zero for the operator, who sees everything
	Subset string    // named subset of servers that the caller has chosen; "" means all
	Only   *Allow    // of those, for one execution; nil means all
}

// For returns the part of the current snapshot that a viewer may see and call.
func (c *Catalog) For(v Viewer) *Snapshot {
	if c.cfg.Allow == nil {
		return c.Now().Only(v.Only)
	}
	c.allowing.RLock()
	now, allow := c.Now(), c.cfg.Allow(v)
	c.allowing.RUnlock()
	for _, a := range allow {
		now = now.Only(a)
	}
	return now.Only(v.Only)
}

// Allow selects the servers and tools that a caller may see and call. nil selects all.
type Allow struct {
	servers, tools []glob.Pattern  // nil means all
	exact          map[string]bool // names of tools; nil means all
	without        string          // a server that is not selected; "" means none
	key            string          // equal for equal patterns
}

// NewAllowExactly returns an Allow for the tools with these names, SERVER.TOOL, and no others.
func NewAllowExactly(names []string) *Allow {
	a := &Allow{exact: map[string]bool{}}
	for _, name := range names {
		a.exact[name] = true
	}
	a.key = "=" + strings.Join(slices.Sorted(maps.Keys(a.exact)), "\x00")
	return a
}

// NewAllow returns an Allow for patterns of server names and of tools, which are
// SERVER.TOOL. A nil list allows all. The message of an error begins with a verb.
func NewAllow(servers, tools []string) (*Allow, error) {
	if servers == nil && tools == nil {
		return nil, nil
	}
	a := &Allow{}
	var err error
	if a.servers, err = parsePatterns("server", servers); err != nil {
		return nil, err
	}
	if a.tools, err = parsePatterns("tool", tools); err != nil {
		return nil, err
	}
	a.key = keyOf(a.servers) + "\n" + keyOf(a.tools)
	return a, nil
}

// Without returns an Allow for what a selects, except for a server.
func (a *Allow) Without(server string) *Allow {
	b := Allow{}
	if a != nil {
		b = *a
	}
	b.without, b.key = server, a.Key()+"\nwithout "+server
	return &b
}

// parsePatterns keeps the difference between no list and an empty one, which allows nothing.
func parsePatterns(key string, patterns []string) ([]glob.Pattern, error) {
	all, err := glob.Parse(key, patterns)
	if patterns != nil && all == nil {
		all = []glob.Pattern{}
	}
	return all, err
}

func keyOf(patterns []glob.Pattern) string {
	if patterns == nil {
		return "*"
	}
	texts := make([]string, len(patterns))
	for i, p := range patterns {
		texts[i] = p.String()
	}
	slices.Sort(texts)
	return "[" + strings.Join(slices.Compact(texts), " ") + "]"
}

// Key identifies the selection: equal keys select the same servers and tools.
func (a *Allow) Key() string {
	if a == nil {
		return ""
	}
	return a.key
}

// Server reports whether a server is selected: its name, and a tool that it may have.
func (a *Allow) Server(name string) bool {
	if a != nil && a.without == name && name != "" {
		return false
	}
	if a != nil && a.exact != nil {
		for tool := range a.exact {
			if strings.HasPrefix(tool, name+".") {
				return true
			}
		}
		return false
	}
	return a == nil || (a.servers == nil || glob.MatchAny(a.servers, name)) &&
		(a.tools == nil || slices.ContainsFunc(a.tools, func(p glob.Pattern) bool { return p.MatchesPrefix(name + ".") }))
}

// Tool reports whether a tool is selected.
func (a *Allow) Tool(ref tool.Ref) bool {
	if a != nil && a.without == ref.Server && ref.Server != "" {
		return false
	}
	if a != nil && a.exact != nil {
		return a.exact[ref.String()]
	}
	return a == nil || (a.servers == nil || glob.MatchAny(a.servers, ref.Server)) && (a.tools == nil || glob.MatchAny(a.tools,
		ref.String()))
}

// someTools reports whether a selects some of the tools of a server only.
func (a *Allow) someTools() bool { return a != nil && (a.tools != nil || a.exact != nil) }

// only returns the part of a snapshot that a selects. The Python names of servers are those of
// the whole snapshot.
func (s *Snapshot) only(a *Allow) *Snapshot {
	part := &Snapshot{
		entries:   entries{byRef: map[tool.Ref]int{}, servers: map[string]int{}, modules: map[string]string{}},
		described: s.described, allow: append(slices.Clip(s.allow), a), nameSet: s.nameSet,
	}
	part.space, part.kept, part.function = s.space, []int{}, part.functions()
	quarantined := map[string]int{}
	for i, t := range s.Tools {
		if !a.Tool(t.Ref) {
			continue
		}
		part.byRef[t.Ref] = len(part.Tools)
		if s.kept != nil {
			i = s.kept[i]
		}
		part.Tools, part.kept = append(part.Tools, t), append(part.kept, i)
		if t.Quarantined != nil {
			quarantined[t.Server]++
		}
	}
	for _, v := range s.Servers {
		if !a.Server(v.Name) {
			continue
		}
		v.Tools, v.Quarantined = len(part.Of(v.Name)), quarantined[v.Name]
		part.servers[v.Name], part.modules[v.Name] = len(part.Servers), v.Module
		part.Servers = append(part.Servers, v)
	}
	part.Core = slices.DeleteFunc(slices.Clone(s.Core), func(name string) bool { _, ok := part.servers[name]; return !ok })
	part.Disabled = slices.DeleteFunc(slices.Clone(s.Disabled), func(name string) bool { return !a.Server(name) })
	if !a.someTools() {
		part.listings = s.listings
	}
	part.derive()
	return part
}

// Allows reports whether the viewer of the snapshot may make a request to a server: to call a
// tool, or another request by its name.
func (s *Snapshot) Allows(ref tool.Ref) bool {
	return !slices.ContainsFunc(s.allow, func(a *Allow) bool { return !a.Tool(ref) })
}

// maxViews limits the views of one snapshot. Tenants have few different ones, but each task may
// have its own.
const maxViews = 256

// views are the parts of one snapshot, by the key of their Allow.
type views struct {
	mu  sync.Mutex
	all map[string]*Snapshot
}

// Only returns the part of the snapshot that a selects.
func (s *Snapshot) Only(a *Allow) *Snapshot {
	if a == nil {
		return s
	}
	s.views.mu.Lock()
	defer s.views.mu.Unlock()
	part, ok := s.views.all[a.key]
	if !ok {
		part = s.only(a)
		if s.views.all == nil || len(s.views.all) >= maxViews {
			s.views.all = map[string]*Snapshot{}
		}
		s.views.all[a.key] = part
	}
	return part
}
