package daemon

import (
	"sync"
	"time"

	"github.com/sandpiper-mcp/sandpiper/internal/audit"
)

// refusalsEvery is how often refused clients have a line in the audit log: whoever
// tries very many tokens is not to fill the disk.
const refusalsEvery = time.Minute

// refusals have clients on record that showed a token which nobody has. The first
// has a line at once, those of the next minute have one together.
type refusals struct {
	record func(audit.Line)

	mu    sync.Mutex
	count int64       // that have no line yet
	due   *time.Timer // nil if there was none for a while
}

func newRefusals(record func(audit.Line)) *refusals { return &refusals{record: record} }

func (r *refusals) add() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.count++
	if r.due == nil {
		r.tell()
		r.due = time.AfterFunc(refusalsEvery, r.next)
	}
}

// next is a minute after a line.
func (r *refusals) next() {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.due == nil {
		return
	}
	if r.due = nil; r.count > 0 {
		r.tell()
		r.due = time.AfterFunc(refusalsEvery, r.next)
	}
}

// tell has a line for those that have none. The caller holds mu.
func (r *refusals) tell() {
	if r.count > 0 {
		r.record(audit.Line{Kind: audit.Login, Outcome: "refused", Count: r.count})
	}
	r.count = 0
}

// close records those that have no line yet.
func (r *refusals) close() {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.due != nil {
		r.due.Stop()
		r.due = nil
	}
	r.tell()
}
