// Package lookup answers questions about tools for models, code and users: by search,
// by name, by category and by server.
//
// The answers are plain values whose JSON is the contract of the MCP tools with the
// same names. They are short, since each answer costs tokens. All functions are
// read-only and safe for concurrent use. The package opens no connections and calls
// no tools.
package lookup

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"sync"
	"unicode/utf8"

	"github.com/sandpiper-mcp/sandpiper/internal/fault"
	"github.com/sandpiper-mcp/sandpiper/internal/home/learned"
	"github.com/sandpiper-mcp/sandpiper/internal/home/skill"
	"github.com/sandpiper-mcp/sandpiper/internal/store/tenant"
	"github.com/sandpiper-mcp/sandpiper/internal/tool"
	"github.com/sandpiper-mcp/sandpiper/internal/tool/catalog"
	"github.com/sandpiper-mcp/sandpiper/internal/tool/catalog/embedding"
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
	// Embeddings is the index for semantic search; nil means lexical search only.
	Embeddings *embedding.Index
	// Handwritten returns the functions of handwritten modules; nil means that there are none.
	Handwritten func() []codegen.Handwritten
	// Untrusted lists the configuration files of the project that are not trusted and
	// therefore not read.
	Untrusted []string
}

// Finder answers questions about tools.
type Finder struct {
	cfg    Config
	viewer catalog.Viewer
	skills *skill.Store   // nil means that there are none
	uses   *learned.Store // nil means that there are none
	waited *sync.Map      // names of servers that a request has waited for
}

// New returns a Finder.
func New(cfg Config) *Finder { return &Finder{cfg: cfg, waited: &sync.Map{}} }

// For returns a Finder of the tools that a viewer may use. New returns that of the operator.
func (f *Finder) For(v catalog.Viewer) *Finder {
	return &Finder{cfg: f.cfg, viewer: v, waited: f.waited}
}

// WithSkills returns a Finder that also finds these skills.
func (f *Finder) WithSkills(s *skill.Store) *Finder {
	return &Finder{f.cfg, f.viewer, s, f.uses, f.waited}
}

// WithUses returns a Finder that ranks tools higher that were used, and adds its searches to u.
func (f *Finder) WithUses(u *learned.Store) *Finder {
	return &Finder{f.cfg, f.viewer, f.skills, u, f.waited}
}

func (f *Finder) now() *catalog.Snapshot { return f.cfg.Catalog.For(f.viewer) }

// Modules returns the Python names of the connected servers.
func (f *Finder) Modules() (names []string) {
	for _, s := range f.now().Servers {
		if s.Connected {
			names = append(names, s.Module)
		}
	}
	return names
}

// Tokens returns how many tokens a client spends that lists all these tools directly.
func (f *Finder) Tokens() int64 { return f.now().Tokens() }

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
	Arguments   []string        `json:"arguments,omitempty"` // of a compact definition: constraints that the signature lacks
	Example     string          `json:"example,omitempty"`
	Connect     string          `json:"connect,omitempty"`
	Quarantined string          `json:"held,omitempty"` // why it cannot be called
	Others      []string        `json:"others,omitempty"`

	usage codegen.Usage
}

// compact returns d without what the signature says: the schemas, unless they say more, and the
// example. Strings in the signature have single quotes, which JSON does not escape.
func (d Definition) compact() Definition {
	if d.Signature == "" || d.Signature != d.usage.Signature { // not connected, or a module
		return d
	}
	_, result, _ := strings.Cut(d.Signature, ") -> ")
	if strings.Contains(result, "{") || !bytes.Contains(d.Output, []byte(`"properties"`)) { // its keys are not too many
		d.Output = nil
	}
	if !d.usage.Nested && !strings.Contains(d.Signature, "(...)") {
		d.Input = nil
	}
	if !strings.ContainsAny(d.Signature, `'\\`) {
		d.Signature = strings.ReplaceAll(d.Signature, `"`, "'")
	}
	d.Example, d.Arguments = "", d.usage.Arguments
	return d
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
		d.Quarantined = fmt.Sprintf("%s; the operator can run `sandpiper tools accept %s %s`", strings.Replace(t.Reason(), "its definition", "it", 1), t.Server, t.Definition.Tool)
	}
	of := t.Definition
	if of.Output == nil && shapes != nil {
		if seen, ok, err := shapes.Find(ctx, t.Ref); err != nil {
			return d, err
		} else if ok {
			d.Output, d.Inferred = seen.Schema(), true
			of.Output = markInferred(d.Output)
		}
	}
	d.usage = usage(now, t, of)
	d.Import, d.Signature, d.Example = d.usage.Import, d.usage.Signature, d.usage.Example
	return d, nil
}

// Definitions are the answer for several tools.
type Definitions struct {
	Tools []any `json:"tools"` // a Definition or an Undefined for each name
}

// Undefined is the reason why a tool has no definition.
type Undefined struct {
	Name  string `json:"name"`
	Error string `json:"error"`
}

// maxDefinitions limits the names of one request.
const maxDefinitions = 20

// Names is a request for the definitions of tools.
type Names struct {
	Names    json.RawMessage `json:"tool_name"` // a string, or an array of strings
	Category string          `json:"category"`
	Schemas  bool            `json:"schemas"` // with schemas and an example, also if they repeat the signature
}

// DefineNames returns the Definition of a tool, or Definitions if there is an array of names. A
// name without a tool does not fail the others.
func (f *Finder) DefineNames(ctx context.Context, shapes *catalog.Shapes, q Names) (any, error) {
	define := func(name string) (Definition, error) {
		d, err := f.Define(ctx, shapes, name, q.Category)
		if !q.Schemas {
			d = d.compact()
		}
		return d, err
	}
	var one string
	if json.Unmarshal(q.Names, &one) == nil {
		return define(one)
	}
	var several []string
	if json.Unmarshal(q.Names, &several) != nil || len(several) == 0 || len(several) > maxDefinitions {
		return nil, fault.New(fault.Invalid, "tool_name is %.80s; it must be the name of a tool or an array of 1 to %d names", q.Names, maxDefinitions)
	}
	all := Definitions{}
	for _, name := range several {
		d, err := define(name)
		switch {
		case err == nil:
			all.Tools = append(all.Tools, d)
		case fault.KindOf(err) == fault.NotFound:
			all.Tools = append(all.Tools, Undefined{name, fault.Message(err) + "; " + fault.Hint(err)})
		default:
			return nil, err
		}
	}
	return all, nil
}

// markInferred marks an object's schema as inferred, for the signature.
func markInferred(s json.RawMessage) json.RawMessage {
	if string(s) == "{}" {
		return s
	}
	return append([]byte(`{"inferred":true,`), s[1:]...)
}

func (f *Finder) unknownTool(now *catalog.Snapshot, name, category string) error {
	if server, _, ok := strings.Cut(name, "."); ok {
		if err := now.DisabledError(server); err != nil {
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

// firstSentence returns the first sentence of a text, at most n characters.
func firstSentence(text string, n int) string {
	text = strings.Join(strings.Fields(text), " ")
	for i, r := range text {
		if (r == '.' || r == '!' || r == '?') && (i+1 == len(text) || text[i+1] == ' ') && i > 20 {
			text = text[:i]
			break
		}
	}
	text = strings.TrimSuffix(text, ".")
	if utf8.RuneCountInString(text) <= n {
		return text
	}
	return string([]rune(text)[:n-1]) + "…"
}
