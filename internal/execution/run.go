package execution

import (
	"cmp"
	"context"
	"crypto/rand"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/sandpiper-mcp/sandpiper/internal/execution/guard"
	"github.com/sandpiper-mcp/sandpiper/internal/execution/live"
	"github.com/sandpiper-mcp/sandpiper/internal/execution/question"
	"github.com/sandpiper-mcp/sandpiper/internal/execution/reply"
	"github.com/sandpiper-mcp/sandpiper/internal/execution/skills"
	"github.com/sandpiper-mcp/sandpiper/internal/home"
	"github.com/sandpiper-mcp/sandpiper/internal/home/approval"
	"github.com/sandpiper-mcp/sandpiper/internal/home/journal"
	"github.com/sandpiper-mcp/sandpiper/internal/sandbox/admit"
)

// run is the state of one execution that its handles share.
type run struct {
	id            string
	StoredRequest // what it runs; zero for a plan
	started       time.Time
	questions     question.Set
	lifetime
	record           *journal.Record // for resuming; nil if the execution is not recorded
	pendingQuestions int             // questions that were open when the previous run was interrupted
	resumable        bool            // after ended: it can be resumed
	guard.Report
	delivered  atomic.Bool                // a handle has returned the final event
	stopped    atomic.Bool                // its process was ended while it was suspended
	background atomic.Pointer[background] // nil unless it is a background execution
	promotion
	showing  atomic.Int32  // callers that show its questions
	wait     waiting       // what the code waits for without a process
	internal bool          // started by Sandpiper, not by the tenant: neither counted nor found
	ended    chan struct{} // closed once result and err are set
	calls    atomic.Int64  // tool calls
	skills   skills.Used

	mu       sync.Mutex
	progress live.Progress
	number   int           // of the latest progress, from 1
	changed  chan struct{} // closed at the next change; nil if nothing waits for it

	result reply.Result // after ended
	err    error        // likewise: why there is no result
}

// NewID returns an unguessable id: 130 random bits.
func NewID() string { return "exec_" + strings.ToLower(rand.Text()) }

// newRun returns a run; a nil b means that a caller waits for it.
func newRun(id string, what StoredRequest, b *background) *run {
	x := &run{id: id, StoredRequest: what, started: time.Now().UTC(), ended: make(chan struct{})}
	x.background.Store(b)
	return x
}

// latest returns the latest progress, its number, and a channel that is closed at the
// next change.
func (x *run) latest() (live.Progress, int, <-chan struct{}) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.changed == nil {
		x.changed = make(chan struct{})
	}
	return x.progress, x.number, x.changed
}

// report replaces the latest progress.
func (x *run) report(p live.Progress) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.progress = p
	x.number++
	x.notifyLocked()
}

// reportQueued reports when the execution is expected to start.
func (x *run) reportQueued(p admit.Position) {
	others := ""
	switch {
	case p.Ahead == 1:
		others = ", after 1 other execution"
	case p.Ahead > 1:
		others = fmt.Sprintf(", after %d other executions", p.Ahead)
	}
	x.report(live.Progress{Message: fmt.Sprintf("waiting for a free slot: expected to start in %s%s", admit.FormatSeconds(p.Start),
		others)})
}

// notifyLocked wakes the handles. The caller holds x.mu.
func (x *run) notifyLocked() {
	if x.changed != nil {
		close(x.changed)
		x.changed = nil
	}
}

// notify wakes the handles.
func (x *run) notify() {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.notifyLocked()
}

// finalEvent returns the last event. It must be called after ended.
func (x *run) finalEvent() (Event, error) {
	x.delivered.Store(true)
	if x.err != nil {
		return Event{}, x.err
	}
	r := x.result
	return Event{Done: &r}, nil
}

// size estimates how many bytes the ended run holds.
func (x *run) size() int {
	r := &x.result
	n := 1024 + len(r.Value) + len(r.Error) + len(r.Traceback) + len(r.Stderr)
	for _, o := range r.Output {
		n += len(o) + 16
	}
	for _, m := range r.Images {
		n += len(m.Data)
	}
	return n
}

// statusOf returns the status under which x is counted.
func statusOf(x *run) string {
	if x.err != nil {
		return "not_run"
	}
	return string(x.result.Status)
}

func (x *run) hasEnded() bool {
	select {
	case <-x.ended:
		return true
	default:
		return false
	}
}

// interrupted reports whether x has ended and can be resumed, or is about to wait without its process. Its outcome must
// be delivered first.
func (x *run) interrupted() bool {
	return x.wait.until() || x.hasEnded() && x.resumable && x.delivered.Load()
}

// closeAnswered closes the questions of x that package approval has too and that were answered in
// another way, such as on the command line.
func (x *run) closeAnswered(ctx context.Context, home *home.Home) error {
	open, _ := x.questions.List()
	for _, q := range open {
		id := cmp.Or(q.Approval, q.Request)
		if id == "" {
			continue
		}
		r, err := home.Approvals.Find(ctx, id)
		if err != nil {
			return err
		}
		if r.State != approval.Open {
			x.questions.Close(q.ID)
		}
	}
	return nil
}
