package search

import (
	"slices"
	"sort"
	"strings"
)

// containment finds the docs that contain a text. It keeps the runs of letters
// and digits that the docs have, so that only docs with the right runs are read.
type containment struct {
	texts  []string // by doc, in lower case: name, description, functions, use cases
	runs   string   // all runs, each between two newlines
	starts []int    // of each in runs
	have   [][]int32
	byRun  map[string]int
}

// separator stands between the texts of a doc; no query has it.
const separator = "\x00"

func newContainment(docs []Doc) containment {
	c := containment{texts: make([]string, len(docs)), byRun: map[string]int{}}
	for i, d := range docs {
		parts := slices.Concat([]string{d.Name, d.Description}, d.Functions, d.UseCases)
		c.texts[i] = strings.ToLower(strings.Join(parts, separator))
		for r := range runsOf(c.texts[i]) {
			n, ok := c.byRun[r]
			if !ok {
				n = len(c.have)
				c.byRun[r] = n
				c.have = append(c.have, nil)
			}
			if h := c.have[n]; len(h) == 0 || h[len(h)-1] != int32(i) {
				c.have[n] = append(h, int32(i))
			}
		}
	}
	c.lay()
	return c
}

// runsOf gives the runs of letters and digits of a text.
func runsOf(text string) func(yield func(string) bool) {
	return func(yield func(string) bool) {
		for _, r := range strings.FieldsFunc(text, notWord) {
			if !yield(r) {
				return
			}
		}
	}
}

// lay writes the runs one after the other, to be searched at once.
func (c *containment) lay() {
	c.starts = make([]int, len(c.have))
	texts := make([]string, len(c.have))
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

// contain marks the docs that contain the text, which is in lower case.
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

// candidates gives docs, some of them twice, with all that contain the text
// among them; or says that all have to be read.
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
		if rarest < 0 || len(c.have[n]) < len(c.have[rarest]) {
			rarest = n
		}
	}
	switch {
	case rarest >= 0:
		return c.have[rarest], false
	case last == 0:
		return c.around(runs[0])
	}
	docs, all = c.around(runs[0] + "\n")
	if more, every := c.around("\n" + runs[last]); !every && (all || len(more) < len(docs)) {
		return more, false
	}
	return docs, all
}

// maxRuns is how many runs are looked up before reading everything is faster.
const maxRuns = 1000

// around gives the docs of all runs that contain the piece of runs.
func (c *containment) around(piece string) (docs []int32, all bool) {
	found := 0
	for at := 0; ; found++ {
		i := strings.Index(c.runs[at:], piece)
		if i < 0 {
			return docs, false
		}
		// A piece that begins with the newline before a run is of that run.
		n := sort.SearchInts(c.starts, at+i+2) - 1
		docs = append(docs, c.have[n]...)
		if found == maxRuns || len(docs) > len(c.texts) {
			return nil, true
		}
		if n+1 == len(c.starts) {
			return docs, false
		}
		at = c.starts[n+1] - 1
	}
}
