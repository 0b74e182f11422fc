// Package cost measures what it costs a model, in tokens, to know tools: all of
// them listed directly, against code mode, in which it is told of a few tools and
// finds the others.
//
// A definition is counted as a model is told of it: name, description, schema of
// the arguments, one under the other. A discovery is all that a model pays to get
// at one tool from nothing: our list of tools in the lean profile, a search, its
// answer with five results, and the definition of one. A discovery that fails has
// cost as much (the definition fetched in vain is counted too) and brought
// nothing, so the cost of all is divided by those that succeed.
//
// Nothing here calls a tool or a model. A Meter is for one goroutine; the package
// judges no search, it counts.
package cost

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"

	"github.com/sandpiper-mcp/sandpiper/internal/daemon"
	"github.com/sandpiper-mcp/sandpiper/internal/mcpserver"
	"github.com/sandpiper-mcp/sandpiper/internal/tool/catalog"
	"github.com/sandpiper-mcp/sandpiper/internal/tool/tokens"
	"github.com/sandpiper-mcp/sandpiper/internal/toolcall/lookup"
)

// Config of a measurement.
type Config struct {
	Daemon *daemon.Daemon // knows the tools; required
	Sample int            // how many tools are looked for; 0 means 100
}

// Report is what came of it. All counts but the first two are tokens.
type Report struct {
	Servers   int       `json:"servers"`
	Tools     int       `json:"tools"`
	Direct    int       `json:"direct"` // all definitions, listed
	Profiles  []Profile `json:"profiles"`
	Discovery Discovery `json:"discovery"`
}

// Profile is what our own list of tools costs.
type Profile struct {
	Profile mcpserver.Profile `json:"profile"`
	Tools   int               `json:"tools"`
	Tokens  int               `json:"tokens"`
}

// Run measures.
func Run(ctx context.Context, cfg Config) (*Report, error) {
	now := cfg.Daemon.Servers.Catalog.Now()
	r := &Report{Tools: len(now.Tools)}
	for _, s := range now.Servers {
		if s.Tools > 0 {
			r.Servers++
		}
	}
	for _, t := range now.Tools {
		n, err := definition(t.Definition.Tool, t.Description, t.Input)
		if err != nil {
			return nil, err
		}
		r.Direct += n
	}
	for _, p := range mcpserver.Profiles {
		n, tools, err := listing(cfg.Daemon, p)
		if err != nil {
			return nil, err
		}
		r.Profiles = append(r.Profiles, Profile{p, tools, n})
	}
	m, err := NewMeter(cfg.Daemon)
	if err != nil {
		return nil, err
	}
	for _, q := range questions(now, cmp.Or(cfg.Sample, 100)) {
		if err := m.Ask(ctx, q); err != nil {
			return nil, err
		}
	}
	r.Discovery = m.Discovery()
	return r, nil
}

// definition is what a model pays to be told of a tool.
func definition(name, about string, schema json.RawMessage) (int, error) {
	return tokens.Count(name + "\n" + about + "\n" + string(schema))
}

func listing(d *daemon.Daemon, p mcpserver.Profile) (total, tools int, err error) {
	for _, t := range d.Listing(p) {
		n, err := definition(t.Name, t.Description, t.Schema)
		if err != nil {
			return 0, 0, err
		}
		total, tools = total+n, tools+1
	}
	return total, tools, nil
}

// results is how many results a search of a discovery asks for.
const results = 5

// Discovery is the cost of finding one tool, from nothing.
type Discovery struct {
	Queries    int     `json:"queries"`
	Found      int     `json:"found"` // what was looked for was among the results
	List       int     `json:"list"`
	Query      float64 `json:"query"`  // with the other arguments, on average
	Answer     float64 `json:"answer"` // of the search, on average
	Definition float64 `json:"definition"`
	PerSuccess float64 `json:"per_success"` // all that was paid, by those that succeeded; 0 if none did
}

// Question is a question and the tools that it may mean.
type Question struct {
	Text string
	// Wants reports whether a tool is what the question asks for.
	Wants func(server, tool string) bool
}

// Meter adds up discoveries.
type Meter struct {
	find                      *lookup.Finder
	now                       *catalog.Snapshot
	list                      int
	asked, found              int
	query, answer, definition int
}

// NewMeter returns a Meter of what d knows.
func NewMeter(d *daemon.Daemon) (*Meter, error) {
	list, _, err := listing(d, mcpserver.Lean)
	return &Meter{find: d.Find, now: d.Servers.Catalog.Now(), list: list}, err
}

// Ask makes one discovery.
func (m *Meter) Ask(ctx context.Context, q Question) error {
	m.asked++
	if err := count(&m.query, map[string]any{"query": q.Text, "max_results": results}); err != nil {
		return err
	}
	answer, err := m.find.Search(ctx, lookup.Query{Text: q.Text, Detail: lookup.Summary, Limit: results})
	if err != nil {
		return fmt.Errorf("search for %.60q: %w", q.Text, err)
	}
	if err := count(&m.answer, answer); err != nil || len(answer.Tools) == 0 {
		return err
	}
	take := answer.Tools[0] // what is taken for the right one, if that is not there
	for _, h := range answer.Tools {
		if q.Wants(h.Server, h.Name) {
			take = h
			m.found++
			break
		}
	}
	return m.fetch(ctx, take)
}

// fetch gets the definition of a search's result.
func (m *Meter) fetch(ctx context.Context, h lookup.Hit) error {
	name := h.Server + "." + h.Name
	if err := count(&m.query, map[string]any{"tool_name": name}); err != nil {
		return err
	}
	d, err := m.find.Define(ctx, nil, name, "")
	if err != nil {
		return fmt.Errorf("the definition of %s: %w", name, err)
	}
	return count(&m.definition, d)
}

// count adds the tokens of v as it is sent.
func count(to *int, v any) error {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		return err
	}
	n, err := tokens.Count(string(bytes.TrimSpace(b.Bytes())))
	*to += n
	return err
}

// Discovery is what was paid so far.
func (m *Meter) Discovery() Discovery {
	d := Discovery{Queries: m.asked, Found: m.found, List: m.list}
	if m.asked == 0 {
		return d
	}
	n := float64(m.asked)
	d.Query, d.Answer, d.Definition = float64(m.query)/n, float64(m.answer)/n, float64(m.definition)/n
	if m.found > 0 {
		d.PerSuccess = float64(m.asked*m.list+m.query+m.answer+m.definition) / float64(m.found)
	}
	return d
}
