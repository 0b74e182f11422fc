package workflow

import (
	"crypto/sha256"
	"sync"
	"sync/atomic"
)

// summary is the part of a text that a list of workflows shows.
type summary struct {
	workflow *Workflow // without its steps; nil if there is a problem
	steps    int
	problem  string // the first error
}

// summaries keeps the summaries of texts: a list of workflows is requested often, and a tenant can
// save 16 MiB of them. The zero value is empty.
type summaries struct {
	known sync.Map // of texts, by their hash
	size  atomic.Int64
}

// maxSummaries limits the bytes of the texts, each with 1 KiB more.
const maxSummaries = 32 << 20

// of returns the summary of a text, which is parsed once.
func (c *summaries) of(text source) (s summary) {
	key := sha256.Sum256(append([]byte(text.file+"\x00"), text.data...)) // positions have the file
	if known, ok := c.known.Load(key); ok {
		return known.(summary)
	}
	w, found := Parse(text.file, text.data)
	if len(found) > 0 {
		s.problem = found[0].String()
	} else {
		all(w.Steps, func(*Step) { s.steps++ })
		short := *w
		short.Steps, short.Outputs = nil, nil
		s.workflow = &short
	}
	n := int64(len(text.data) + 1<<10)
	if c.size.Add(n) > maxSummaries {
		c.known.Clear()
		c.size.Store(n)
	}
	c.known.Store(key, s)
	return s
}
