// Package lookup answers questions about tools for models, code and users: by search,
// by name, by category and by server.
//
// The answers are plain values whose JSON is the contract of the MCP tools with the
// same names. They are short, since each answer costs tokens. All functions are
// read-only and safe for concurrent use. The package opens no connections and calls
// no tools.
package lookup

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/sandpiper-mcp/sandpiper/internal/fault"
	"github.com/sandpiper-mcp/sandpiper/internal/home/learned"
	"github.com/sandpiper-mcp/sandpiper/internal/home/skill"
	"github.com/sandpiper-mcp/sandpiper/internal/store/tenant"
	"github.com/sandpiper-mcp/sandpiper/internal/tool"
	"github.com/sandpiper-mcp/sandpiper/internal/tool/catalog"
	"github.com/sandpiper-mcp/sandpiper/internal/tool/codegen"
	"github.com/sandpiper-mcp/sandpiper/internal/upstream"
)

// Config of a Finder.
type Config struct {
	Catalog *catalog.Catalog // required
	// States returns the states of a tenant's connections, for the zero ID those of all tenants
	// together; nil means that there are none.
	States func(tenant.ID) []upstream.State
	// AwaitTools waits until servers have listed their tools, and returns the errors of those that
	// failed; nil means that there is nothing to wait for.
	AwaitTools func(ctx context.Context, servers ...string) map[string]error
	// Embeddings searches by meaning; nil means lexical search only.
	Embeddings Embeddings
	// Handwritten returns the functions of handwritten modules; nil means that there are none.
	Handwritten func() []codegen.Handwritten
	// Untrusted lists the configuration files of the project that are not trusted and
	// therefore not read.
	Untrusted []string
}

// Finder answers questions about tools.
type Finder struct {
	view
	importable
	uses   *learned.Store  // nil means that there are none
	shapes *catalog.Shapes // nil means that there are none
}

// view is the catalog as a viewer may see it.
type view struct {
	cfg    Config
	viewer catalog.Viewer
	waited *sync.Map // names of servers that a request has waited for
}

// importable has the modules that code imports besides tools.
type importable struct {
	functions func() []codegen.Handwritten // of handwritten modules; nil means that there are none
	skills    *skill.Store                 // nil means that there are none
}

// New returns a Finder.
func New(cfg Config) *Finder {
	return &Finder{view: view{cfg: cfg, waited: &sync.Map{}}, importable: importable{functions: cfg.Handwritten}}
}

// For returns a Finder of the tools that a viewer may use. New returns that of the operator.
func (f *Finder) For(v catalog.Viewer) *Finder {
	return &Finder{view: view{f.cfg, v, f.waited}, importable: importable{functions: f.functions}}
}

// WithSkills returns a Finder that also finds these skills.
func (f *Finder) WithSkills(s *skill.Store) *Finder {
	with := *f
	with.skills = s
	return &with
}

// WithUses returns a Finder that ranks tools higher that were used, and adds its searches to u.
func (f *Finder) WithUses(u *learned.Store) *Finder {
	with := *f
	with.uses = u
	return &with
}

// WithShapes returns a Finder whose search shows the result types that were inferred for a tenant.
func WithShapes(f *Finder, shapes *catalog.Shapes) *Finder {
	with := *f
	with.shapes = shapes
	return &with
}

// learn returns d with the type of its results that was inferred from them, if it declares none.
func learn(ctx context.Context, shapes *catalog.Shapes, d tool.Definition) (with tool.Definition, inferred json.RawMessage, err error) {
	if d.Output != nil || shapes == nil {
		return d, nil, nil
	}
	seen, ok, err := shapes.Find(ctx, d.Ref)
	if err != nil || !ok {
		return d, nil, err
	}
	inferred = seen.Schema()
	return codegen.Learned(d, inferred), inferred, nil
}

func (f view) now() *catalog.Snapshot { return f.cfg.Catalog.For(f.viewer) }

// Tokens returns how many tokens a client spends that lists all these tools directly.
func (f view) Tokens() int64 { return f.now().Tokens() }

func usage(now *catalog.Snapshot, t catalog.Tool, d tool.Definition) codegen.Usage {
	module, function := now.Python(t.Ref)
	return codegen.Describe(d, module, function)
}

// Definition describes one tool completely.
type Definition struct {
	Name        string          `json:"name"`
	Server      string          `json:"mcp_server"`
	Category    string          `json:"category"`
	Description string          `json:"description"`
	Functions   []string        `json:"functions,omitempty"`
	UseCases    []string        `json:"use_cases,omitempty"`
	Input       json.RawMessage `json:"input_schema,omitempty"`
	Output      json.RawMessage `json:"output_schema,omitempty"`
	Inferred    bool            `json:"inferred,omitempty"` // Output was inferred from results
	Import      string          `json:"import,omitempty"`
	Signature   string          `json:"signature,omitempty"`
	Example     string          `json:"example,omitempty"`
	// ResultExample is a value like the results, with placeholders, if Output was inferred.
	ResultExample string   `json:"result_example,omitempty"`
	Connect       string   `json:"connect,omitempty"`
	Quarantined   string   `json:"held,omitempty"` // why it cannot be called
	Others        []string `json:"others,omitempty"`

	of    tool.Definition // with the inferred output schema
	usage codegen.Usage
}

// Define returns the definition of a tool, named "tool", "server.tool" or as it is
// imported. shapes contains the result schemas inferred for the calling tenant.
func (f *Finder) Define(ctx context.Context, shapes *catalog.Shapes, name, category string) (Definition, error) {
	now := f.now()
	tools := now.Named(name, category)
	if len(tools) == 0 {
		now = f.awaitListing(ctx, now.Servers...)
		tools = now.Named(name, category)
	}
	if len(tools) == 0 {
		if d, ok, err := f.defineModule(ctx, now, name, category); ok || err != nil {
			return d, err
		}
		return Definition{}, f.unknownTool(now, name, category)
	}
	t := tools[0]
	d := Definition{
		Name: t.Definition.Tool, Server: t.Server, Category: t.Category, Description: t.Description,
		Functions: t.Functions, UseCases: t.UseCases, Input: t.Input,
	}
	d.Output, _ = t.Returns()
	for _, o := range tools[1:] {
		d.Others = append(d.Others, o.Ref.String())
	}
	switch {
	case !t.Connected:
		d.Connect = "add server " + t.Server + " to servers: in sandpiper.yaml"
		return d, nil
	case t.Quarantined != nil:
		d.Quarantined = fmt.Sprintf("%s; the operator can run `sandpiper tools accept %s %s`",
			strings.Replace(t.Reason(), "its definition", "it", 1), t.Server, t.Definition.Tool)
	}
	of, inferred, err := learn(ctx, shapes, t.Definition)
	if err != nil {
		return d, err
	}
	if inferred != nil {
		d.Output, d.Inferred, d.ResultExample = inferred, true, codegen.ResultExample(of, 24)
	}
	d.of, d.usage = of, usage(now, t, of)
	d.Import, d.Signature, d.Example = d.usage.Import, d.usage.Signature, d.usage.Example
	return d, nil
}

func (f *Finder) unknownTool(now *catalog.Snapshot, name, category string) error {
	if server, _, ok := strings.Cut(name, "."); ok {
		if err := now.Disabled.Check(server); err != nil {
			return err
		}
	}
	err := fault.New(fault.NotFound, "there is no tool %.100q", name)
	if category != "" {
		err = fault.New(fault.NotFound, "there is no tool %.100q in the category %.60q", name, category)
	}
	if starting := f.starting(now); len(starting) > 0 {
		return err.WithHint("%s", startingHint(starting))
	}
	var near []string
	tools, _ := now.Search(name, "", 5)
	for _, t := range tools {
		near = append(near, t.Ref.String())
	}
	if len(near) == 0 {
		return err.WithHint("search_tools finds tools by what they do")
	}
	return err.WithHint("did you mean %s?", strings.Join(near, ", "))
}

// Categories are the groups of tools.
type Categories struct {
	Categories map[string]Category `json:"categories"`
	Total      int                 `json:"total_tools"`
	Core       []string            `json:"core_mcps"`      // of catalogs, and the connected servers that did not fail
	Hint       string              `json:"hint,omitempty"` // the next step, if there are none
}

// Category is one of them.
type Category struct {
	Description string `json:"description"`
	Tools       int    `json:"tool_count"`
}

// Categories returns all categories.
func (f *Finder) Categories() Categories {
	now := f.now()
	c := Categories{Categories: map[string]Category{}, Total: len(now.Tools), Core: append([]string{}, now.Core...)}
	for name, of := range now.Categories() {
		c.Categories[name] = Category{of.Description, of.Tools}
	}
	for _, s := range f.Servers().Servers {
		if s.State != NotConnected && s.State != Disabled && s.State != upstream.Failed.String() && !slices.Contains(c.Core, s.Name) {
			c.Core = append(c.Core, s.Name)
		}
	}
	if len(c.Categories) == 0 {
		c.Hint = "no tools are known yet; " + f.ServerStates()
	}
	return c
}
