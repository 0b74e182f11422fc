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
	"unicode/utf8"

	"github.com/sandpiper-mcp/sandpiper/internal/fault"
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
	skills *skill.Store // nil means that there are none
	waited *sync.Map    // names of servers that a request has waited for
}

// New returns a Finder.
func New(cfg Config) *Finder { return &Finder{cfg: cfg, waited: &sync.Map{}} }

// For returns a Finder of the tools that a viewer may use. New returns that of the operator.
func (f *Finder) For(v catalog.Viewer) *Finder {
	return &Finder{cfg: f.cfg, viewer: v, waited: f.waited}
}

// WithSkills returns a Finder that also finds these skills.
func (f *Finder) WithSkills(s *skill.Store) *Finder {
	return &Finder{f.cfg, f.viewer, s, f.waited}
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

// Values of Query.Detail.
const (
	Name    = "name"
	Summary = "summary"
	Full    = "full"
)

// Query is a search for tools.
type Query struct {
	Text     string `json:"query"`
	Category string `json:"category"`
	Detail   string `json:"detail_level"` // "" means Summary
	Limit    int    `json:"max_results"`  // 0 means 10
	// FromCode marks a query of code in the sandbox. It may contain private data and is
	// therefore not sent to a remote embedding endpoint.
	FromCode bool `json:"-"`
	// Listed means that the caller has waited for servers that were never listed.
	Listed bool `json:"-"`
}

// Found is the answer to a Query.
type Found struct {
	Query    string `json:"query"`
	Category string `json:"category"`
	Detail   string `json:"detail_level"`
	Count    int    `json:"count"` // all matches
	Tools    []Hit  `json:"tools"`
	// Starting are the servers whose tools are missing, because they are still being started.
	Starting []string `json:"starting,omitempty"`
	Hint     string   `json:"hint,omitempty"` // set if nothing was found, or with Starting
}

// Hit is one tool in a search's answer.
type Hit struct {
	Name        string   `json:"name"`
	Category    string   `json:"category"`
	Server      string   `json:"mcp_server"`
	Description string   `json:"description,omitempty"` // the first sentence
	Functions   []string `json:"functions,omitempty"`
	UseCases    []string `json:"use_cases,omitempty"`
	Signature   string   `json:"signature,omitempty"`
	Import      string   `json:"import,omitempty"`  // also of a skill or handwritten function without other details
	Connect     string   `json:"connect,omitempty"` // how, if its server is not connected
}

// maxResults limits one search.
const maxResults = 100

// Search finds tools.
func (f *Finder) Search(ctx context.Context, q Query) (Found, error) {
	if q.Detail == "" {
		q.Detail = Summary
	}
	if q.Detail != Name && q.Detail != Summary && q.Detail != Full {
		return Found{}, fault.New(fault.Invalid, "detail_level is %.40q; it must be name, summary or full", q.Detail)
	}
	if q.Limit == 0 {
		q.Limit = 10
	}
	if q.Limit < 0 || q.Limit > maxResults {
		return Found{}, fault.New(fault.Invalid, "max_results is %d; it must be 1 to %d", q.Limit, maxResults)
	}
	if len(q.Text) > 2000 {
		return Found{}, fault.New(fault.Invalid, "the query has %d bytes; at most 2000 are allowed", len(q.Text)).WithHint("describe in a few words what the tool should do")
	}
	now := f.now()
	if !q.Listed {
		now = f.awaitListing(ctx, now.Servers...)
	}
	search := now.SearchWithEmbeddings
	if q.FromCode && !(f.cfg.Embeddings != nil && f.cfg.Embeddings.Local()) {
		search = func(_ context.Context, text, category string, most int) ([]catalog.Tool, int) {
			return now.Search(text, category, most)
		}
	}
	own, err := f.modules(ctx, now)
	if err != nil {
		return Found{}, err
	}
	tools, total := search(ctx, q.Text, q.Category, q.Limit)
	found := Found{Query: q.Text, Category: q.Category, Detail: q.Detail, Count: total, Starting: f.starting(now)}
	var matching int
	found.Tools, matching = merge(ctx, now, tools, own, q)
	found.Count += matching
	switch {
	case len(found.Starting) > 0:
		found.Hint = startingHint(found.Starting)
	case len(found.Tools) == 0:
		found.Hint = f.emptyHint(now, q)
	}
	return found, nil
}

func hit(now *catalog.Snapshot, t catalog.Tool, detail string) Hit {
	h := Hit{Name: t.Definition.Tool, Category: t.Category, Server: t.Server}
	if !t.Connected {
		h.Connect = "add server " + t.Server + " to servers: in sandpiper.yaml"
	}
	if detail == Name {
		return h
	}
	h.Description = firstSentence(t.Description, 120)
	if detail == Full {
		h.Functions, h.UseCases = t.Functions, t.UseCases
		if t.Connected {
			u := usage(now, t, t.Definition)
			h.Signature, h.Import = u.Signature, u.Import
		}
	}
	return h
}

// emptyHint returns the hint for a search without matches.
func (f *Finder) emptyHint(now *catalog.Snapshot, q Query) string {
	if len(now.Tools) == 0 {
		return "no tools are known yet; " + f.ServerStates()
	}
	if q.Category != "" {
		return "categories: " + strings.Join(categories(now), ", ")
	}
	return "use other or fewer words; categories: " + listSome(categories(now))
}

// ServerStates describes the states of all servers in one line, since not every
// profile includes list_servers.
func (f *Finder) ServerStates() string {
	var all []string
	for _, s := range f.Servers().Servers {
		how := s.State
		if s.Reason != "" {
			how += ": " + s.Reason
		}
		all = append(all, s.Name+" ("+how+")")
	}
	if len(all) == 0 {
		return "no server is connected: servers: in sandpiper.yaml names them"
	}
	return "servers: " + listSome(all)
}

// maxNamed limits the names in a hint.
const maxNamed = 12

func listSome(all []string) string {
	if more := len(all) - maxNamed; more > 0 {
		return fmt.Sprintf("%s and %d more", strings.Join(all[:maxNamed], ", "), more)
	}
	return strings.Join(all, ", ")
}

func categories(now *catalog.Snapshot) (names []string) {
	for name := range now.Categories() {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

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
	Input       json.RawMessage `json:"input_schema"`
	Output      json.RawMessage `json:"output_schema,omitempty"`
	Inferred    bool            `json:"inferred,omitempty"` // Output was inferred from results
	Import      string          `json:"import,omitempty"`
	Signature   string          `json:"signature,omitempty"`
	Example     string          `json:"example,omitempty"`
	Connect     string          `json:"connect,omitempty"`
	Quarantined string          `json:"held,omitempty"` // why it cannot be called
	Others      []string        `json:"others,omitempty"`
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
	u := usage(now, t, of)
	d.Import, d.Signature, d.Example = u.Import, u.Signature, u.Example
	return d, nil
}

// markInferred marks an object's schema as inferred, for the signature.
func markInferred(s json.RawMessage) json.RawMessage {
	if string(s) == "{}" {
		return s
	}
	return append([]byte(`{"inferred":true,`), s[1:]...)
}

func (f *Finder) unknownTool(now *catalog.Snapshot, name, category string) error {
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
	Core       []string            `json:"core_mcps"`
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
