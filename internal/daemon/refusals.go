package daemon

import (
	"sync"
	"time"

	"github.com/sandpiper-mcp/sandpiper/internal/audit"
	"github.com/sandpiper-mcp/sandpiper/internal/store/tenant"
)

// refusalsInterval is the time between two audit lines about refused requests of one
// kind, so that a client that tries many tokens or ids does not fill the disk.
const refusalsInterval = time.Minute

// refusals records refused requests in the audit log, per tenant and outcome: the first
// at once, those of the next minute in one line with their count and without an id.
type refusals struct {
	record func(audit.Line)

	mu      sync.Mutex
	pending map[refusal]*pendingRefusals // an entry is deleted one interval after its last line
}

// refusal identifies the refusals that are counted together.
type refusal struct {
	kind    audit.Kind
	tenant  tenant.ID // zero for tokens, which identify no tenant
	outcome string
}

type pendingRefusals struct {
	count int64 // not recorded yet
	due   *time.Timer
}

func newRefusals(record func(audit.Line)) *refusals {
	return &refusals{record: record, pending: map[refusal]*pendingRefusals{}}
}

// add records or counts one refusal, and reports whether it was recorded at once.
func (r *refusals) add(l audit.Line) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	k := refusal{l.Kind, l.Tenant, l.Outcome}
	if p := r.pending[k]; p != nil {
		p.count++
		return false
	}
	l.Count = 1
	r.record(l)
	r.wait(k)
	return true
}

// wait counts refusals for one interval. The caller holds mu.
func (r *refusals) wait(k refusal) {
	r.pending[k] = &pendingRefusals{due: time.AfterFunc(refusalsInterval, func() { r.flush(k) })}
}

// flush runs one interval after a line.
func (r *refusals) flush(k refusal) {
	r.mu.Lock()
	defer r.mu.Unlock()
	p := r.pending[k]
	if p == nil { // closed
		return
	}
	delete(r.pending, k)
	if p.count > 0 {
		r.write(k, p.count)
		r.wait(k)
	}
}

func (r *refusals) write(k refusal, count int64) {
	r.record(audit.Line{Kind: k.kind, Tenant: k.tenant, Outcome: k.outcome, Count: count})
}

// close records pending refusals.
func (r *refusals) close() {
	r.mu.Lock()
	defer r.mu.Unlock()
	for k, p := range r.pending {
		p.due.Stop()
		if p.count > 0 {
			r.write(k, p.count)
		}
	}
	clear(r.pending)
}
