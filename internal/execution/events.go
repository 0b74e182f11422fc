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

// Event is what an execution has to say: exactly one field is set. It is a
// plain value that survives JSON.
type Event struct {
	Progress  *Progress  `json:"progress,omitempty"`
	Questions []Question `json:"questions,omitempty"` // all that are open
	Done      *Result    `json:"done,omitempty"`
}

// Progress is how far running code says it is. Total 0 means unknown.
type Progress struct {
	Done    float64 `json:"done"`
	Total   float64 `json:"total,omitempty"`
	Message string  `json:"message,omitempty"`
}

// Execution is a handle on one execution. Several handles may watch the same
// one; a handle itself is used by one goroutine at a time.
type Execution struct {
	run   *run
	every time.Duration // between two Progress
	seen  int           // number of the Progress returned last
	quiet time.Time     // until when no Progress is returned
	asked int           // number of the last Question returned
}

// ID names the execution.
func (e *Execution) ID() string { return e.run.id }

// Session is the session that it is a step of; "" without one.
func (e *Execution) Session() string { return e.run.session }

// Waited is how many questions of the code were open when the execution was cut
// short, if this is a second run of it.
func (e *Execution) PendingQuestions() int { return e.run.waited }

// Ended is closed when the execution has ended.
func (e *Execution) Ended() <-chan struct{} { return e.run.ended }

// Closed returns a channel that is closed once the question of an id is not open any
// more: it was answered, perhaps in another way, or nobody wants to know.
func (e *Execution) QuestionClosed(id string) <-chan struct{} { return e.run.closed(id) }

// Again makes Next return the questions that are still open once more.
func (e *Execution) RepeatQuestions() { e.asked-- }

// Next waits for the next Event: the latest Progress not yet returned, Questions
// if one was asked since they were returned last, or Done. Progress that nobody
// waited for is replaced by later progress and never holds up the code. Once
// there is Done, every call returns it. An error is that of ctx, or says why the
// code could not be run at all.
func (e *Execution) Next(ctx context.Context) (Event, error) {
	for {
		p, n, changed := e.run.latest()
		select {
		case <-e.run.ended:
			return e.run.end()
		default:
		}
		if e.run.questions.asked() > e.asked {
			if err := e.gather(ctx); err != nil {
				return Event{}, err
			}
			var open []Question
			if open, e.asked = e.run.questions.open(); len(open) > 0 {
				return Event{Questions: open}, nil
			}
			continue
		}
		wait := time.Until(e.quiet)
		if n > e.seen && wait <= 0 {
			e.seen, e.quiet = n, time.Now().Add(e.every)
			return Event{Progress: &p}, nil
		}
		var again <-chan time.Time
		if n > e.seen { // there is one, but too soon after the last
			changed, again = nil, time.After(wait)
		}
		select {
		case <-e.run.ended:
			return e.run.end()
		case <-ctx.Done():
			return Event{}, context.Cause(ctx)
		case <-changed:
		case <-again:
		}
	}
}

// gatherFor is how long a question waits for others that the code asks beside it, and
// gatherTimes how often.
const (
	gatherFor   = 20 * time.Millisecond
	gatherTimes = 5
)

func (e *Execution) gather(ctx context.Context) error {
	for range gatherTimes {
		before := e.run.questions.asked()
		select {
		case <-e.run.ended:
			return nil
		case <-time.After(gatherFor):
		case <-ctx.Done():
			return context.Cause(ctx)
		}
		if e.run.questions.asked() == before {
			return nil
		}
	}
	return nil
}

// run is the state of one execution that its handles share.
type run struct {
	id      string
	began   time.Time
	session string // "" without one
	questions
	holder
	record *journal.Record // what it takes to run it again; nil if it is not kept
	seed   []byte          // of what is random in the code; nil without a record
	waited int             // questions that were open when it was cut short before
	left   bool            // after ended: it can be run again
	guarding
	told     atomic.Bool   // somebody knows how it ended
	unlisted bool          // ours, not the tenant's: neither counted nor found
	ended    chan struct{} // closed once result and err are set
	calls    atomic.Int64  // of tools

	mu       sync.Mutex
	progress Progress
	number   int           // of the latest progress, from 1
	changed  chan struct{} // closed at the next progress; nil if nobody waits for it

	result Result // after ended
	err    error  // likewise: why there is no result
}

func newRun(id string) *run { return &run{id: id, began: time.Now().UTC(), ended: make(chan struct{})} }

// latest returns the latest progress, its number, and a channel that is closed
// when there is a later one.
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
	x.wake()
}

// queued reports when the execution is expected to start.
func (x *run) queued(p admit.Position) {
	others := ""
	switch {
	case p.Ahead == 1:
		others = ", after 1 other execution"
	case p.Ahead > 1:
		others = fmt.Sprintf(", after %d other executions", p.Ahead)
	}
	x.report(Progress{Message: fmt.Sprintf("waiting for a free slot: expected to start in %s%s", admit.FormatSeconds(p.Start), others)})
}

// wake tells the handles that something has changed. The caller holds the lock.
func (x *run) wake() {
	if x.changed != nil {
		close(x.changed)
		x.changed = nil
	}
}

// end returns the last event, after ended.
func (x *run) end() (Event, error) {
	x.told.Store(true)
	if x.err != nil {
		return Event{}, x.err
	}
	r := x.result
	return Event{Done: &r}, nil
}

// size is about how many bytes the ended run holds.
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
