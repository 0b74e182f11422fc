package catalog

import (
	"cmp"
	"maps"
	"slices"
	"strings"
	"sync"

	"github.com/sandpiper-mcp/sandpiper/internal/tool"
)

// Snapshot is the state of the catalog at one moment. Callers must not change its slices.
type Snapshot struct {
	entries
	finder

	Core     []string // core servers of static catalogs
	Disabled Disabled

	described map[string]string // category -> description in a static catalog
	nameSet   func() map[string]bool
	topics    func() []string // words for the objects of the connected tools, such as contacts
	tokens    func() int64
	allow     []*Allow // what selected the tools
	views     views
	derived   string // see Config.Derived; "" for a part
}

func newSnapshot(cfg Config, listings map[string]*listing) *Snapshot {
	all := 0
	for _, l := range listings {
		if l != nil {
			all += len(l.Tools)
		}
	}
	s := &Snapshot{entries: entries{Tools: make([]Tool, 0, all), byRef: make(map[tool.Ref]int, all), servers: map[string]int{}},
		described: map[string]string{}, derived: cfg.Derived}
	s.listings = maps.Clone(listings)
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
	s.derive()
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
	s.finder.entries = &s.entries
	s.search, s.tokens = sync.OnceValue(s.index), sync.OnceValue(s.countTokens)
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

// addStatic adds a static catalog. The listing of a connected server has priority
// over its description in the file.
func (s *Snapshot) addStatic(c Static) {
	s.Core = append(s.Core, c.Core...)
	for category, group := range c.Categories {
		if group.Description != "" {
			s.described[category] = group.Description
		}
		for name, t := range group.Tools {
			s.addStaticTool(category, name, t)
		}
	}
}

// IsName reports whether a text is the name or title of a server, tool or category.
// Such a text is not personal data.
func (s *Snapshot) IsName(text string) bool { return s.nameSet()[text] }

func (s *Snapshot) names() map[string]bool {
	all := map[string]bool{}
	for _, v := range s.Servers {
		for _, name := range []string{v.Name, v.Module, v.Title, v.Category} {
			all[name] = true
		}
	}
	for _, t := range s.Tools {
		for _, name := range append([]string{t.Definition.Tool, t.Title, t.Category}, t.Functions...) {
			all[name] = true
		}
	}
	delete(all, "")
	return all
}

// Tokens returns how many tokens a client spends that lists all tools of the connected
// servers directly: names, descriptions and schemas. Counting 7,000 tools takes a
// tenth of a second, once for each snapshot.
func (s *Snapshot) Tokens() int64 { return s.tokens() }

func (s *Snapshot) countTokens() int64 {
	sum := int64(0)
	for _, t := range s.Tools {
		if t.Connected {
			sum += t.Tokens()
		}
	}
	return sum
}
