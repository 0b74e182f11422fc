package mcpserver

import (
	"cmp"
	"context"

	"github.com/sandpiper-mcp/sandpiper/internal/fault"
	"github.com/sandpiper-mcp/sandpiper/internal/mcpserver/wire"
	"github.com/sandpiper-mcp/sandpiper/internal/privacy/redact"
	"github.com/sandpiper-mcp/sandpiper/internal/tool/catalog"
	"github.com/sandpiper-mcp/sandpiper/internal/toolcall/lookup"
)

// toolTools returns the tools that search and describe the servers' tools.
func (s *Server) toolTools() []builtin {
	if s.cfg.Find == nil {
		return nil
	}
	category := param{name: "category", kind: text, names: categoryNames, rare: true}
	return []builtin{{
		name: "search_tools", profile: Lean,
		about: "Find tools by purpose.",
		params: []param{
			{name: "query", kind: textOrTexts, required: true},
			category,
			{name: "detail_level", kind: text, values: []string{lookup.Lines, lookup.Name, lookup.Summary, lookup.Full}},
			{name: "max_results", kind: integer, rare: true},
		},
		hints: wire.Hints{ReadOnly: true, Idempotent: true},
		load:  true,
		run:   s.searchTools,
	}, {
		name: "get_tool_definition", profile: Lean,
		about:  "Describe tools in full.",
		params: []param{{name: "tool_name", kind: textOrTexts, required: true, names: toolNames}, category, {name: "schemas", kind: boolean, rare: true}},
		hints:  wire.Hints{ReadOnly: true, Idempotent: true},
		run:    s.toolDefinition,
	}, {
		name: "list_tool_categories", profile: Standard,
		about: "Categories of tools, with counts.",
		hints: wire.Hints{ReadOnly: true, Idempotent: true},
		run:   s.toolCategories,
	}, {
		name: "list_servers", profile: Full,
		about: "Connected servers: state, reason, tool count.",
		hints: wire.Hints{ReadOnly: true},
		run:   s.listServers,
	}, {
		name: "get_server_tools", profile: Full,
		about:  "The tools of one server.",
		params: []param{{name: "server_name", kind: text, required: true, names: serverNames}},
		hints:  wire.Hints{ReadOnly: true, Idempotent: true},
		run:    s.serverTools,
	}}
}

// find returns the Finder of the caller.
func (s *Server) find(c call) *lookup.Finder {
	return lookup.WithShapes(s.cfg.Find.For(catalog.Viewer{Tenant: c.home.ID(), Subset: c.Subset}).WithSkills(c.home.Skills).WithUses(c.home.Learned), c.home.Shapes)
}

func (s *Server) searchTools(ctx context.Context, c call) (redact.Message, error) {
	var args struct {
		Query    lookup.Words
		Category string
		Detail   string   `json:"detail_level"`
		Most     *float64 `json:"max_results"`
	}
	if err := c.read(&args); err != nil {
		return redact.Message{}, err
	}
	q := lookup.Query{Text: string(args.Query), Category: args.Category, Detail: cmp.Or(args.Detail, lookup.Lines), Limit: 20}
	if args.Most != nil {
		if q.Limit = int(toInt64(*args.Most)); q.Limit == 0 { // 0 means the default in a Query
			return redact.Message{}, fault.New(fault.Invalid, "max_results is 0; it must be at least 1")
		}
	}
	found, err := s.find(c).Answer(ctx, q)
	return redact.Message{Body: found}, err
}

func (s *Server) toolDefinition(ctx context.Context, c call) (redact.Message, error) {
	var args lookup.Names
	if err := c.read(&args); err != nil {
		return redact.Message{}, err
	}
	d, err := s.find(c).DefineNames(ctx, c.home.Shapes, args)
	return redact.Message{Body: d}, err
}

func (s *Server) toolCategories(ctx context.Context, c call) (redact.Message, error) {
	if err := c.read(&struct{}{}); err != nil {
		return redact.Message{}, err
	}
	find := s.find(c)
	find.Await(ctx)
	return redact.Message{Body: find.Categories()}, nil
}

func (s *Server) listServers(_ context.Context, c call) (redact.Message, error) {
	err := c.read(&struct{}{})
	return redact.Message{Body: s.find(c).Servers()}, err
}

func (s *Server) serverTools(ctx context.Context, c call) (redact.Message, error) {
	var args struct {
		Server string `json:"server_name"`
	}
	if err := c.read(&args); err != nil {
		return redact.Message{}, err
	}
	list, err := s.find(c).ServerTools(ctx, args.Server)
	return redact.Message{Body: list}, err
}
