package mcpserver

import (
	"cmp"
	"context"

	"github.com/sandpiper-mcp/sandpiper/internal/fault"
	"github.com/sandpiper-mcp/sandpiper/internal/mcpserver/builtin"
	"github.com/sandpiper-mcp/sandpiper/internal/mcpserver/wire"
	"github.com/sandpiper-mcp/sandpiper/internal/privacy/redact"
	"github.com/sandpiper-mcp/sandpiper/internal/tool/catalog"
	"github.com/sandpiper-mcp/sandpiper/internal/toolcall/lookup"
)

// toolTools are the tools that search and describe the servers' tools.
type toolTools struct{ finder *lookup.Finder }

func (s toolTools) all() []builtin.Tool {
	if s.finder == nil {
		return nil
	}
	category := builtin.Param{Name: "category", Kind: builtin.Text, Source: categoryNames, Rare: true}
	return []builtin.Tool{{
		Name: "search_tools", Profile: builtin.Lean,
		Description: "Find tools by purpose.",
		Params: []builtin.Param{
			{Name: "query", Kind: builtin.TextOrTexts, Required: true},
			category,
			{Name: "detail_level", Kind: builtin.Text, Values: []string{lookup.Lines, lookup.Name, lookup.Summary, lookup.Full}},
			{Name: "max_results", Kind: builtin.Integer, Rare: true},
		},
		Hints:      wire.Hints{ReadOnly: true, Idempotent: true},
		AlwaysLoad: true,
		Run:        builtin.Handle(s.searchTools),
	}, {
		Name: "get_tool_definition", Profile: builtin.Lean,
		Description: "Describe tools in full.",
		Params: []builtin.Param{{Name: "tool_name", Kind: builtin.TextOrTexts, Required: true, Source: toolNames}, category,
			{Name: "schemas", Kind: builtin.Boolean, Rare: true}},
		Hints: wire.Hints{ReadOnly: true, Idempotent: true},
		Run:   builtin.Handle(s.toolDefinition),
	}, {
		Name: "list_tool_categories", Profile: builtin.Standard,
		Description: "Categories of tools, with counts.",
		Hints:       wire.Hints{ReadOnly: true, Idempotent: true},
		Run:         s.toolCategories,
	}, {
		Name: "list_servers", Profile: builtin.Full,
		Description: "Connected servers: state, reason, tool count.",
		Hints:       wire.Hints{ReadOnly: true},
		Run:         s.listServers,
	}, {
		Name: "get_server_tools", Profile: builtin.Full,
		Description: "The tools of one server.",
		Params:      []builtin.Param{{Name: "server_name", Kind: builtin.Text, Required: true, Source: serverNames}},
		Hints:       wire.Hints{ReadOnly: true, Idempotent: true},
		Run:         builtin.Handle(s.serverTools),
	}}
}

// find returns the Finder of the caller.
func (s toolTools) find(c builtin.Call) *lookup.Finder {
	return lookup.WithShapes(s.finder.For(catalog.Viewer{Tenant: c.Home.ID(), Subset: c.Subset}).WithSkills(c.Home.Skills).
		WithUses(c.Home.Learned), c.Home.Shapes)
}

func (s toolTools) searchTools(ctx context.Context, c builtin.Call, args struct {
	Query    lookup.Words
	Category string
	Detail   string   `json:"detail_level"`
	Most     *float64 `json:"max_results"`
}) (redact.Message, error) {
	q := lookup.Query{Text: string(args.Query), Category: args.Category, Detail: cmp.Or(args.Detail, lookup.Lines), Limit: 20}
	if args.Most != nil {
		if q.Limit = int(builtin.Int64(*args.Most)); q.Limit == 0 { // 0 means the default in a Query
			return redact.Message{}, fault.New(fault.Invalid, "max_results is 0; it must be at least 1")
		}
	}
	found, err := s.find(c).Answer(ctx, q)
	return redact.Message{Body: found}, err
}

func (s toolTools) toolDefinition(ctx context.Context, c builtin.Call, args lookup.Names) (redact.Message, error) {
	d, err := s.find(c).DefineNames(ctx, c.Home.Shapes, args)
	return redact.Message{Body: d}, err
}

func (s toolTools) toolCategories(ctx context.Context, c builtin.Call) (redact.Message, error) {
	if err := c.Read(&struct{}{}); err != nil {
		return redact.Message{}, err
	}
	find := s.find(c)
	find.Await(ctx)
	return redact.Message{Body: find.Categories()}, nil
}

func (s toolTools) listServers(_ context.Context, c builtin.Call) (redact.Message, error) {
	err := c.Read(&struct{}{})
	return redact.Message{Body: s.find(c).Servers()}, err
}

func (s toolTools) serverTools(ctx context.Context, c builtin.Call, args struct {
	Server string `json:"server_name"`
}) (redact.Message, error) {
	list, err := s.find(c).ServerTools(ctx, args.Server)
	return redact.Message{Body: list}, err
}
