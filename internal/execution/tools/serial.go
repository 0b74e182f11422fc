package tools

import (
	"cmp"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/sandpiper-mcp/sandpiper/internal/clock"
	"github.com/sandpiper-mcp/sandpiper/internal/tool"
)

// serialCalls finds servers that answered concurrent calls of an execution one after another.
type serialCalls struct {
	mu   sync.Mutex
	open map[string]*concurrentCalls // by server
}

// concurrentCalls are calls of one server of which each began while another was in progress.
type concurrentCalls struct {
	inProgress int
	calls      []callSpan
	failed     bool // one of them
}

// callSpan is the time of a call, on the clock of the execution, which stops while it waits for a person.
type callSpan struct {
	tool       string
	start, end time.Duration
}

const (
	// minLost is the time that answers in order must have cost to be worth a sentence.
	minLost = 250 * time.Millisecond
	// maxSpans limits the calls that are compared.
	maxSpans = 256
)

// begin counts a call, and returns a function for its end, which returns a sentence if the server has
// answered concurrent calls one after another, else "".
func (s *serialCalls) begin(ref tool.Ref, of *clock.Clock) func(error) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	c := s.open[ref.Server]
	if c == nil {
		c = &concurrentCalls{}
		if s.open == nil {
			s.open = map[string]*concurrentCalls{}
		}
		s.open[ref.Server] = c
	}
	c.inProgress++
	start := -of.Remaining()
	return func(err error) string {
		s.mu.Lock()
		defer s.mu.Unlock()
		c.failed = c.failed || err != nil
		if len(c.calls) < maxSpans {
			c.calls = append(c.calls, callSpan{ref.Tool, start, -of.Remaining()})
		}
		if c.inProgress--; c.inProgress > 0 {
			return ""
		}
		delete(s.open, ref.Server)
		return c.explain(ref.Server)
	}
}

// explain returns the sentence about calls that have ended.
func (c *concurrentCalls) explain(server string) string {
	if c.failed || len(c.calls) < 2 || !areSerial(c.calls) {
		return ""
	}
	first, last := c.calls[0], c.calls[len(c.calls)-1]
	took := last.end - first.start
	if last.end-first.end < minLost {
		return ""
	}
	return fmt.Sprintf("%d concurrent calls of %s took %s, one after another: the server, or its limit `concurrency`, takes one call "+
		"at a time",
		len(c.calls), server, took.Round(100*time.Millisecond))
}

// areSerial sorts calls by their end, and reports whether they look like calls of a server that takes
// one at a time: each had begun before the answer before its own, and the times between answers are like
// the time of the first one. Two calls could do so by accident, so theirs must be nearly equal and of one tool.
func areSerial(calls []callSpan) bool {
	slices.SortFunc(calls, func(a, b callSpan) int { return cmp.Or(cmp.Compare(a.end, b.end), cmp.Compare(a.start, b.start)) })
	least, most := 0.5, 2.0
	if len(calls) == 2 {
		if least, most = 0.8, 1.25; calls[0].tool != calls[1].tool {
			return false
		}
	}
	first := (calls[0].end - calls[0].start).Seconds()
	for i, one := range calls[1:] {
		gap := (one.end - calls[i].end).Seconds()
		if one.start > calls[i].end || gap < least*first || gap > most*first {
			return false
		}
	}
	return true
}
