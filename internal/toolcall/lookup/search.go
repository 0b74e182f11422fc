package lookup

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"unicode"

	"github.com/sandpiper-mcp/sandpiper/internal/fault"
	"github.com/sandpiper-mcp/sandpiper/internal/tool"
	"github.com/sandpiper-mcp/sandpiper/internal/tool/catalog"
)

// Values of Query.Detail.
const (
	Name    = "name"
	Summary = "summary"
	Full    = "full"
	// Lines is for Brief only.
	Lines = "brief"
)

// Query is a search for tools.
type Query struct {
	Text     string `json:"query"`
	Category string `json:"category"`
	Detail   string `json:"detail_level"` // "" means Summary
	Limit    int    `json:"max_results"`  // 0 means 10, and 20 for Brief
	// FromCode marks a query of code in the sandbox. It may contain private data and is
	// therefore not sent to a remote embedding endpoint.
	FromCode bool `json:"-"`
	// Listed means that the caller has waited for servers that were never listed.
	Listed bool `json:"-"`
	// Explain adds an Explanation to each tool of Found.
	Explain bool `json:"-"`
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
	Hint     string   `json:"hint,omitempty"` // set if nothing was found, with Starting, and if the query was truncated
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

	Explanation *Explanation `json:"explanation,omitempty"` // of a tool, if Query.Explain is set
}

// Explanation lists the parts of the score of a tool.
type Explanation struct {
	Score float64  `json:"score"`           // the best tool has about 1 or more
	Used  float64  `json:"used"`            // the part of it that is due to any use of the tool
	Words float64  `json:"words"`           // the part that is due to similar searches before calls of the tool
	Terms []string `json:"terms,omitempty"` // stems of the words of the most similar one
}

// Limits of one search.
const (
	maxResults = 100
	maxQuery   = 2000 // bytes; more are ignored
)

// Answer returns the answer to q: Brief if the detail level is Lines, otherwise Found.
func (f *Finder) Answer(ctx context.Context, q Query) (any, error) {
	if q.Detail == Lines && q.Explain {
		return nil, fault.New(fault.Invalid, "detail %q has no explanations; use name, summary or full", q.Detail)
	}
	if q.Detail == Lines {
		return f.Brief(ctx, q)
	}
	return f.Search(ctx, q)
}

// Search finds tools.
func (f *Finder) Search(ctx context.Context, q Query) (Found, error) {
	q.Detail = cmp.Or(q.Detail, Summary)
	if q.Detail != Name && q.Detail != Summary && q.Detail != Full {
		return Found{}, fault.New(fault.Invalid, "detail_level is %.40q; it must be brief, name, summary or full", q.Detail)
	}
	q.Limit = cmp.Or(q.Limit, 10)
	r, err := f.search(ctx, q)
	if err != nil {
		return Found{}, err
	}
	found := Found{Query: q.Text, Category: q.Category, Detail: q.Detail, Count: r.total, Tools: []Hit{}, Starting: r.starting, Hint: r.hint}
	for _, m := range r.best {
		h := m.hit(ctx, r.now, q.Detail)
		if q.Explain && m.module == nil {
			h.Explanation = &Explanation{m.tool.Score, m.tool.Boost.Used, m.tool.Boost.Words, m.tool.Boost.Terms}
		}
		found.Tools = append(found.Tools, h)
	}
	return found, nil
}

// results are the matches of a search.
type results struct {
	now      *catalog.Snapshot
	best     []match
	total    int
	starting []string // see Found
	hint     string   // see Found
}

// refs returns the tools among the matches.
func (r results) refs() (all []tool.Ref) {
	for _, m := range r.best {
		if m.module == nil {
			all = append(all, m.tool.Ref)
		}
	}
	return all
}

// match is a tool or a module.
type match struct {
	tool   catalog.Ranked
	module *module // nil if it is a tool
}

func (m match) hit(ctx context.Context, now *catalog.Snapshot, detail string) Hit {
	if m.module != nil {
		return m.module.hit(ctx, detail)
	}
	return hit(now, m.tool.Tool, detail)
}

func (f *Finder) search(ctx context.Context, q Query) (r results, err error) {
	if q.Limit < 0 || q.Limit > maxResults {
		return r, fault.New(fault.Invalid, "max_results is %d; it must be 1 to %d", q.Limit, maxResults)
	}
	var cut string
	if n := len(q.Text); n > maxQuery {
		q.Text = strings.ToValidUTF8(q.Text[:maxQuery], "")
		cut = fmt.Sprintf("only the first %d of %d bytes of the query were used: describe in a few words what the tool should do", maxQuery, n)
	}
	if r.now = f.now(); !q.Listed {
		r.now = f.awaitListing(ctx, r.now.Servers...)
	}
	own, err := f.modules(ctx, r.now)
	if err != nil {
		return r, err
	}
	tools, total := r.now.SearchFor(ctx, catalog.Query{Text: q.Text, Category: q.Category, Limit: q.Limit, Uses: f.uses.Uses(ctx),
		Embeddings: !q.FromCode || f.cfg.Embeddings != nil && f.cfg.Embeddings.Local()})
	var matching int
	r.best, matching = merge(r.now, tools, own, q)
	f.uses.AddSearch(q.Text, r.refs())
	r.total, r.starting = total+matching, f.starting(r.now)
	switch {
	case len(r.starting) > 0:
		r.hint = startingHint(r.starting)
	case len(r.best) == 0:
		r.hint = f.emptyHint(r.now, q)
	}
	r.hint = joinHints(joinHints(cut, disabledHint(r.now, q.Text)), r.hint)
	return r, nil
}

// disabledHint returns the hint for a query that names a disabled server.
func disabledHint(now *catalog.Snapshot, query string) string {
	for _, word := range strings.FieldsFunc(query, func(r rune) bool { return r != '-' && r != '_' && !unicode.IsLetter(r) && !unicode.IsDigit(r) }) {
		for _, name := range now.Disabled {
			if strings.EqualFold(word, name) {
				return "server " + name + " is disabled by the operator, so its tools are missing"
			}
		}
	}
	return ""
}

func joinHints(a, b string) string {
	if a == "" || b == "" {
		return a + b
	}
	return a + "; " + b
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
		return "no server is connected: servers: in sandpiper.yaml names them, and `sandpiper servers add` or `sandpiper init` adds them"
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
