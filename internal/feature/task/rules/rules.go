// Package rules writes programs for tasks without a model.
//
// It reads the values in a task (numbers, quoted texts, dates, names, files), divides the task
// into clauses, chooses a tool for each, fills its arguments by their names, types and kinds of
// values, and passes the result of a call to the next one where an argument has no value. It does
// not guess: an argument that it cannot fill is an error that names it.
package rules

import (
	"context"
	"maps"
	"slices"
	"strings"

	"github.com/sandpiper-mcp/sandpiper/internal/fault"
	"github.com/sandpiper-mcp/sandpiper/internal/feature/task/task"
	"github.com/sandpiper-mcp/sandpiper/internal/feature/task/wording"
	"github.com/sandpiper-mcp/sandpiper/internal/tool/catalog/search"
)

// Generator implements task.Generator.
type Generator struct{}

// Generate returns a program for a task of one to three steps. It does not repair a program: with
// the same task it would write the same one.
func (Generator) Generate(_ context.Context, r task.Request) (task.Answer, error) {
	if r.Failed != nil {
		return task.Answer{}, fault.New(fault.Invalid, "the program failed, and without a model it cannot be repaired").
			WithHint("state the task in other words, or configure a model: tasks.model")
	}
	if len(r.Tools) == 0 {
		return task.Answer{}, fault.New(fault.NotFound, "no tool matches the task").
			WithHint("name what is to be done and with what, or look with search_tools")
	}
	w := newWriter(r)
	for _, form := range []func() (string, bool){w.compare, w.each} {
		if code, ok := form(); ok {
			return task.Answer{Code: code}, nil
		}
	}
	code, err := w.write()
	return task.Answer{Code: code}, err
}

// writer writes the program of one task.
type writer struct {
	text    string
	tools   []task.Described
	params  [][]parameter // of tools
	values  []wording.Value
	clauses []wording.Clause
	index   *search.Index

	program program
	used    map[int]bool // values
	last    string       // variable of the last result; "" before the first
}

func newWriter(r task.Request) *writer {
	w := &writer{text: strings.TrimSpace(r.Task), tools: r.Tools, used: map[int]bool{}}
	var docs []search.Doc
	for _, t := range r.Tools {
		all := parameters(t)
		w.params = append(w.params, all)
		server, name, _ := strings.Cut(t.Name, ".")
		d := search.Doc{Name: name, Server: server, Description: t.Description}
		for _, p := range all {
			d.Params = append(d.Params, p.name)
		}
		docs = append(docs, d)
	}
	w.index = search.New(docs)
	w.values = wording.Find(w.text)
	w.clauses = wording.Split(w.text, w.values)
	return w
}

// write writes the calls of all clauses.
func (w *writer) write() (string, error) {
	for i := 0; i < len(w.clauses); i++ {
		c := w.clauses[i]
		if w.last != "" && w.compute(c) {
			continue
		}
		before := w.state()
		err := w.step(c, w.free(c), i > 0)
		for ; err != nil && i+1 < len(w.clauses); i++ { // the next clause may have the values
			before.restore(w)
			c = c.Join(w.text, w.clauses[i+1])
			err = w.step(c, w.free(c), w.last != "")
		}
		if err != nil {
			return "", err
		}
	}
	w.useRest()
	return w.program.code(w.last), nil
}

// state is the state after a failed step.
type state struct {
	program program
	used    map[int]bool
	last    string
}

func (w *writer) state() state {
	p := w.program
	p.imports, p.lines, p.helpers = slices.Clone(p.imports), slices.Clone(p.lines), maps.Clone(p.helpers)
	return state{p, maps.Clone(w.used), w.last}
}

func (s state) restore(w *writer) {
	p := s.program
	p.imports, p.lines, p.helpers = slices.Clone(p.imports), slices.Clone(p.lines), maps.Clone(p.helpers)
	w.program, w.used, w.last = p, maps.Clone(s.used), s.last
}

// free returns the unused values of a clause.
func (w *writer) free(c wording.Clause) (pool []int) {
	for _, i := range c.Pool {
		if !w.used[i] {
			pool = append(pool, i)
		}
	}
	return pool
}

// choice is a tool for a clause with its arguments.
type choice struct {
	tool int
	filled
	score float64
}

// choose returns the best tool for a clause, with the values of pool; false if none matches.
// chained means that missing arguments may come from the result before.
func (w *writer) choose(c wording.Clause, pool []int, chained bool) (best choice, ok bool) {
	hits := w.index.Search(search.Query{Text: wording.Gist(c.Text, wording.Find(c.Text)), Limit: len(w.tools)}).Found
	if len(hits) == 0 && len(w.clauses) == 1 {
		hits = []search.Hit{{Doc: 0, Score: 1}} // the tool that matches the whole task best
	}
	clauseStems := wording.Stems(c.Text)
	for _, h := range hits {
		f := fill(w.params[h.Doc], c.Text, w.values, pool)
		score := h.Score / hits[0].Score
		_, name, _ := strings.Cut(w.tools[h.Doc].Name, ".")
		named := 0
		for s := range wording.Stems(name) {
			if clauseStems[s] {
				named++
			}
		}
		score += .25 * float64(named)
		score += .1 * float64(f.strong)
		if w.names(w.tools[h.Doc].Description, pool) {
			score += .3
		}
		if len(pool) > 0 {
			score += .3 * float64(len(f.used)) / float64(len(pool))
		}
		if missing := len(f.missing); missing > 0 && !(chained && missing == 1) {
			score -= .25 * float64(missing)
		}
		if !ok || score > best.score {
			best, ok = choice{h.Doc, f, score}, true
		}
	}
	return best, ok
}

// names reports whether a description names how a quoted text begins: SELECT.
func (w *writer) names(description string, pool []int) bool {
	in := wording.Words(description)
	return slices.ContainsFunc(pool, func(i int) bool {
		v := w.values[i]
		first := wording.Words(v.Text)
		return v.Kind == wording.Quoted && len(first) > 1 && !wording.IsFiller(first[0]) && slices.Contains(in, first[0])
	})
}

// step adds the call of a clause.
func (w *writer) step(c wording.Clause, pool []int, chained bool) error {
	best, ok := w.choose(c, pool, chained)
	if !ok {
		return fault.New(fault.NotFound, "no tool matches %.80q", strings.TrimSpace(c.Text)).
			WithHint("state the task in other words, or configure a model: tasks.model")
	}
	w.take(best.filled)
	args := best.args
	if len(best.missing) > 0 && w.last == "" {
		w.produce(best, c)
	}
	var missing, named []string
	for _, p := range best.missing {
		if code, ok := w.fromResult(p, c); ok {
			args = append(args, argument{p.name, code})
		} else {
			missing, named = append(missing, p.name), append(named, strings.ReplaceAll(p.name, "_", " ")+" "+p.example())
		}
	}
	if len(missing) > 0 {
		return fault.New(fault.Invalid, "the task has no value for %s of %s", strings.Join(missing, ", "), w.tools[best.tool].Name).
			WithHint("add it to the task, for example: %s, %s", strings.TrimRight(strings.TrimSpace(c.Text), ".?!,"),
				strings.Join(named, ", "))
	}
	args = append(args, w.optionalFromResult(best, c)...)
	w.last = w.program.call(w.tools[best.tool], args)
	return nil
}

func (w *writer) take(f filled) {
	for i := range f.used {
		w.used[i] = true
	}
}

// produce adds a call whose result has the missing argument of another: the file in which it is.
// It must use values that are left, and the task must name it or a file.
func (w *writer) produce(of choice, c wording.Clause) {
	pool := w.free(c)
	if len(pool) == 0 || len(of.missing) > 1 {
		return
	}
	text := wording.Stems(w.text)
	for i, t := range w.tools {
		f := fill(w.params[i], c.Text, w.values, pool)
		if i == of.tool || len(f.missing) > 0 || len(f.used) == 0 {
			continue
		}
		_, name, _ := strings.Cut(t.Name, ".")
		says := false
		for s := range wording.Stems(name) {
			says = says || text[s] && !wording.IsVerb(s)
		}
		if says {
			w.take(f)
			w.last = w.program.call(t, f.args)
			return
		}
	}
}

// useRest adds a call for values that are left: "…, multiplied by 8".
func (w *writer) useRest() {
	var pool []int
	for i := range w.values {
		if !w.used[i] && w.values[i].Kind == wording.Number {
			pool = append(pool, i)
		}
	}
	text := wording.Stems(w.text)
	if len(pool) != 1 || w.last == "" {
		return
	}
	for i, t := range w.tools {
		f := fill(w.params[i], w.text, w.values, pool)
		_, name, _ := strings.Cut(t.Name, ".")
		if len(f.used) != 1 || len(f.missing) != 1 || !f.missing[0].numeric() || !allIn(wording.Stems(name), text) {
			continue
		}
		args := append([]argument{{f.missing[0].name, w.program.use("number") + "(" + w.last + ")"}}, f.args...)
		w.last = w.program.call(t, args)
		return
	}
}

func allIn(some, all map[string]bool) bool {
	for s := range some {
		if !all[s] {
			return false
		}
	}
	return true
}
