package lookup

import (
	"cmp"
	"context"
	"fmt"
	"strings"
	"unicode"

	"github.com/sandpiper-mcp/sandpiper/internal/fault"
	"github.com/sandpiper-mcp/sandpiper/internal/tool/catalog"
)

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

// Limits of one search.
const (
	maxResults = 100
	maxQuery   = 2000 // bytes; more are ignored
)

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
	found := Found{
		Query:    echo(q.Text),
		Category: q.Category,
		Detail:   q.Detail,
		Count:    r.total,
		Tools:    []Hit{},
		Starting: r.starting,
		Hint:     r.hint,
	}
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
		cut = fmt.Sprintf("only the first %d of %d bytes of the query were used: describe in a few words what the tool should do", maxQuery,
			n)
	}
	if r.now = f.now(); !q.Listed {
		r.now = f.awaitListing(ctx, r.now.Servers...)
	}
	own, err := f.modules(ctx, r.now)
	if err != nil {
		return r, err
	}
	var missing []string
	if r.best, r.total, missing, err = searchTopics(ctx, f, r.now, own, q); err != nil {
		return r, err
	}
	r.starting = f.starting(r.now)
	if len(missing) > 0 && len(r.starting) == 0 && len(r.best) > 0 {
		cut = joinHints(cut, "nothing fits: "+listSome(missing))
	}
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
	for _, word := range strings.FieldsFunc(query, func(r rune) bool {
		return r != '-' && r != '_' && !unicode.IsLetter(r) &&
			!unicode.IsDigit(r)
	}) {
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
