// Package cost measures the tokens that a model spends on tool definitions: with all of
// them listed directly, and in code mode, in which it gets a few tools and searches for
// the others.
//
// The tokens of a definition are those of its name, description and input schema, on
// separate lines. A discovery is everything that a model spends to get one tool: the
// list of tools in the lean profile, a search, its brief answer, and the definition of one
// tool, unless the answer has its complete signature. A failed discovery costs as much (including the definition of
// a wrong tool), so the total cost is divided by the number of successes.
//
// The package calls no tool and no model. A Counter is not safe for concurrent use.
package cost

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/sandpiper-mcp/sandpiper/internal/daemon"
	"github.com/sandpiper-mcp/sandpiper/internal/mcpserver/builtin"
	"github.com/sandpiper-mcp/sandpiper/internal/tool"
	"github.com/sandpiper-mcp/sandpiper/internal/tool/catalog"
	"github.com/sandpiper-mcp/sandpiper/internal/tool/tokens"
	"github.com/sandpiper-mcp/sandpiper/internal/toolcall/lookup"
)

// Config of a measurement.
type Config struct {
	Daemon *daemon.Daemon // has the tools; required
	Sample int            // number of discoveries; 0 means 100
}

// Report is the result. All counts but the first two are tokens.
type Report struct {
	Servers   int       `json:"servers"`
	Tools     int       `json:"tools"`
	Direct    int       `json:"direct"` // all definitions, listed
	Profiles  []Profile `json:"profiles"`
	Discovery Discovery `json:"discovery"`
}

// Profile is the cost of the list of tools of a profile.
type Profile struct {
	Profile builtin.Profile `json:"profile"`
	Tools   int             `json:"tools"`
	Tokens  int             `json:"tokens"`
}

// Run measures the cost of the daemon's tools.
func Run(ctx context.Context, cfg Config) (*Report, error) {
	now := cfg.Daemon.Servers.Catalog.Now()
	r := &Report{Tools: len(now.Tools)}
	for _, s := range now.Servers {
		if s.Tools > 0 {
			r.Servers++
		}
	}
	for _, t := range now.Tools {
		r.Direct += definition(t.Definition.Tool, t.Description, t.Input)
	}
	for _, p := range builtin.Profiles {
		n, tools := listing(cfg.Daemon, p)
		r.Profiles = append(r.Profiles, Profile{p, tools, n})
	}
	m := NewCounter(cfg.Daemon)
	for _, q := range sampleQueries(now, cmp.Or(cfg.Sample, 100)) {
		if err := m.Measure(ctx, q); err != nil {
			return nil, err
		}
	}
	r.Discovery = m.Discovery()
	return r, nil
}

// definition returns the tokens of a tool definition.
func definition(name, about string, schema json.RawMessage) int {
	return tokens.Count(name + "\n" + about + "\n" + string(schema))
}

func listing(d *daemon.Daemon, p builtin.Profile) (total, tools int) {
	for _, t := range d.Listing(p) {
		total, tools = total+definition(t.Name, t.Description, t.Schema), tools+1
	}
	return total, tools
}

// Discovery is the average cost of finding one tool.
type Discovery struct {
	Queries    int     `json:"queries"`
	Found      int     `json:"found"` // the expected tool was among the results
	List       int     `json:"list"`
	Query      float64 `json:"query"`  // arguments of both calls, on average
	Answer     float64 `json:"answer"` // of the search, on average
	Definition float64 `json:"definition"`
	PerSuccess float64 `json:"per_success"` // total cost divided by the successes; 0 if there are none
}

// Query is a search text and the tools that it may mean.
type Query struct {
	Text string
	// Matches reports whether a tool is an expected result.
	Matches func(server, tool string) bool
}

// Counter accumulates discoveries.
type Counter struct {
	find                      *lookup.Finder
	now                       *catalog.Snapshot
	list                      int
	queries, found            int
	query, answer, definition int
}

// NewCounter returns a Counter for the tools of d.
func NewCounter(d *daemon.Daemon) *Counter {
	list, _ := listing(d, builtin.Lean)
	return &Counter{find: d.Find, now: d.Servers.Catalog.Now(), list: list}
}

// Measure makes one discovery.
func (m *Counter) Measure(ctx context.Context, q Query) error {
	m.queries++
	if err := count(&m.query, map[string]any{"query": q.Text}); err != nil {
		return err
	}
	answer, err := m.find.Brief(ctx, lookup.Query{Text: q.Text})
	if err != nil {
		return fmt.Errorf("search for %.60q: %w", q.Text, err)
	}
	listed := Listed(m.now, answer)
	if err := count(&m.answer, answer); err != nil || len(listed) == 0 {
		return err
	}
	take := listed[0] // without an expected tool, a model probably uses the first
	for _, t := range listed {
		if q.Matches(t.Server, t.Tool) {
			take = t
			m.found++
			break
		}
	}
	if take.Complete {
		return nil
	}
	return m.fetch(ctx, take.Ref)
}

// Line is a tool in a brief answer.
type Line struct {
	tool.Ref
	Complete bool // the line has all arguments
}

// Listed returns the tools in a brief answer, without those of servers that are not connected.
func Listed(now *catalog.Snapshot, answer lookup.Brief) (lines []Line) {
	for _, group := range answer.Servers {
		for _, text := range group.Lines {
			name := text[:strings.IndexAny(text+" ", "( ")]
			if t, ok := now.Function(group.Module, name); ok {
				signature, _, _ := strings.Cut(text, " # ")
				lines = append(lines, Line{t.Ref, signature != name && !strings.Contains(signature, "...")})
			}
		}
	}
	return lines
}

// fetch gets the definition of a search result.
func (m *Counter) fetch(ctx context.Context, t tool.Ref) error {
	name, err := json.Marshal(t.String())
	if err != nil {
		return err
	}
	q := lookup.Names{Names: name}
	if err := count(&m.query, map[string]any{"tool_name": q.Names}); err != nil {
		return err
	}
	d, err := m.find.DefineNames(ctx, nil, q)
	if err != nil {
		return fmt.Errorf("the definition of %s: %w", name, err)
	}
	return count(&m.definition, d)
}

// count adds the tokens of v encoded as JSON.
func count(to *int, v any) error {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		return err
	}
	*to += tokens.Count(string(bytes.TrimSpace(b.Bytes())))
	return nil
}

// Discovery returns the averages so far.
func (m *Counter) Discovery() Discovery {
	d := Discovery{Queries: m.queries, Found: m.found, List: m.list}
	if m.queries == 0 {
		return d
	}
	n := float64(m.queries)
	d.Query, d.Answer, d.Definition = float64(m.query)/n, float64(m.answer)/n, float64(m.definition)/n
	if m.found > 0 {
		d.PerSuccess = float64(m.queries*m.list+m.query+m.answer+m.definition) / float64(m.found)
	}
	return d
}
