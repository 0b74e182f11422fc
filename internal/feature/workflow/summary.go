package workflow

import (
	"crypto/sha256"
	"sync"
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
	mu    sync.Mutex
	known map[[sha256.Size]byte]summary
	size  int // bytes of descriptions and inputs
}

// maxSummaries limits the bytes of descriptions and inputs, and the number of summaries times 1 KiB.
const maxSummaries = 32 << 20

// of returns the summary of a text, which is parsed once.
func (c *summaries) of(text source) summary {
	h := sha256.New()
	_, _ = h.Write([]byte(text.file + "\x00")) // of positions
	_, _ = h.Write(text.data)
	key := [sha256.Size]byte(h.Sum(nil))
	c.mu.Lock()
	s, ok := c.known[key]
	c.mu.Unlock()
	if ok {
		return s
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
	c.mu.Lock()
	defer c.mu.Unlock()
	if s.workflow != nil {
		c.size += len(s.workflow.Description) + len(s.workflow.Inputs)
	}
	if c.size += 1 << 10; c.known == nil || c.size > maxSummaries {
		c.known, c.size = map[[sha256.Size]byte]summary{}, 0
	}
	c.known[key] = s
	return s
}
