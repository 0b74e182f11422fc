package lookup

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"slices"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/sandpiper-mcp/sandpiper/internal/fault"
	"github.com/sandpiper-mcp/sandpiper/internal/tool/catalog"
	"github.com/sandpiper-mcp/sandpiper/internal/tool/codegen"
	"github.com/sandpiper-mcp/sandpiper/internal/tool/tokens"
)

// Limits of a Brief.
const (
	MaxBrief = 400 // tokens (o200k) of its compact JSON

	briefResults = 20 // default of Query.Limit
	described    = 8  // lines with a signature
	certain      = 5  // of them are described before others are named
	maxStub      = 80 // tokens of a line with all arguments and the result
	maxEcho      = 60 // characters of the query
	maxAbout     = 56 // characters of a description
)

// Brief is the answer to a Query in few tokens. The first lines are stubs of the best tools, with all
// arguments and the fields of the result, and the others are names; the longest list that fits is returned.
type Brief struct {
	Query   string `json:"query"` // its beginning, if it is long
	Count   int    `json:"count"` // all matches
	Servers Groups `json:"servers"`
	Hint    string `json:"hint,omitempty"`
}

// Groups are the matches by server, the server of the best one first. Their JSON is an
// object.
type Groups []Group

// Group has the matches of one server, the best first. Code imports the name at the start
// of a line from servers.MODULE, or from skills if that is the module.
type Group struct {
	Module string // the name of a server that is not connected
	Lines  []string
}

// MarshalJSON encodes g as an object whose keys are in the order of g.
func (g Groups) MarshalJSON() ([]byte, error) {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	b.WriteByte('{')
	for i, group := range g {
		if i > 0 {
			b.WriteByte(',')
		}
		if err := enc.Encode(group.Module); err != nil {
			return nil, err
		}
		b.WriteByte(':')
		if err := enc.Encode(group.Lines); err != nil {
			return nil, err
		}
	}
	b.WriteByte('}')
	return b.Bytes(), nil
}

// Brief finds tools, and describes them in at most MaxBrief tokens.
func (f *Finder) Brief(ctx context.Context, q Query) (Brief, error) {
	if q.Detail != "" && q.Detail != Lines {
		return Brief{}, fault.New(fault.Invalid, "detail_level is %.40q; it must be brief", q.Detail)
	}
	q.Limit = cmp.Or(q.Limit, briefResults)
	r, err := f.search(ctx, q)
	if err != nil {
		return Brief{}, err
	}
	if n := len(r.now.Tools); len(r.best) == 0 && len(r.starting) == 0 && q.Category == "" && 0 < n && n <= q.Limit {
		r.best, r.hint = everyTool(r.now), joinHints(disabledHint(r.now, q.Text), "no tool has words of the query: these are all tools")
	}
	b := Brief{Query: echo(q.Text), Count: r.total, Servers: Groups{}, Hint: r.hint}
	if utf8.RuneCountInString(b.Query) > maxEcho {
		b.Query = string([]rune(b.Query)[:maxEcho-1]) + "…"
	}
	lines := make([]line, len(r.best))
	for i, m := range r.best {
		lines[i] = m.line(ctx, r.now, f.shapes, i < described && r.total > 0)
		lines[i].unclear = !shareWord(q.Text, lines[i].name)
	}
	return b.fill(lines), nil
}

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

// everyTool returns all tools of a small catalog that can be called: their names cost less than another search.
func everyTool(now *catalog.Snapshot) (all []match) {
	for _, t := range now.Tools {
		if t.Callable() {
			all = append(all, match{tool: catalog.Ranked{Tool: t}})
		}
	}
	return all
}

// line is one line of a Brief, in its forms.
type line struct {
	module, name string
	signature    codegen.Brief
	about        string // "" if it is not known, or not needed
	unclear      bool   // the name has no word of the query
	connect      bool   // the server is not connected
	text         string // the chosen form
}

func (m match) line(ctx context.Context, now *catalog.Snapshot, shapes *catalog.Shapes, describe bool) line {
	switch {
	case m.module != nil:
		l := line{module: m.module.server, name: m.module.name}
		if describe {
			l.about = fewWords(m.module.description)
			if s, err := m.module.source(ctx); err == nil && s.Name != "" {
				l.signature = codegen.Brief{Required: s.Signature(), Complete: s.Signature()}
			}
		}
		return l
	case !m.tool.Connected:
		return line{module: m.tool.Server, name: m.tool.Definition.Tool, about: fewWords(m.tool.Description), connect: true}
	}
	module, function := now.Python(m.tool.Ref)
	l := line{module: module, name: function}
	if describe {
		of, _, _ := learn(ctx, shapes, m.tool.Definition) // without it the line lacks the result
		l.about, l.signature = fewWords(m.tool.Description), codegen.Abbreviate(of, function)
	}
	return l
}

// fill chooses the forms of the lines: stubs for the first ones, then names for as many of the others as
// fit, and then stubs and descriptions for more.
func (b Brief) fill(lines []line) Brief {
	for i := range lines {
		lines[i].text = lines[i].name
	}
	used := b.with(nil).tokens()
	fits := func(i int, text string) bool {
		return used+lines[i].cost(text)-lines[i].cost(lines[i].text) <= MaxBrief
	}
	set := func(i int, forms ...string) {
		for _, text := range forms {
			if tokens.Count(text) <= maxStub && fits(i, text) {
				used += lines[i].cost(text) - lines[i].cost(lines[i].text)
				lines[i].text = text
				return
			}
		}
	}
	seen := map[string]bool{}
	for i, l := range lines { // each costs at least its name
		cost := l.cost(l.name)
		if !seen[l.module] {
			cost += tokens.Count(l.module) + 4
		}
		if used+cost > MaxBrief {
			lines = lines[:i]
			break
		}
		used, seen[l.module] = used+cost, true
		if i < certain {
			set(i, l.stubs()...)
		}
	}
	last := min(len(lines), described)
	for i := min(certain, last); i < last; i++ {
		set(i, lines[i].stubs()...)
	}
	for _, unclear := range []bool{true, false} {
		for i := range lines[:last] {
			if l := lines[i]; l.about != "" && l.unclear == unclear {
				set(i, l.text+" # "+l.about)
			}
		}
	}
	for len(lines) > 0 && b.with(lines).tokens() > MaxBrief { // the sum of the parts is not exact
		lines = lines[:len(lines)-1]
	}
	return b.with(lines)
}

// cost returns the tokens of a line in the answer.
func (l line) cost(text string) int { return tokens.Count(strconv.Quote(text) + ",") }

// stubs returns the forms of a line, the longest first.
func (l line) stubs() []string {
	s := l.signature
	if s.Complete == "" {
		return []string{l.name}
	}
	forms := []string{s.Complete, s.Required, l.name + "(...)"}
	if s.Result != "" {
		forms = slices.Insert(forms, 0, s.Complete+" -> "+s.Result)
	}
	return forms
}

// with returns b with the lines, grouped.
func (b Brief) with(lines []line) Brief {
	b.Servers = Groups{}
	var connect []string
	for _, l := range lines {
		i := slices.IndexFunc(b.Servers, func(g Group) bool { return g.Module == l.module })
		if i < 0 {
			i = len(b.Servers)
			b.Servers = append(b.Servers, Group{Module: l.module})
		}
		b.Servers[i].Lines = append(b.Servers[i].Lines, l.text)
		if l.connect && !slices.Contains(connect, l.module) {
			connect = append(connect, l.module)
		}
	}
	if connect != nil {
		b.Hint = joinHints(b.Hint, "not connected: add "+listSome(connect)+" to servers: in sandpiper.yaml")
	}
	return b
}

func (b Brief) tokens() int {
	var text bytes.Buffer
	enc := json.NewEncoder(&text)
	enc.SetEscapeHTML(false)
	if enc.Encode(b) != nil {
		return MaxBrief + 1
	}
	return tokens.Count(strings.TrimSuffix(text.String(), "\n"))
}

// fewWords returns the first words of a description.
func fewWords(description string) string {
	text := strings.ReplaceAll(firstSentence(description, 4*maxAbout), `"`, "'")
	if utf8.RuneCountInString(text) <= maxAbout {
		return text
	}
	text = string([]rune(text)[:maxAbout])
	if i := strings.LastIndexByte(text, ' '); i > 0 {
		text = text[:i]
	}
	return strings.TrimRight(text, " ,;:(-")
}

// shareWord reports whether a name has a word of a query, or one that begins like it.
func shareWord(query, name string) bool {
	words := func(text string) []string {
		return strings.FieldsFunc(strings.ToLower(text), func(r rune) bool { return !unicode.IsLetter(r) && !unicode.IsDigit(r) })
	}
	asked := words(query)
	for _, w := range words(name) {
		start := w[:min(len(w), 4)]
		if len(w) > 2 && slices.ContainsFunc(asked, func(q string) bool { return len(q) > 2 && strings.HasPrefix(q, start) }) {
			return true
		}
	}
	return false
}
