package execution

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/sandpiper-mcp/sandpiper/internal/home/journal"
	"github.com/sandpiper-mcp/sandpiper/internal/sandbox/admit"
)

// Event is the next event of an execution: exactly one field is set. It is a plain
// value that survives JSON.
type Event struct {
	Progress  *Progress  `json:"progress,omitempty"`
	Questions []Question `json:"questions,omitempty"` // all open questions
	Done      *Result    `json:"done,omitempty"`
}

// Progress is the progress that the running code reports. Total 0 means unknown.
type Progress struct {
	Done    float64 `json:"done"`
	Total   float64 `json:"total,omitempty"`
	Message string  `json:"message,omitempty"`
}

// Execution is a handle on one execution. Several handles may observe the same
// execution; one handle must not be used concurrently.
type Execution struct {
	run          *run
	minInterval  time.Duration // between two Progress events
	lastProgress int           // number of the Progress returned last
	nextProgress time.Time     // earliest time of the next Progress event
	lastQuestion int           // number of the last Question returned
}

// ID returns the id of the execution.
func (e *Execution) ID() string { return e.run.id }

// Session returns the session that the execution is a step of; "" without one.
func (e *Execution) Session() string { return e.run.session }

// PendingQuestions returns how many questions were open when the execution was
// interrupted, if this is a resumed run.
func (e *Execution) PendingQuestions() int { return e.run.pendingQuestions }

// Ended returns a channel that is closed when the execution has ended.
func (e *Execution) Ended() <-chan struct{} { return e.run.ended }

// QuestionClosed returns a channel that is closed once the question with this id is
// no longer open: it was answered, perhaps in another way, or withdrawn.
func (e *Execution) QuestionClosed(id string) <-chan struct{} { return e.run.closed(id) }

// RepeatQuestions makes Next return the questions that are still open once more.
func (e *Execution) RepeatQuestions() { e.lastQuestion-- }

// Next waits for the next Event: the latest Progress not yet returned, Questions if one
// was asked since the last time, or Done. Unread Progress is replaced by later Progress
// and never blocks the code. After Done, every call returns it again. An error is that
// of ctx, or states why the code could not be run.
func (e *Execution) Next(ctx context.Context) (Event, error) {
	for {
		p, n, changed := e.run.latest()
		select {
		case <-e.run.ended:
			return e.run.finalEvent()
		default:
		}
		if e.run.questions.lastNumber() > e.lastQuestion {
			if err := e.gatherQuestions(ctx); err != nil {
				return Event{}, err
			}
			var open []Question
			if open, e.lastQuestion = e.run.questions.open(); len(open) > 0 {
				return Event{Questions: open}, nil
			}
			continue
		}
		wait := time.Until(e.nextProgress)
		if n > e.lastProgress && wait <= 0 {
			e.lastProgress, e.nextProgress = n, time.Now().Add(e.minInterval)
			return Event{Progress: &p}, nil
		}
		var again <-chan time.Time
		if n > e.lastProgress { // too soon after the previous one
			changed, again = nil, time.After(wait)
		}
		select {
		case <-e.run.ended:
			return e.run.finalEvent()
		case <-ctx.Done():
			return Event{}, context.Cause(ctx)
		case <-changed:
		case <-again:
		}
	}
}

// A question is returned together with others that follow within gatherInterval; this
// wait is repeated at most maxGather times.
const (
	gatherInterval = 20 * time.Millisecond
	maxGather      = 5
)

func (e *Execution) gatherQuestions(ctx context.Context) error {
	for range maxGather {
		before := e.run.questions.lastNumber()
		select {
		case <-e.run.ended:
			return nil
		case <-time.After(gatherInterval):
		case <-ctx.Done():
			return context.Cause(ctx)
		}
		if e.run.questions.lastNumber() == before {
			return nil
		}
	}
	return nil
}

// run is the state of one execution that its handles share.
type run struct {
	id      string
	started time.Time
	session string // "" without one
	questions
	lifetime
	record           *journal.Record // for resuming; nil if the execution is not recorded
	seed             []byte          // of randomness in the code; nil without a record
	pendingQuestions int             // questions that were open when the previous run was interrupted
	resumable        bool            // after ended: it can be resumed
	guardReport
	delivered atomic.Bool   // a handle has returned the final event
	internal  bool          // started by Sandpiper, not by the tenant: neither counted nor found
	ended     chan struct{} // closed once result and err are set
	calls     atomic.Int64  // tool calls

	mu       sync.Mutex
	progress Progress
	number   int           // of the latest progress, from 1
	changed  chan struct{} // closed at the next change; nil if nothing waits for it

	result Result // after ended
	err    error  // likewise: why there is no result
}

func newRun(id string) *run {
	return &run{id: id, started: time.Now().UTC(), ended: make(chan struct{})}
}

// latest returns the latest progress, its number, and a channel that is closed at the
// next change.
func (x *run) latest() (Progress, int, <-chan struct{}) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.changed == nil {
		x.changed = make(chan struct{})
	}
	return x.progress, x.number, x.changed
}

// report replaces the latest progress.
func (x *run) report(p Progress) {
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
	x.report(Progress{Message: fmt.Sprintf("waiting for a free slot: expected to start in %s%s", admit.FormatSeconds(p.Start), others)})
}

// notifyLocked wakes the handles. The caller holds x.mu.
func (x *run) notifyLocked() {
	if x.changed != nil {
		close(x.changed)
		x.changed = nil
	}
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
