package search

import (
	"slices"
	"sort"
	"strings"
	"unicode/utf8"
)

// containment finds the docs that contain a text. It indexes the runs of letters and
// digits in the docs, so that only docs with matching runs are read.
type containment struct {
	texts   []string  // by doc, in lower case: name, description, functions, use cases
	runs    string    // all runs, each between newlines
	starts  []int     // offset of each run in runs
	runDocs [][]int32 // by run: docs with this run, ascending
	byRun   map[string]int
}

// separator separates the texts of a doc. Queries cannot contain it.
const separator = "\x00"

func newContainment(docs []Doc) containment {
	c := containment{texts: make([]string, len(docs)), byRun: map[string]int{}}
	for i, d := range docs {
		parts := slices.Concat([]string{d.Name, d.Description}, d.Functions, d.UseCases)
		c.texts[i] = strings.ToLower(strings.Join(parts, separator))
		for r := range runsOf(c.texts[i]) {
			n, ok := c.byRun[r]
			if !ok {
				n = len(c.runDocs)
				c.byRun[r] = n
				c.runDocs = append(c.runDocs, nil)
			}
			if h := c.runDocs[n]; len(h) == 0 || h[len(h)-1] != int32(i) {
				c.runDocs[n] = append(h, int32(i))
			}
		}
	}
	c.joinRuns()
	return c
}

// runsOf returns an iterator over the runs of letters and digits of a text.
func runsOf(text string) func(yield func(string) bool) {
	return func(yield func(string) bool) {
		for len(text) > 0 {
			n := runLength(text)
			if n > 0 && !yield(text[:n]) {
				return
			}
			_, size := utf8.DecodeRuneInString(text[n:]) // that ended the run
			text = text[n+size:]
		}
	}
}

// joinRuns concatenates the runs, so that one pass searches all of them.
func (c *containment) joinRuns() {
	c.starts = make([]int, len(c.runDocs))
	texts := make([]string, len(c.runDocs))
	size := 1
	for r, n := range c.byRun {
		texts[n] = r
		size += len(r) + 1
	}
	var b strings.Builder
	b.Grow(size)
	b.WriteByte('\n')
	for n, r := range texts {
		c.starts[n] = b.Len()
		b.WriteString(r)
		b.WriteByte('\n')
	}
	c.runs = b.String()
}

// contain marks the docs that contain text, which is in lower case.
func (c *containment) contain(text string, marks []bool) {
	docs, all := c.candidates(text)
	if all {
		for d, t := range c.texts {
			marks[d] = strings.Contains(t, text)
		}
		return
	}
	for _, d := range docs {
		marks[d] = marks[d] || strings.Contains(c.texts[d], text)
	}
}

// candidates returns a superset of the docs that contain the text, with duplicates;
// all means that every doc must be read.
func (c *containment) candidates(text string) (docs []int32, all bool) {
	runs := strings.FieldsFunc(text, notWord)
	if len(runs) == 0 {
		return nil, true
	}
	last := len(runs) - 1
	rarest := -1
	for i, r := range runs {
		if i == 0 && strings.HasPrefix(text, r) || i == last && strings.HasSuffix(text, r) {
			continue // may be a part of a longer run
		}
		n, ok := c.byRun[r]
		if !ok {
			return nil, false
		}
		if rarest < 0 || len(c.runDocs[n]) < len(c.runDocs[rarest]) {
			rarest = n
		}
	}
	switch {
	case rarest >= 0:
		return c.runDocs[rarest], false
	case last == 0:
		return c.docsWithRuns(runs[0])
	}
	docs, all = c.docsWithRuns(runs[0] + "\n")
	if more, every := c.docsWithRuns("\n" + runs[last]); !every && (all || len(more) < len(docs)) {
		return more, false
	}
	return docs, all
}

// maxRuns is the number of matching runs above which reading all docs is faster.
const maxRuns = 1000

// docsWithRuns returns the docs of all runs that contain piece.
func (c *containment) docsWithRuns(piece string) (docs []int32, all bool) {
	found := 0
	for at := 0; ; found++ {
		i := strings.Index(c.runs[at:], piece)
		if i < 0 {
			return docs, false
		}
		// A piece may begin with the newline before its run.
		n := sort.SearchInts(c.starts, at+i+2) - 1
		docs = append(docs, c.runDocs[n]...)
		if found == maxRuns || len(docs) > len(c.texts) {
			return nil, true
		}
		if n+1 == len(c.starts) {
			return docs, false
		}
		at = c.starts[n+1] - 1
	}
}
