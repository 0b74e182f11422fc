package mcpserver

import (
	"cmp"
	"context"
	"slices"
	"strings"

	"github.com/sandpiper-mcp/sandpiper/internal/execution"
	"github.com/sandpiper-mcp/sandpiper/internal/fault"
	"github.com/sandpiper-mcp/sandpiper/internal/mcpserver/builtin"
	"github.com/sandpiper-mcp/sandpiper/internal/mcpserver/wire"
	"github.com/sandpiper-mcp/sandpiper/internal/privacy/redact"
	"github.com/sandpiper-mcp/sandpiper/internal/store/tenant"
	"github.com/sandpiper-mcp/sandpiper/internal/tool/catalog"
	"github.com/sandpiper-mcp/sandpiper/internal/toolcall/lookup"
)

// audience is everything that the list of tools and their descriptions depend on.
type audience struct {
	profile builtin.Profile
	limits  execution.Limits
	mode    redact.Mode
	servers string // the connected servers, as descriptions list them; "" means none
	example string // the module of one of them
	topics  string // words of their tools, separated by spaces

	packages string // names, separated by commas
	network  string // hosts, separated by commas; "" means none
}

// maxHosts is how many hosts the description of execute_code names.
const maxHosts = 8

// offers says what tools callers are offered.
type offers struct{ *Server }

// profile returns the profile of a tenant.
func (s offers) profile(id tenant.ID) builtin.Profile {
	if s.cfg.ProfileOf != nil && !id.IsZero() {
		return cmp.Or(s.cfg.ProfileOf(id), s.cfg.Profile)
	}
	return s.cfg.Profile
}

// audience returns the audience of a tenant with a profile and a subset of the servers.
func (s offers) audience(p builtin.Profile, v catalog.Viewer) audience {
	if p.Rank() < 0 { // it has no tools: those of Standard, for the token statistics
		p = builtin.Standard
	}
	a := audience{profile: p, limits: s.cfg.Runner.Limits(v.Tenant), mode: s.cfg.Privacy.Of(v.Tenant).Mode()}
	now := lookup.Connected{Modules: s.servers()}
	if s.cfg.Find != nil {
		all := lookup.ConnectedTo(s.cfg.Find)
		now.Categories, now.Topics = all.Categories, lookup.ConnectedTo(s.cfg.Find.For(v)).Topics
		seen := lookup.ConnectedTo(s.cfg.Find.For(v)).Modules
		now.Modules = slices.DeleteFunc(slices.Clone(now.Modules),
			func(name string) bool { return slices.Contains(all.Modules, name) && !slices.Contains(seen, name) })
	}
	if server := s.cfg.Runner.Network.Server; s.cfg.Network != nil && server != "" {
		if hosts := s.cfg.Network(v.Tenant); len(hosts) > 0 && slices.Contains(now.Modules, server) {
			a.network = strings.Join(hosts[:min(maxHosts, len(hosts))], ", ")
			if len(hosts) > maxHosts {
				a.network += ", …"
			}
		}
		now.Modules = slices.DeleteFunc(slices.Clone(now.Modules), func(name string) bool { return name == server }) // fetch is described
	}
	if len(now.Modules) > 0 {
		a.servers, a.example = listServers(now.Modules, now.Categories), now.Modules[0]
		a.topics = strings.Join(now.Topics[:min(maxTopics, len(now.Topics))], " ")
	}
	if s.cfg.Packages != nil {
		a.packages = strings.Join(s.cfg.Packages(v.Tenant), ", ")
	}
	return a
}

// instructions describe the server to the model, in at most 150 tokens. Some clients show the
// first sentence only.
func instructions(a audience) string {
	const data = " Process data there and return summaries, instead of reading it into the conversation. Files in /workspace and saved " +
		"skills persist between calls."
	if a.servers == "" {
		return "execute_code runs Python in a sandbox." + data
	}
	return "execute_code runs Python that calls the tools of " + a.servers + "; search_tools finds them." + data
}

// servers returns the modules of the connected servers.
func (s offers) servers() []string {
	if s.cfg.Servers == nil {
		return nil
	}
	return s.cfg.Servers()
}

// own returns the audience of a tenant that has chosen nothing.
func (s offers) own(id tenant.ID) audience {
	return s.audience(s.profile(id), catalog.Viewer{Tenant: id})
}

// offered returns the tools for an audience. There are few different ones: tenants of a tier
// share one, while their servers do not change.
func (s offers) offered(a audience) []wire.Tool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if listed, ok := s.lists[a]; ok {
		return listed
	}
	listed := s.of(a)
	if len(s.lists) >= maxLists {
		clear(s.lists)
	}
	s.lists[a] = listed
	return listed
}

// maxLists limits the number of cached lists.
const maxLists = 1000

// choose returns what a caller is offered, or an error for a choice that is not available.
func (s offers) choose(caller string, c wire.Choice) (wire.Selection, error) {
	id, err := tenant.ParseStored(caller)
	if err != nil {
		return wire.Selection{}, err
	}
	if c.Subset != "" && (s.cfg.HasSubset == nil || !s.cfg.HasSubset(c.Subset)) {
		return wire.Selection{}, fault.New(fault.NotFound, "there is no subset %.60q of the servers", c.Subset).
			WithHint("the operator configures them below subsets:")
	}
	p := s.profile(id)
	if chosen := builtin.Profile(c.Profile); c.Profile != "" {
		switch {
		case chosen.Rank() < 0 || p.Rank() < 0:
			return wire.Selection{}, fault.New(fault.Invalid, "the profile %.40q cannot be chosen: use %s", c.Profile, s.choosable(p))
		case chosen.Rank() > p.Rank():
			return wire.Selection{}, fault.New(fault.Denied, "the profile %s is not available to this caller: use %s", chosen,
				s.choosable(p))
		}
		p = chosen
	}
	of := wire.Selection{
		Has: func(tool string) bool {
			least, known := s.smallest[tool]
			return known && p.Shows(least) && !(s.tokenTools[tool] && s.cfg.Privacy.Of(id).Mode() == redact.Off)
		},
		Instructions: func() string { return instructions(s.audience(p, catalog.Viewer{Tenant: id, Subset: c.Subset})) },
		Tools: func() []wire.Tool {
			return s.offered(s.audience(p, catalog.Viewer{Tenant: id, Subset: c.Subset}))
		},
	}
	if s.cfg.Exports != nil {
		of.More = func(ctx context.Context) []wire.Tool { return s.exports(ctx, caller) }
		of.FindMore = func(ctx context.Context, name string) (wire.Tool, bool) { return s.export(ctx, caller, name) }
	}
	return of, nil
}

// choosable lists the profiles up to p.
func (s offers) choosable(p builtin.Profile) string {
	if p.Rank() < 0 {
		return "none, since this server has the profile " + string(p)
	}
	var names []string
	for _, one := range builtin.Profiles[:p.Rank()+1] {
		names = append(names, string(one))
	}
	return strings.Join(names, " or ")
}

// tools returns all tools, with the descriptions for an audience.
func (s offers) tools(a audience) []builtin.Tool {
	return slices.Concat(
		executeTools(s).all(a),
		sessionTools(s).all(),
		toolTools{s.cfg.Find}.all(),
		fileTools(),
		s.cfg.Tools,
		backgroundTools(s).all(),
		privacyTools(s).all(a),
		statsTools(s).all(),
	)
}

func (s offers) of(a audience) []wire.Tool {
	var listed []wire.Tool
	for _, t := range s.tools(a) {
		if a.profile == builtin.Lean && t.Schema == nil {
			t.Schema = builtin.LeanSchema(t.Params)
		}
		if a.profile.Shows(t.Profile) {
			listed = append(listed, wireTool(s.Server, t))
		}
	}
	return listed
}
