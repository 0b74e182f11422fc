package catalog

import (
	"cmp"
	"maps"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/sandpiper-mcp/sandpiper/internal/fault"
	"github.com/sandpiper-mcp/sandpiper/internal/tool"
	"github.com/sandpiper-mcp/sandpiper/internal/tool/catalog/search"
)

// Snapshot is the state of the catalog at one moment. Callers must not change its slices.
type Snapshot struct {
	Servers []Server // by name
	Tools   []Tool   // by server, then by name

	Core     []string // core servers of static catalogs
	Disabled []string // servers that the operator has disabled, by name

	described map[string]string // category -> description in a static catalog
	byRef     map[tool.Ref]int
	servers   map[string]int
	modules   map[string]string         // server -> its Python name
	function  func(server string) names // computed once for each server
	search    func() *search.Index
	space     Space // nil without a model
	kept      []int // positions of Tools in the snapshot that this is a part of; nil if it is complete
	nameSet   func() map[string]bool
	topics    func() []string
	tokens    func() int64
	allow     []*Allow // what selected the tools
	views     views

	listings map[string]*listing // by server, if all its tools are part of the snapshot; nil if some may be missing
	derived  string              // see Config.Derived; "" for a part
	stored   func() storedIndex  // an index that may be that of the snapshot; nil if there is none
	isStored atomic.Bool         // the search index is in derived
}

// Server is a server of the configuration or of a static catalog.
type Server struct {
	Name         string
	Module       string // its Python name
	Category     string
	Title        string
	Version      string
	Instructions string
	Resources    bool
	Prompts      bool
	Legacy       bool      // see Listing
	Connected    bool      // it is in the configuration, so its tools can be called
	Trusted      bool      // its annotations are trusted
	Listed       time.Time // time of its last listing; zero if never
	Tools        int
	Quarantined  int      // of them
	Notes        []string // see Listing

	// Unreviewed means that an operator must accept the server before its resources and prompts
	// can be used. NewTexts are those that must be accepted; nil if there are none.
	Unreviewed bool
	NewTexts   *Texts
}

// Texts are the texts of a server for models, except its tools.
type Texts = texts

// Tool is a tool with its state in the catalog.
type Tool struct {
	tool.Definition
	Category     string
	Functions    []string // of a static catalog
	UseCases     []string
	Connected    bool             // it can be called
	Quarantined  *tool.Definition // the new definition, which is not trusted; nil if the tool is not quarantined
	New          bool             // the tool was not reviewed: Definition has its name only
	TrustedHints tool.Hints       // those of the definition that count
	Trusted      bool             // the server is, so that they all do
}

// Callable reports whether the tool can be called: its server is connected, and its definition is
// trusted.
func (t Tool) Callable() bool { return t.Connected && t.Quarantined == nil && !t.New }

// Topics returns words for the objects of the connected tools, such as contacts.
func Topics(s *Snapshot) []string { return s.topics() }

// names maps the tools of one server to their Python names and back.
type names struct{ python, wire map[string]string }

func newSnapshot(cfg Config, listings map[string]*listing) *Snapshot {
	all := 0
	for _, l := range listings {
		if l != nil {
			all += len(l.Tools)
		}
	}
	s := &Snapshot{
		Tools:     make([]Tool, 0, all),
		byRef:     make(map[tool.Ref]int, all),
		servers:   map[string]int{},
		described: map[string]string{},
		listings:  maps.Clone(listings),
		derived:   cfg.Derived,
	}
	for _, c := range slices.SortedFunc(slices.Values(cfg.Servers), func(a, b Configured) int { return strings.Compare(a.Name, b.Name) }) {
		s.add(c, listings[c.Name]) // sorted, so that its tools, which are large, are rarely moved
	}
	for _, c := range cfg.Static {
		s.addStatic(c)
	}
	slices.SortFunc(s.Servers, func(a, b Server) int { return strings.Compare(a.Name, b.Name) })
	byName := func(a, b Tool) int {
		return cmp.Or(strings.Compare(a.Server, b.Server), strings.Compare(a.Definition.Tool, b.Definition.Tool))
	}
	if !slices.IsSortedFunc(s.Tools, byName) { // of static catalogs; sorting takes longer
		slices.SortStableFunc(s.Tools, byName)
	}
	s.buildLookups()
	for _, name := range slices.Sorted(slices.Values(cfg.Disabled)) {
		if _, known := s.servers[name]; !known {
			s.Disabled = append(s.Disabled, name)
		}
	}
	s.Disabled = slices.Compact(s.Disabled)
	s.nameSet = sync.OnceValue(s.names)
	if cfg.Embeddings != nil {
		s.space = cfg.Embeddings.NewSpace(s.embeddingTexts)
	}
	return s
}

// buildLookups builds the lookups by name.
func (s *Snapshot) buildLookups() {
	var all []string
	for i, v := range s.Servers {
		s.servers[v.Name] = i
		all = append(all, v.Name)
	}
	s.modules = tool.ModuleNames(all)
	for i := range s.Servers {
		s.Servers[i].Module = s.modules[s.Servers[i].Name]
	}
	for i, t := range s.Tools {
		s.byRef[t.Ref] = i
	}
	s.derive()
}

// derive sets what is computed from the tools on demand.
func (s *Snapshot) derive() {
	s.topics = sync.OnceValue(func() []string {
		var byServer [][]string
		isVerb := newIsVerb()
		for _, v := range s.Servers {
			switch {
			case !v.Connected:
			case s.listings != nil:
				byServer = append(byServer, s.listings[v.Name].topicsOf(v.Name, isVerb))
			default:
				byServer = append(byServer, toolNames{server: v.Name + " " + v.Title, tools: reviewed(s.Of(v.Name))}.topics(isVerb))
			}
		}
		return combineTopics(byServer)
	})
	var mu sync.Mutex
	known := map[string]names{}
	s.function = func(server string) names {
		mu.Lock()
		defer mu.Unlock()
		n, ok := known[server]
		if !ok {
			n = s.name(server)
			known[server] = n
		}
		return n
	}
	s.search, s.tokens = sync.OnceValue(s.index), sync.OnceValue(s.countTokens)
}

func (s *Snapshot) name(server string) names {
	var all []string
	for _, t := range s.Of(server) {
		all = append(all, t.Definition.Tool)
	}
	n := names{tool.ModuleNames(all), map[string]string{}}
	for wire, python := range n.python {
		n.wire[python] = wire
	}
	return n
}

// add adds a configured server.
func (s *Snapshot) add(c Configured, l *listing) {
	v := Server{Name: c.Name, Category: c.Category, Connected: true, Trusted: c.Trusted}
	if l == nil {
		l = &listing{}
	}
	v.Title, v.Version, v.Instructions, v.Listed = l.Title, l.Version, l.Instructions, l.Listed
	v.Resources, v.Prompts, v.Legacy, v.Tools = l.Resources, l.Prompts, l.Legacy, len(l.Tools)
	v.Notes = l.Notes
	v.NewTexts, v.Unreviewed = l.NewTexts, c.Review && !l.Accepted
	if v.Unreviewed {
		v.Resources, v.Prompts = false, false
	}
	if v.Category == "" {
		v.Category = l.inferCategory(c.Name)
	}
	for _, k := range l.Tools {
		if k.Quarantined != nil {
			v.Quarantined++
		}
		k.Trusted.Server = c.Name // the name in the configuration may have changed
		s.Tools = append(s.Tools, Tool{
			Definition: k.Trusted, Category: v.Category, Connected: true, Quarantined: k.Quarantined, New: k.New,
			TrustedHints: k.Trusted.Hints.Trusted(c.Trusted), Trusted: c.Trusted,
		})
	}
	s.Servers = append(s.Servers, v)
}

// Reason returns why a quarantined tool cannot be called.
func (t Tool) Reason() string {
	if t.New {
		return "nobody has reviewed it yet"
	}
	return "its definition has changed since it was trusted"
}

// Server finds a server by its name or its Python name.
func (s *Snapshot) Server(name string) (Server, bool) {
	if i, ok := s.servers[name]; ok {
		return s.Servers[i], true
	}
	for server, module := range s.modules {
		if module == name {
			return s.Servers[s.servers[server]], true
		}
	}
	return Server{}, false
}

// DisabledServer returns the name of a disabled server, "" if no disabled server has this name or Python
// name.
func (s *Snapshot) DisabledServer(name string) string {
	for _, d := range s.Disabled {
		if d == name || tool.ModuleNames([]string{d})[d] == name {
			return d
		}
	}
	return ""
}

// DisabledError returns the error of a use of a disabled server, nil if none has this name or Python name.
func (s *Snapshot) DisabledError(name string) error {
	disabled := s.DisabledServer(name)
	if disabled == "" {
		return nil
	}
	return fault.New(fault.NotFound, "server %s is disabled by the operator", disabled).
		WithHint("the operator can enable it with `sandpiper servers enable %s`", disabled)
}

// NotConfigured returns the error of a use of a server that is not in the configuration, or is disabled there.
func (s *Snapshot) NotConfigured(name string) error {
	if err := s.DisabledError(name); err != nil {
		return err
	}
	return fault.New(fault.NotFound, "there is no server %q in the configuration", name).WithHint("`sandpiper servers list` lists the servers")
}

// Find finds one tool.
func (s *Snapshot) Find(ref tool.Ref) (Tool, bool) {
	i, ok := s.byRef[ref]
	if !ok {
		return Tool{}, false
	}
	return s.Tools[i], true
}

// Resolve maps the Python names of a server and a tool to their own names. An own name
// has priority over a Python name.
func (s *Snapshot) Resolve(ref tool.Ref) tool.Ref {
	v, ok := s.Server(ref.Server)
	if !ok {
		return ref
	}
	ref.Server = v.Name
	if _, exact := s.byRef[ref]; !exact {
		if wire, ok := s.function(v.Name).wire[ref.Tool]; ok {
			ref.Tool = wire
		}
	}
	return ref
}

// Of returns the tools of a server, by name.
func (s *Snapshot) Of(server string) []Tool {
	i, _ := slices.BinarySearchFunc(s.Tools, server, func(t Tool, name string) int { return strings.Compare(t.Server, name) })
	j := i
	for j < len(s.Tools) && s.Tools[j].Server == server {
		j++
	}
	return s.Tools[i:j]
}

// Function finds a tool by the Python names of its server and itself.
func (s *Snapshot) Function(module, function string) (Tool, bool) {
	v, ok := s.Server(module)
	if !ok {
		return Tool{}, false
	}
	return s.Find(tool.Ref{Server: v.Name, Tool: s.function(v.Name).wire[function]})
}

// Python returns the names of a tool's module and function.
func (s *Snapshot) Python(ref tool.Ref) (module, function string) {
	return s.modules[ref.Server], s.function(ref.Server).python[ref.Tool]
}

// Category is a group of tools.
type Category struct {
	Description string
	Tools       int
}

// Categories returns all categories that have a tool.
func (s *Snapshot) Categories() map[string]Category {
	all := map[string]Category{}
	for _, t := range s.Tools {
		c := all[t.Category]
		c.Tools++
		all[t.Category] = c
	}
	for name, c := range all {
		c.Description = s.describeCategory(name)
		all[name] = c
	}
	return all
}

// describeCategory describes a category by its static catalog, or else by its servers.
func (s *Snapshot) describeCategory(category string) string {
	if text := s.described[category]; text != "" {
		return text
	}
	var servers []string
	for _, v := range s.Servers {
		if v.Category == category && v.Tools > 0 {
			servers = append(servers, v.Name)
		}
	}
	return "tools of " + abbreviate(servers, 8)
}

// Shown returns a hash of the definitions that Accept would accept now, for AcceptShown.
func (s *Snapshot) Shown(server string, tools ...string) string {
	var all []tool.Definition
	for _, t := range s.Of(server) {
		if t.Quarantined != nil {
			all = append(all, *t.Quarantined)
		}
	}
	v, _ := s.Server(server)
	return hashShown(all, v.NewTexts, tools)
}

// reviewed returns the names of the tools that were reviewed.
func reviewed(tools []Tool) (names []string) {
	for _, t := range tools {
		if !t.New {
			names = append(names, t.Definition.Tool)
		}
	}
	return names
}
