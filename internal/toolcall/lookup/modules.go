package lookup

import (
	"context"
	"encoding/json"
	"slices"
	"strings"

	"github.com/sandpiper-mcp/sandpiper/internal/fault"
	"github.com/sandpiper-mcp/sandpiper/internal/home/skill"
	"github.com/sandpiper-mcp/sandpiper/internal/tool"
	"github.com/sandpiper-mcp/sandpiper/internal/tool/catalog"
	"github.com/sandpiper-mcp/sandpiper/internal/tool/catalog/search"
	"github.com/sandpiper-mcp/sandpiper/internal/tool/pysource"
)

// Categories of imports other than tools.
const (
	skillCategory       = "skills"
	handwrittenCategory = "handwritten"
)

// module is a skill or a function of a handwritten module. Code imports it; it is no tool, so
// it cannot be called by name, and policy is not about it, but about the tools that it calls.
type module struct {
	name, server, category string
	description            string
	tags                   []string
	imports                string
	calls                  []string // tools that it may call, SERVER.TOOL
	// source returns the function, for its signature; its Name is "" if it is not known.
	source func(context.Context) (pysource.Function, error)
}

// modules returns the skills and handwritten functions that the viewer may see.
func (f importable) modules(ctx context.Context, now *catalog.Snapshot) (all []module, err error) {
	all = f.handwritten(now)
	if f.skills == nil {
		return all, nil
	}
	skills, err := f.skills.List(ctx)
	for _, m := range skills {
		all = append(all, f.skill(m))
	}
	return all, err
}

func (f importable) handwritten(now *catalog.Snapshot) (all []module) {
	if f.functions == nil {
		return nil
	}
	for _, h := range f.functions() {
		if now.Allows(tool.Ref{Server: h.Module, Tool: h.Name}) {
			all = append(all, module{
				name:        h.Name,
				server:      h.Module,
				category:    handwrittenCategory,
				description: h.About,
				imports:     h.Import(),
				calls:       h.Calls,
				source:      func(context.Context) (pysource.Function, error) { return h.Function, nil },
			})
		}
	}
	return all
}

func (f importable) skill(m skill.Metadata) module {
	var calls []string
	for _, t := range m.Tools {
		calls = append(calls, t.Ref.String())
	}
	return module{
		name:        m.Name,
		server:      "skills",
		category:    skillCategory,
		description: m.Description,
		tags:        m.Tags,
		imports:     "from skills import " + m.Name,
		calls:       calls,
		source: func(ctx context.Context) (pysource.Function, error) {
			s, err := f.skills.Find(ctx, m.Name, 0)
			found, _ := pysource.Parse([]byte(s.Code)).Find(m.Name)
			return found, err
		},
	}
}

// background is the number of other tools that merge indexes: without them, the words that all
// found tools have would count as frequent ones.
const background = 150

// merge returns the matches of a query, the tools found by a search and the matching modules, and
// the number of matching modules. Tools keep their order. An index of the found tools and the
// modules ranks the modules among them: indexing all tools for each tenant would cost too much.
func merge(now *catalog.Snapshot, tools []catalog.Ranked, own []module, q Query) (all []match, matching int) {
	for _, t := range tools {
		all = append(all, match{tool: t})
	}
	if len(own) == 0 {
		return all, 0
	}
	found := rank(now, tools, own, q)
	modules := len(tools) + len(own)
	scores := make([]float64, len(tools))
	for _, h := range found {
		if h.Doc < len(tools) {
			scores[h.Doc] = h.Score
		}
	}
	listed := strings.TrimSpace(q.Text) == "" // in no order
	at := 0
	for _, h := range found {
		if h.Doc < len(tools) || h.Doc >= modules {
			continue
		}
		for at < len(all) && (listed || at-matching < len(scores) && scores[at-matching] >= h.Score) {
			at++
		}
		if matching++; at < q.Limit {
			all = slices.Insert(all, at, match{module: &own[h.Doc-len(tools)]})
			at++
		}
	}
	return all[:min(len(all), q.Limit)], matching
}

// rank searches tools, own modules and others, in this order.
func rank(now *catalog.Snapshot, tools []catalog.Ranked, own []module, q Query) []search.Hit {
	docs := make([]search.Doc, 0, len(tools)+len(own)+background)
	for _, t := range tools {
		docs = append(docs, now.Doc(t.Tool))
	}
	for _, m := range own {
		docs = append(docs, search.Doc{Name: m.name, Server: m.server, Category: m.category, Description: m.description, UseCases: m.tags})
	}
	for i := 0; i < len(now.Tools); i += max(1, len(now.Tools)/background) {
		docs = append(docs, now.Doc(now.Tools[i]))
	}
	return search.New(docs).Search(search.Query{Text: q.Text, Category: q.Category, Limit: len(docs)}).Found
}

func (m module) hit(ctx context.Context, detail string) Hit {
	h := Hit{Name: m.name, Category: m.category, Server: m.server, Import: m.imports}
	if detail == Name {
		return h
	}
	h.Description = firstSentence(m.description, 120)
	if detail == Full {
		h.UseCases = m.tags
		if s, err := m.source(ctx); err == nil && s.Name != "" {
			h.Signature = s.Signature()
		}
	}
	return h
}

// defineModule returns the definition of a skill or handwritten function, named as it is
// imported, "skills.NAME" or "SERVER.NAME", or by its name alone.
func (f importable) defineModule(ctx context.Context, now *catalog.Snapshot, name, category string) (Definition, bool, error) {
	own, err := f.modules(ctx, now)
	if err != nil {
		return Definition{}, false, err
	}
	full := strings.TrimPrefix(name, "servers.")
	for _, m := range own {
		if full != m.name && full != m.server+"."+m.name || category != "" && !strings.EqualFold(category, m.category) {
			continue
		}
		s, err := m.source(ctx)
		if err != nil {
			return Definition{}, false, err
		}
		d := Definition{
			Name:        m.name,
			Server:      m.server,
			Category:    m.category,
			Description: m.description,
			UseCases:    m.tags,
			Import:      m.imports,
			Input:       json.RawMessage("true"),
		}
		if s.Name != "" {
			d.Signature, d.Input = s.Signature(), s.Input()
		}
		return d, true, nil
	}
	return Definition{}, false, nil
}

// serverModules returns the handwritten functions of one server.
func (f importable) serverModules(now *catalog.Snapshot, server string) (hits []Hit) {
	for _, m := range f.handwritten(now) {
		if m.server == server {
			hits = append(hits, m.hit(context.Background(), Summary)) // it reads nothing
		}
	}
	return hits
}

func unknownServer(now *catalog.Snapshot, name string) error {
	if err := now.Disabled.Check(name); err != nil {
		return err
	}
	return fault.New(fault.NotFound, "there is no server %.80q", name).WithHint("%s", serversHint(now, name))
}

// match is a tool or a module.
type match struct {
	tool   catalog.Ranked
	module *module // nil if it is a tool
}

// ref identifies a match.
func (m match) ref() tool.Ref {
	if m.module != nil {
		return tool.Ref{Server: m.module.server, Tool: m.module.name}
	}
	return m.tool.Ref
}
