package daemon

import (
	"sync"
	"time"

	"github.com/sandpiper-mcp/sandpiper/internal/audit"
)

// refusalsInterval is the time between two audit lines about rejected tokens, so that a
// client that tries many tokens does not fill the disk.
const refusalsInterval = time.Minute

// refusals records rejected tokens in the audit log: the first at once, those of the
// next minute in one line.
type refusals struct {
	record func(audit.Line)

	mu    sync.Mutex
	count int64       // not recorded yet
	due   *time.Timer // nil unless a line was written in the last interval
}

func newRefusals(record func(audit.Line)) *refusals { return &refusals{record: record} }

func (r *refusals) add() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.count++
	if r.due == nil {
		r.write()
		r.due = time.AfterFunc(refusalsInterval, r.flush)
	}
}

// flush runs one interval after a line.
func (r *refusals) flush() {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.due == nil {
		return
	}
	if r.due = nil; r.count > 0 {
		r.write()
		r.due = time.AfterFunc(refusalsInterval, r.flush)
	}
}

// write records pending refusals. The caller holds mu.
func (r *refusals) write() {
	if r.count > 0 {
		r.record(audit.Line{Kind: audit.Login, Outcome: "refused", Count: r.count})
	}
	r.count = 0
}

// close records pending refusals.
func (r *refusals) close() {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.due != nil {
		r.due.Stop()
		r.due = nil
	}
	r.write()
}
